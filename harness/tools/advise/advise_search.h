// The searches that an advice rests on: every setting on the job itself, the best on its other
// seeds and its worst case. Options flow in, facts flow out. Nothing is timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/search/frameworks.h"
#include "harness/core/search/search.h"
#include "harness/core/search/variants.h"
#include "harness/job/interrupt.h"
#include "harness/shell/question/job_options.h"
#include "harness/shell/question/job_release.h"
#include "harness/tools/advise/verdict.h"
#include "results/schema.h"

namespace allocmark {

struct AdviceSearch {
  SearchResult own;                   // all settings
  std::vector<VariantSearch> others;  // the best of them
  std::vector<SettingFacts> judged;   // of the own job and all variants that can be served
  JobRelease release;                 // of PyTorch
  std::optional<Framework> framework = std::nullopt;  // not PyTorch; then settings have its names
  std::uint64_t setting_count = 0;                    // that were to be searched
  bool interrupted = false;
  double seconds = 0;
  // What the card leaves, where the capacity is a limit of the process.
  std::optional<std::uint64_t> limited_card_left_bytes = std::nullopt;

  [[nodiscard]] bool is_impossible() const { return own.needed_bytes > own.capacity_bytes; }
};

struct AdviceQuestion {
  const JobOptions& job;
  std::string workload;   // on the device's card
  std::string capacity;   // as on the command line
  std::string device;     // simulated
  std::string framework;  // of framework_names(); empty: PyTorch
};

// The allocator and config string of a setting, named as in SettingFacts::conf; nothing else of the
// key is set.
[[nodiscard]] CellKey key_of(const AdviceSearch& search, const std::string& setting);

[[nodiscard]] AdviceSearch search_job(const AdviceQuestion& question,
                                      const InterruptGuard& interrupt);

// The verdict over all variants; where none of the settings serves the worst case too, over the
// seeds alone, and `warning` says so.
struct JobVerdict {
  SettingVerdict verdict;
  std::string warning;
};
// `per`: what the costs are of, "per step".
[[nodiscard]] JobVerdict judge(const AdviceSearch& search, const std::vector<FinalistCost>& costs,
                               std::string_view per);

// "expandable_segments:True needs 20.7 to 22.5 GiB over seeds 1 to 3, 23.8 GiB with the longest
// lengths"; empty where there is one variant.
[[nodiscard]] std::string needs_spread(const std::string& conf, const AdviceSearch& search,
                                       std::uint64_t seed);

}  // namespace allocmark
