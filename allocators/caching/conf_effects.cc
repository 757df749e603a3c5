// What a good config string does to a program beyond what its keys say; see explain.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"
#include "allocators/caching/sizes.h"

namespace allocmark::caching {
namespace {

std::string stuck_text(std::uint64_t above_mb, std::uint64_t below_mb, std::uint64_t segment_mb,
                       std::uint64_t limit_mb) {
  return fmt::format(
      "a request above {0} MiB and below {1} MiB gets a segment of {2} MiB. That is at least "
      "max_split_size_mb, so once it is free no request below {3} MiB may use it: the next such "
      "request takes {2} MiB more from the device, and so on until memory is full",
      above_mb, below_mb, segment_mb, limit_mb);
}

// Requests below the limit whose segment is not: their segment is a multiple of 2 MiB, or the
// common one of requests below 10 MiB.
std::vector<std::string> stuck_requests(const Settings& settings) {
  const std::uint64_t limit_bytes = settings.max_split_size_bytes;
  std::vector<std::string> texts;
  if (limit_bytes == kUnlimited || settings.expandable_segments) return texts;
  const std::uint64_t limit_mb = limit_bytes / kMiB;
  const std::uint64_t common_bytes = settings.large_segment_size_bytes;
  if (common_bytes >= limit_bytes) {
    texts.push_back(
        stuck_text(kSmallSizeMax / kMiB, kOwnSegmentSizeMin / kMiB, common_bytes / kMiB, limit_mb));
  }
  const std::uint64_t own_bytes = round_up(limit_bytes, kOwnSegmentRounding);
  texts.push_back(
      stuck_text((own_bytes - kOwnSegmentRounding) / kMiB, limit_mb, own_bytes / kMiB, limit_mb));
  if (std::ranges::any_of(settings.roundup_power2_divisions, [](auto each) { return each >= 2; })) {
    texts.emplace_back("these sizes are those after roundup_power2_divisions");
  }
  return texts;
}

}  // namespace

std::vector<std::string> conf_effects(std::string_view conf, const Rules& rules) {
  const StrictConfig config = parse_strict(conf, rules);
  if (config.error || config.settings.backend == PoolBackend::CudaMallocAsync) return {};
  return stuck_requests(config.settings);
}

std::vector<std::string> conf_dangers(std::string_view conf, const Rules& rules) {
  const StrictConfig config = parse_strict(conf, rules);
  if (config.error || !rules.overflows_pinned) return {};
  const Settings& settings = config.settings;
  const std::uint64_t rounded_mb = settings.pinned_max_round_threshold_mb;
  const std::uint64_t kept_mb = settings.pinned_max_cached_size_mb;
  if (rounded_mb >= kept_mb) return {};
  const std::string kept =
      kept_mb == kUnlimited / kMiB ? "of any size" : fmt::format("of up to {} MiB", kept_mb);
  return {fmt::format(
      "PyTorch {0} overruns pinned host memory with this string: above {1} MiB "
      "(pinned_max_round_threshold_mb) sizes are not rounded, yet blocks {2} are kept "
      "(pinned_max_cached_size_mb), and a request may get a kept block that is smaller than it. "
      "No later release does this (PyTorch PR 192722). In 2.13 set "
      "pinned_max_cached_size_mb:{1}, the same as the other",
      rules.name(), rounded_mb, kept)};
}

}  // namespace allocmark::caching
