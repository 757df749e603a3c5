#include "allocators/caching/async_allocator.h"

#include <algorithm>
#include <exception>

#include "allocators/caching/settings.h"

namespace allocmark::caching {

AsyncAllocator::AsyncAllocator(Driver& driver, std::uint64_t memory_limit_bytes, const Rules& rules)
    : driver_(driver),
      rules_(rules),
      limit_bytes_(memory_limit_bytes == 0 ? kUnlimited : memory_limit_bytes) {}

AsyncAllocator::~AsyncAllocator() {
  if (!prepared_) return;
  try {
    for (const auto& [address, use] : uses_) give_back(address, use);
    driver_.wait_for_device();
    driver_.trim_pool();
    driver_.destroy_stream(unifier_);
  } catch (const std::exception&) {
    // The allocator is going away and nobody can act on it.
  }
}

// On first use, as PyTorch does it: a program that never allocates leaves the device alone.
void AsyncAllocator::prepare() {
  if (prepared_) return;
  driver_.prepare_pool();
  unifier_ = driver_.create_stream();
  prepared_ = true;
}

std::optional<std::uint64_t> AsyncAllocator::allocate(std::uint64_t size_bytes, Stream stream) {
  prepare();
  std::optional<std::uint64_t> address;
  const bool allowed = size_bytes <= limit_bytes_ && used_bytes_ <= limit_bytes_ - size_bytes;
  if (allowed) address = driver_.pool_allocate(size_bytes, stream);
  if (allowed && !address && rules_.pool_retries) {
    // Only for this stream: what others still use stays in the pool.
    driver_.wait_for_stream(stream);
    driver_.trim_pool();
    address = driver_.pool_allocate(size_bytes, stream);
  }
  if (!address) {
    last_failure_ = AsyncOutOfMemory{.requested_bytes = size_bytes, .allocated_bytes = used_bytes_};
    if (limit_bytes_ != kUnlimited) last_failure_->limit_bytes = limit_bytes_;
    last_failure_->device = driver_.memory();
    last_failure_->rules = &rules_;
    return std::nullopt;
  }
  used_bytes_ += size_bytes;
  uses_.insert_or_assign(*address, Use{.size_bytes = size_bytes, .stream = stream});
  return address;
}

bool AsyncAllocator::deallocate(std::uint64_t address) {
  const auto found = uses_.find(address);
  if (found == uses_.end()) return false;
  give_back(address, found->second);
  used_bytes_ -= found->second.size_bytes;
  uses_.erase(found);
  return true;
}

void AsyncAllocator::give_back(std::uint64_t address, const Use& use) {
  if (use.other_streams.empty()) return driver_.pool_free(address, use.stream);
  join(use.stream);
  for (const Stream stream : use.other_streams) join(stream);
  driver_.pool_free(address, unifier_);
}

// Makes the unifier wait for everything now queued on `stream`.
void AsyncAllocator::join(Stream stream) {
  const Event event = driver_.create_event();
  try {
    driver_.record_event(event, stream);
    driver_.make_stream_wait(unifier_, event);
  } catch (...) {
    driver_.destroy_event(event);
    throw;
  }
  driver_.destroy_event(event);
}

bool AsyncAllocator::record_stream(std::uint64_t address, Stream stream) {
  const auto found = uses_.find(address);
  if (found == uses_.end()) return false;
  Use& use = found->second;
  if (use.stream == stream) return true;
  if (std::ranges::find(use.other_streams, stream) == use.other_streams.end())
    use.other_streams.push_back(stream);
  return true;
}

void AsyncAllocator::empty_cache() {
  if (!prepared_) return;
  driver_.wait_for_device();
  driver_.trim_pool();
}

Counters AsyncAllocator::counters() const {
  Counters counters;
  counters.max_split_size = 0;
  if (rules_.counts_rejections) counters.num_oom_rejections = 0;
  if (!prepared_) return counters;
  const PoolUsage usage = driver_.pool_usage();
  const auto show = [](std::uint64_t bytes, std::uint64_t bytes_peak) {
    return Stat::of(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(bytes_peak));
  };
  counters.allocated_bytes.show_all(show(usage.used_bytes, usage.used_bytes_peak));
  counters.active_bytes.show_all(show(usage.used_bytes, usage.used_bytes_peak));
  counters.reserved_bytes.show_all(show(usage.reserved_bytes, usage.reserved_bytes_peak));
  return counters;
}

}  // namespace allocmark::caching
