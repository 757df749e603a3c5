// What counts as a regression (the policy) and how far apart two runs of the same thing come on a
// machine (the calibration), both small JSON files. Flows in: their text; flows out: plain data.
// Neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace allocmark {

enum class CompareScope : std::uint8_t { All, Exact, Timed };

// results/compare/VERDICTS.md, "Policy", defines every key; these are the defaults.
struct ComparePolicy {
  // Smallest relative change of a P50 that is called one; other timed numbers have a multiple of
  // it (timed_numbers.h).
  double effect_min = 0.03;
  double confidence = 0.95;  // of the intervals
  // Expected share of false ones among the timed calls. Sides in turn are a gate; two runs are
  // also held to what two runs differ by.
  std::optional<double> false_share_max = {};  // where the policy names one, for both
  [[nodiscard]] double false_share_in_turns() const { return false_share_max.value_or(0.01); }
  [[nodiscard]] double false_share_of_runs() const { return false_share_max.value_or(0.05); }
  CompareScope scope = CompareScope::All;
  bool calibration_required = false;  // a timed number is called only with a calibration
  bool default_bounds = true;         // without one, built-in bounds stand for it
  bool fail_on_changed = false;
  bool fail_on_undecided = false;
  bool fail_on_not_comparable = true;
  std::vector<std::string> environment_ignored = {};  // fields that may differ
  std::vector<std::string> report_only = {};          // numbers that never fail the comparison
  std::vector<std::pair<std::string, double>> effect_min_by_number = {};

  // Of a timed number effect_min times its factor, of an exact one 0, where the policy names none.
  [[nodiscard]] double effect_min_of(std::string_view number, bool timed) const;
};

// `where` is the file's path for messages. Throws UsageError for what is no policy.
[[nodiscard]] ComparePolicy policy_from_json(const std::string& text, const std::string& where);

struct NoiseBound {
  std::string number = {};       // "allocate_latency_ns_p50"
  double shift_bound = 0;        // relative; above what A/A pairs of cells differ by
  double shift_median = 0;       // of the absolute relative differences
  double shift_p95 = 0;          // their 95 % quantile; 0 in files of schema before 1.3
  std::uint64_t pair_count = 0;  // pairs of cells it rests on
};

struct Calibration {
  std::string hostname_hash = {}, device = {}, build_type = {};
  std::uint64_t run_count = 0;
  std::vector<NoiseBound> bounds = {};
  [[nodiscard]] const NoiseBound* find(std::string_view number) const;
};

[[nodiscard]] std::string to_json(const Calibration& calibration);
[[nodiscard]] Calibration calibration_from_json(const std::string& text, const std::string& where);

}  // namespace allocmark
