// Takes the histograms out of a result line before it is parsed: they are most of its numbers, and
// lists of small numbers are read many times faster than any JSON. A line flows in; the line with a
// number in the place of each histogram flows out, and the histograms. Judges nothing: a line that
// is not as we write it is left to the parser, which says what is wrong with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/schema.h"

namespace allocmark {

struct CutLine {
  std::string text;                        // "..._histogram":0 ... "..._histogram":1
  std::vector<LatencyBuckets> histograms;  // by that number
};

// Nothing where a histogram is no list of bucket, count, gap, count, ... as add_bucket takes them.
[[nodiscard]] std::optional<CutLine> cut_histograms(std::string_view line);

// Adds what is stored as the gap to the bucket before and a count. False where no histogram is so:
// a gap of 0, a bucket that there is not, no samples, or more of them than can be counted.
[[nodiscard]] bool add_bucket(std::uint64_t gap, std::uint64_t count, std::uint64_t* total,
                              LatencyBuckets* buckets);

}  // namespace allocmark
