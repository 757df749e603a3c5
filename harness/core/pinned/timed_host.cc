// See timed_host.h.
#include "harness/core/pinned/timed_host.h"

#include <algorithm>
#include <limits>

#include "harness/simcuda/core/pinning_costs.h"

namespace allocmark {
namespace {

using host_caching::Address;
using host_caching::PinKind;
using simcuda::PinCall;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// Threads touch the pages between them; then one call registers all.
std::uint64_t pin_ns(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  if (kind == PinKind::HostAlloc) return pinning_ns(PinCall::Allocate, size_bytes);
  const std::uint64_t touched_ns = pinning_ns(PinCall::RegisterTouched, size_bytes);
  const std::uint64_t touch_ns = pinning_ns(PinCall::Register, size_bytes) - touched_ns;
  return touched_ns + touch_ns / std::max<std::uint64_t>(1, thread_count);
}

}  // namespace

void TimedHost::charge(std::uint64_t took_ns) {
  now_ns_ += took_ns;
  pinning_ns_ += took_ns;
}

Address TimedHost::pin(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  const Address address = counting_.pin(size_bytes, kind, thread_count);
  if (address == 0) return 0;
  sizes_bytes_[address] = size_bytes;
  charge(pin_ns(size_bytes, kind, thread_count));
  return address;
}

void TimedHost::unpin(Address address, PinKind kind) {
  counting_.unpin(address, kind);
  const auto found = sizes_bytes_.find(address);
  charge(simcuda::pinning_ns(kind == PinKind::HostAlloc ? PinCall::Free : PinCall::Unregister,
                             found->second));
  sizes_bytes_.erase(found);
}

host_caching::Event TimedHost::record_event(host_caching::Stream stream) {
  const host_caching::Event event = counting_.record_event(stream);
  const bool is_gated = std::ranges::find(gated_, stream) != gated_.end();
  ends_ns_[event] = is_gated ? kNever : stream_ends_ns_[stream];
  return event;
}

bool TimedHost::event_done(host_caching::Event event) { return ends_ns_.at(event) <= now_ns_; }

void TimedHost::destroy_event(host_caching::Event event) {
  ends_ns_.erase(event);
  counting_.destroy_event(event);
}

void TimedHost::launch(std::uint32_t stream, std::uint64_t duration_ns) {
  std::uint64_t& end_ns = stream_ends_ns_[stream];
  end_ns = std::max(end_ns, now_ns_) + duration_ns;
}

void TimedHost::synchronize() {
  for (const std::uint64_t end_ns : stream_ends_ns_) now_ns_ = std::max(now_ns_, end_ns);
  gated_.clear();
  for (auto& [event, end_ns] : ends_ns_) end_ns = std::min(end_ns, now_ns_);
}

void TimedHost::wait_for(std::uint32_t stream) {
  if (std::ranges::find(gated_, stream) != gated_.end()) return synchronize();
  now_ns_ = std::max(now_ns_, stream_ends_ns_[stream]);
}

}  // namespace allocmark
