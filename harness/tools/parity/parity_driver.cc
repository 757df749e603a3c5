#include "harness/tools/parity/parity_driver.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "allocators/caching/sizes.h"

namespace allocmark::caching {

std::uint64_t ParityDriver::answer(std::uint64_t size_bytes) {
  if (!answer_.placed) throw ParityDivergence("asks the device for memory; PyTorch failed without");
  const std::uint64_t begin = answer_.segment_address;
  const auto above = live_.lower_bound(begin);
  const bool meets_above = above != live_.end() && above->first < begin + size_bytes;
  const bool meets_below =
      above != live_.begin() && std::prev(above)->first + std::prev(above)->second > begin;
  if (meets_above || meets_below) {
    throw ParityDivergence(
        "asks the device for memory; PyTorch used a segment that was there already");
  }
  live_.emplace(begin, size_bytes);
  return begin;
}

std::optional<std::uint64_t> ParityDriver::allocate(std::uint64_t size_bytes, Stream) {
  if (std::exchange(refuse_next_, false)) return std::nullopt;
  return answer(size_bytes);
}

std::optional<PageHandle> ParityDriver::create_page(std::uint64_t) {
  if (std::exchange(refuse_next_, false)) return std::nullopt;
  return ++page_count_;
}

void ParityDriver::record_event(Event event, Stream stream) {
  pending_.erase(event);
  if (busy_.contains(stream)) pending_.emplace(event, stream);
}

void ParityDriver::wait_for_event(Event event) {
  if (const auto found = pending_.find(event); found != pending_.end())
    wait_for_stream(found->second);
}

void ParityDriver::wait_for_stream(Stream stream) {
  busy_.erase(stream);
  std::erase_if(pending_, [&](const auto& entry) { return entry.second == stream; });
}

void ParityDriver::end_busy() {
  busy_.clear();
  pending_.clear();
}

std::optional<std::uint64_t> ParityDriver::pool_allocate(std::uint64_t size_bytes, Stream) {
  const std::uint64_t address = pool_next_;
  pool_next_ += round_up(std::max(size_bytes, kBlockSizeMin), kBlockSizeMin);
  pool_sizes_.emplace(address, size_bytes);
  usage_.used_bytes += size_bytes;
  usage_.used_bytes_peak = std::max(usage_.used_bytes_peak, usage_.used_bytes);
  return address;
}

void ParityDriver::pool_free(std::uint64_t address, Stream) {
  const auto found = pool_sizes_.find(address);
  usage_.used_bytes -= found->second;
  pool_sizes_.erase(found);
}

void ParityDriver::expect_pool_reserved(std::uint64_t bytes, std::uint64_t bytes_peak) {
  usage_.reserved_bytes = bytes;
  usage_.reserved_bytes_peak = bytes_peak;
}

}  // namespace allocmark::caching
