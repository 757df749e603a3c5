// What a program pins under settings and releases of PyTorch, and exactly; and which setting pins
// least. Programs and config strings flow in, rows flow out.
#pragma once

#include <string>
#include <vector>

#include "allocators/caching/release.h"
#include "allocators/caching/settings.h"
#include "harness/core/pinned/host_replay.h"

namespace allocmark {

// One setting, in releases that do the same with it.
struct PinnedRow {
  std::vector<const caching::Rules*> releases;  // at least one, the oldest first
  std::string conf;                             // empty is unset
  std::string refused;         // why these releases do not accept it; then `use` says nothing
  caching::Settings settings;  // of the first release
  PinnedUse use;
  std::vector<std::string> dangers;
};

// The string, unset, and what stops the rounding where a release has that, in this order.
[[nodiscard]] std::vector<PinnedRow> pinned_rows(const PinnedProgram& program,
                                                 const std::vector<const caching::Rules*>& releases,
                                                 const std::string& conf);

struct ExactRow {
  std::string name;  // the calls that pin
  PinnedUse use;
};
[[nodiscard]] std::vector<ExactRow> exact_rows(const PinnedProgram& program);

// A pool that is not PyTorch's, under one setting.
struct OtherRow {
  std::string pool;  // "CuPy PinnedMemoryPool"
  std::string conf;  // "release_threshold_mb:max"; empty where it has no keys
  PinnedUse use;
};
// CuPy's, and the driver's pool as it is by default and as CCCL sets it. The driver's is missing
// for a program that is too large (pool_replay.h).
[[nodiscard]] std::vector<OtherRow> other_rows(const PinnedProgram& program);

struct PinnedAdvice {
  const caching::Rules* rules = nullptr;
  std::vector<PinnedRow> rows;  // settings that the release has and that are safe, the best first
  PinnedRow unset;
  std::vector<ExactRow> exact;
};
// Least pinned memory comes first; among those within a hundredth of the least, the one that spends
// the least time on pinning. Unset is first where nothing pins less by a hundredth.
[[nodiscard]] PinnedAdvice advise_pinned(const PinnedProgram& program, const caching::Rules& rules);

// "paste pinned_max_round_threshold_mb:1: ..." in a sentence or two.
[[nodiscard]] std::string verdict_text(const PinnedProgram& program, const PinnedAdvice& advice);

}  // namespace allocmark
