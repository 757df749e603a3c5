// The estimate as a table and as JSON. Facts flow in; text flows out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/shell/question/card_choice.h"
#include "harness/shell/question/job_options.h"
#include "harness/shell/question/outside_memory.h"
#include "harness/tools/estimate/estimate.h"

namespace allocmark {

// Whether a card holds the job with a setting.
enum class CardFit : std::uint8_t {
  WithRoom,    // what is reserved where memory is plenty, and what is outside at most
  AfterFlush,  // every request is served after PyTorch gave cached memory back
  Unsure,      // only if what is outside is less than at most
  No,
};
[[nodiscard]] const char* fit_word(CardFit fit);
[[nodiscard]] CardFit fit_of(const JobEstimate& estimate, const SettingEstimate& setting,
                             const OutsideMemory& outside, std::uint64_t card_bytes);

// What cards leave to PyTorch at least and at most: the rooms that estimate_job tries.
[[nodiscard]] std::vector<std::uint64_t> rooms_of(const std::vector<CardRoom>& cards,
                                                  const LoadedLibraries& loaded);

// How far published measurements were from predictions, in percent of the allocator's part and
// beyond the range for what is outside. published_peaks_test holds both to their derivation from
// results/published/2026-11-26-published-peaks.
struct SpreadPercent {
  double low = 0, high = 0;
};
inline constexpr SpreadPercent kRecordedSpread = {.low = -11, .high = 16};
inline constexpr SpreadPercent kDescribedSpread = {.low = -11, .high = 34};

struct EstimateAnswer {
  std::string workload = {};  // as it was replayed, without marks
  JobEstimate estimate = {};
  std::string device = {};
  std::string gpu_name = {};
  std::uint64_t card_bytes = 0;
  LoadedLibraries loaded = {};
  OutsideMemory outside = {};  // on the device's card
  SpreadPercent spread = {};
  std::vector<CardRoom> cards = {};  // the smallest first
  std::string release_text = {};     // "2.15, the newest"
  std::vector<std::string> notes = {};
};

void print_estimate_table(const EstimateAnswer& answer, const JobOptions& job);
void print_estimate_json(const EstimateAnswer& answer, const JobOptions& job);

}  // namespace allocmark
