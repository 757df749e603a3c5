// The verdict of a number that is counted, not timed: failed requests, bytes left behind, driver
// calls. Flows in: the counts of every pass of every process of both sides; flows out: a verdict,
// and in words what it rests on. An allocator that repeats itself is compared exactly; one that
// does not by an exact test. Neither times nor checks allocators.
// results/compare/VERDICTS.md, "Safety", has the rule.
#pragma once

#include <vector>

#include "results/compare/compare.h"

namespace allocmark {

// By process, in the order of rounds; of each process by pass, the checked one first.
using CountSeries = std::vector<std::vector<double>>;

// A random count is called more or fewer at this p-value of a one-sided exact test.
inline constexpr double kCountPMax = 0.01;
// A random count is the same where an increase beyond this share is excluded at 95 %.
inline constexpr double kCountShareMax = 0.10;

// Fills base, now, change, verdict and reason of a number that is better when it is less. Counts
// that others can reach (`shared`, as the memory of a GPU) are never taken for exact.
void judge_counts(const CountSeries& base, const CountSeries& now, bool shared,
                  NumberComparison& number);

}  // namespace allocmark
