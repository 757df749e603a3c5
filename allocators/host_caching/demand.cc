// See demand.h.
#include "allocators/host_caching/demand.h"

#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/number_text.h"

namespace allocmark::host_caching {
namespace {

constexpr std::uint64_t kSumMax = std::uint64_t{1} << 62;

}  // namespace

std::optional<Buffers> parse_buffers(std::string_view text) {
  Buffers buffers{.count = 1};
  if (const std::size_t times = text.find_first_of("xX*"); times != std::string_view::npos) {
    const auto count = number_in_text<std::uint64_t>(text.substr(0, times));
    if (!count) return std::nullopt;
    buffers.count = *count;
    text.remove_prefix(times + 1);
  }
  const std::optional<std::uint64_t> size_bytes = parse_bytes(text);
  if (!size_bytes || *size_bytes == 0 || buffers.count == 0 || buffers.count > kBuffersMax)
    return std::nullopt;
  if (*size_bytes > kSumMax / buffers.count) return std::nullopt;
  buffers.size_bytes = *size_bytes;
  return buffers;
}

std::uint64_t asked_bytes(std::span<const Buffers> buffers) {
  std::uint64_t sum_bytes = 0;
  for (const Buffers& each : buffers) sum_bytes += each.count * each.size_bytes;
  return sum_bytes;
}

PinnedNeed pinned_need(std::span<const Buffers> buffers, const caching::Settings& settings) {
  ALLOCMARK_ASSERT(asked_bytes(buffers) <= kSumMax);
  CountingDriver driver;
  HostCache cache(driver, settings);
  PinnedNeed need;
  for (const Buffers& each : buffers) {
    std::uint64_t block_bytes = 0;
    for (std::uint64_t i = 0; i < each.count; ++i)
      block_bytes = cache.allocate(each.size_bytes).size_bytes;
    need.block_bytes.push_back(block_bytes);
  }
  need.pinned_bytes = cache.pinned_bytes();
  return need;
}

}  // namespace allocmark::host_caching
