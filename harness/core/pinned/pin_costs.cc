// See pin_costs.h.
#include "harness/core/pinned/pin_costs.h"

#include <algorithm>
#include <limits>

#include "base/bytes.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

}  // namespace

using host_caching::Address;
using host_caching::PinKind;

void TimedHost::charge(std::uint64_t size_bytes, std::uint64_t ns_per_mib) {
  const double mib = static_cast<double>(size_bytes) / static_cast<double>(kMiB);
  const auto took_ns = static_cast<std::uint64_t>(mib * static_cast<double>(ns_per_mib));
  now_ns_ += took_ns;
  pinning_ns_ += took_ns;
}

Address TimedHost::pin(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  const Address address = counting_.pin(size_bytes, kind, thread_count);
  if (address == 0) return 0;
  sizes_bytes_[address] = size_bytes;
  charge(size_bytes, kind == PinKind::HostAlloc
                         ? costs_.host_alloc_ns
                         : costs_.register_touched_ns +
                               costs_.touch_ns / std::max<std::uint64_t>(1, thread_count));
  return address;
}

void TimedHost::unpin(Address address, PinKind kind) {
  counting_.unpin(address, kind);
  const auto found = sizes_bytes_.find(address);
  charge(found->second, kind == PinKind::HostAlloc ? costs_.free_host_ns : costs_.unregister_ns);
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
