// See cut_histograms.h.
#include "results/cut_histograms.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "results/latency_histogram.h"

namespace allocmark {
namespace {

// Within a JSON text the quotes of these words have no backslash, so they never stand in a string.
constexpr std::string_view kBegin = "_histogram\":[";

// Reads the list that begins behind `at` and moves `at` behind its bracket.
bool read_list(const char*& at, const char* end, LatencyBuckets* buckets) {
  std::uint64_t total = 0;
  while (true) {
    std::uint64_t gap = 0;
    std::uint64_t count = 0;
    const auto first = std::from_chars(at, end, gap);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',') return false;
    const auto second = std::from_chars(first.ptr + 1, end, count);
    if (second.ec != std::errc() || second.ptr == end) return false;
    if (!add_bucket(gap, count, &total, buckets)) return false;
    at = second.ptr + 1;
    if (*second.ptr == ']') return true;
    if (*second.ptr != ',') return false;
  }
}

}  // namespace

bool add_bucket(std::uint64_t gap, std::uint64_t count, std::uint64_t* total,
                LatencyBuckets* buckets) {
  const std::uint32_t before = buckets->empty() ? 0 : buckets->back().index;
  const bool goes_on = gap > 0 || buckets->empty();
  if (!goes_on || gap >= kLatencyBucketCount - before) return false;
  if (count == 0 || count > kHistogramSampleCountMax - *total) return false;
  *total += count;
  buckets->push_back({.index = before + static_cast<std::uint32_t>(gap), .count = count});
  return true;
}

std::optional<CutLine> cut_histograms(std::string_view line) {
  CutLine cut;
  const char* const end = line.data() + line.size();
  std::size_t kept = 0;
  for (std::size_t found = 0; (found = line.find(kBegin, kept)) != std::string_view::npos;) {
    const char* at = line.data() + found + kBegin.size();
    LatencyBuckets buckets;
    if (!read_list(at, end, &buckets)) return std::nullopt;
    cut.text += line.substr(kept, found + kBegin.size() - 1 - kept);
    cut.text += std::to_string(cut.histograms.size());
    cut.histograms.push_back(std::move(buckets));
    kept = static_cast<std::size_t>(at - line.data());
  }
  cut.text += line.substr(kept);
  return cut;
}

}  // namespace allocmark
