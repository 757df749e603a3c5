// Matches the cells of two runs, judges every number, and says whether the comparison passes.
#include "results/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "results/columns/columns.h"
#include "results/compare/compare_conclude.h"
#include "results/compare/compare_environment.h"
#include "results/compare/compare_numbers.h"
#include "results/compare/compare_outcome.h"
#include "results/compare/known_cells.h"
#include "results/compare/side_cells.h"
#include "results/compare/stability.h"
#include "results/compare/timed_numbers.h"
#include "results/compare/two_runs.h"
#include "results/derived.h"
#include "results/statistics/shift.h"

namespace allocmark {
namespace {

// Values are known up to a bucket, 1/64 of an octave wide at most; a smaller spread between passes
// is that of the buckets, not of the passes. The standard deviation of a uniform 1/64.
constexpr double kSpreadMin = 1.0 / 64 / 3.4641016151377544;

// A timed number of a cell that awaits its verdict: p-values are corrected over all of them.
struct PendingNumber {
  std::size_t cell_index = 0, number_index = 0;
  std::string_view name = {};
  PassQuantiles quantiles = {};
  Disturbance disturbance = {};
  std::optional<Shift> shift = {};
};

class Comparer {
 public:
  Comparer(const RunSide& base, const RunSide& now, const ComparePolicy& policy,
           const std::optional<Calibration>& calibration, NumbersKept kept)
      : base_(base),
        now_(now),
        base_cells_(base),
        now_cells_(now),
        policy_(policy),
        calibration_(calibration),
        kept_(kept) {}

  Comparison run();

 private:
  void match_cells();
  void add_absent(const RunSide& side, const SideCells& cells, std::set<std::string>& reported);
  void leave_out_same(CellComparison& cell) const;
  void match(std::size_t base_index, std::size_t now_index);
  void compare_measured(const CellResult& base, const CellResult& now);
  void add_timed(const CellResult& base, const CellResult& now, CellComparison& cell);
  static void add_flags(const RunSide& side, const CellResult& measured, CellComparison& cell);
  void estimate_shifts();
  void judge_timed(const PendingNumber& pending, double p_value_adjusted);
  void add_run_notes(const RunSide& side, const SideCells& cells);
  void incomplete(const CellKey& key, std::string reason) {
    result_.incomplete.push_back({.key = key, .reason = std::move(reason)});
  }

  const RunSide& base_;
  const RunSide& now_;
  SideCells base_cells_, now_cells_;
  const ComparePolicy& policy_;
  const std::optional<Calibration>& calibration_;
  NumbersKept kept_;
  // What stands for a calibration where there is none: 0 where runs were interleaved.
  [[nodiscard]] double default_bound(const PendingNumber& pending) const;

  EnvironmentVerdict environment_;
  double clock_step_ns_ = 0;          // the coarser of the two runs'
  std::size_t other_pass_count_ = 0;  // cells with another number of passes on either side
  std::set<std::string> edited_;      // scenarios and trace files that differ between the runs
  std::deque<PendingNumber> pending_;
  std::map<std::string_view, CellShifts> cell_shifts_;
  TextPool texts_;  // of numbers
  Comparison result_;
};

Comparison Comparer::run() {
  result_.base_label = base_.label;
  result_.now_label = now_.label;
  result_.base_environment = base_.file.environment;
  result_.now_environment = now_.file.environment;
  clock_step_ns_ = std::max(base_.file.environment.clock_resolution_ns,
                            now_.file.environment.clock_resolution_ns);
  result_.calibrated = calibration_.has_value();
  environment_ = compare_environments(base_.file.environment, now_.file.environment,
                                      policy_.environment_ignored);
  result_.notes = environment_.notes;
  if (!environment_.host_note.empty()) result_.notes.push_back(environment_.host_note);
  add_run_notes(base_, base_cells_);
  add_run_notes(now_, now_cells_);
  match_cells();
  if (other_pass_count_ > 0) {
    result_.notes.push_back(
        fmt::format("{} cells have another number of passes on either side", other_pass_count_));
  }
  for (const std::string& what : edited_) {
    result_.notes.push_back(what + " is not the same in both runs");
  }
  estimate_shifts();
  conclude(policy_, result_);
  return std::move(result_);
}

void Comparer::add_run_notes(const RunSide& side, const SideCells& cells) {
  for (const std::string& warning : side.file.environment.warnings)
    result_.notes.push_back(side.label + ": " + warning);
  std::vector<Decisions> decided;
  for (const CellOutline& cell : cells.outlines()) decided.push_back(cell.decisions);
  for (const std::string& note : {decisions_sentence(decided), uncalled_record_note(cells)}) {
    if (!note.empty()) result_.notes.push_back(side.label + ": " + note);
  }
  if (side.file.replaced_line_count > 0) {
    result_.notes.push_back(
        fmt::format("{}: {} cells were run more than once; the last result of "
                    "each counts",
                    side.label, side.file.replaced_line_count));
  }
  if (side.file.torn) {
    result_.faults.push_back(
        fmt::format("{}: line {} is cut short: the run is still being written or was killed",
                    side.label, side.file.torn_line));
  }
}

void Comparer::match_cells() {
  const KnownCells known(now_cells_.outlines());
  const std::span<const CellOutline> base_cells = base_cells_.outlines();
  result_.cells.reserve(base_cells.size());
  std::set<std::string> seen;
  for (std::size_t index = 0; index < base_cells.size(); ++index) {
    const CellKey& key = base_cells[index].key;
    const std::optional<std::size_t> found = known.find(key);
    seen.insert(found ? now_cells_.outlines()[*found].key.id() : key.id());
    found ? match(index, *found) : incomplete(key, now_.label + ": " + missing_text(key, known));
  }
  std::size_t new_count = 0;
  for (const CellOutline& cell : now_cells_.outlines()) {
    if (seen.insert(cell.key.id()).second) ++new_count;
  }
  if (new_count > 0) {
    result_.notes.push_back(
        fmt::format("{} cells are only in {} and are not compared", new_count, now_.label));
  }
  std::set<std::string> reported;
  for (const IncompleteCell& cell : result_.incomplete) reported.insert(cell.key.id_by_name());
  add_absent(base_, base_cells_, reported);
  add_absent(now_, now_cells_, reported);
}

void Comparer::add_absent(const RunSide& side, const SideCells& cells,
                          std::set<std::string>& reported) {
  if (side.planned.empty()) return;
  std::set<std::string> measured;
  for (const CellOutline& cell : cells.outlines()) measured.insert(cell.key.id());
  std::size_t absent_count = 0;
  for (const CellKey& key : side.planned) {
    if (measured.contains(key.id()) || !reported.insert(key.id_by_name()).second) continue;
    ++absent_count;
    incomplete(key, side.label + ": planned, but has no result");
  }
  if (absent_count == 0) return;
  result_.notes.push_back(fmt::format(
      "{}: {} planned cells have no result: the run was broken off or is still being written",
      side.label, absent_count));
}

void Comparer::match(std::size_t base_index, std::size_t now_index) {
  const CellKey& key = base_cells_.outlines()[base_index].key;
  const CellStatus base_status = base_cells_.outlines()[base_index].status;
  const CellStatus now_status = now_cells_.outlines()[now_index].status;
  const bool now_measured = is_measured_status(now_status);
  if (is_measured_status(base_status) && now_measured) {
    return compare_measured(base_cells_.whole(base_index), now_cells_.whole(now_index));
  }
  if (base_status == CellStatus::Skipped && now_status == CellStatus::Skipped) {
    ++result_.skipped_count;
    return;
  }
  // A process that somebody ended says nothing of the allocator.
  if (!now_measured && now_status == CellStatus::Interrupted) {
    return incomplete(key, outcome_text(now_.label, now_cells_.whole(now_index)));
  }
  if (base_status == CellStatus::Skipped && now_measured) {
    result_.notes.push_back(
        fmt::format("{} was skipped in {} and ran in {}", key.allocator, base_.label, now_.label));
    ++result_.skipped_count;
    return;
  }
  result_.cells.push_back(compare_outcomes(base_.label, base_cells_.whole(base_index), now_.label,
                                           now_cells_.whole(now_index)));
}

void Comparer::compare_measured(const CellResult& base, const CellResult& now) {
  CellComparison cell{.key = base.key, .now_wall_s = now.wall_s};
  const auto refuse = [&](std::string reason) {
    cell.verdict = Verdict::NotComparable;
    cell.reason = std::move(reason);
    result_.cells.push_back(std::move(cell));
  };
  const std::string edited = edited_workload(base.key, now.key);
  if (!edited.empty()) edited_.insert(edited);
  if (base.trace_hash != now.trace_hash) return refuse(other_work(base, now));
  if (base.key.capacity != "unlimited" && base.capacity_bytes != now.capacity_bytes) {
    return refuse(fmt::format("the capacity differs: {} and {} bytes", base.capacity_bytes,
                              now.capacity_bytes));
  }
  const ExactSides sides{
      .base = &base, .now = &now, .base_processes = {&base}, .now_processes = {&now}};
  cell.numbers = compare_exact(sides, policy_);
  // Whoever asks for times alone is told of what is worse than slow.
  if (policy_.scope == CompareScope::Timed) {
    std::erase_if(cell.numbers, [](const NumberComparison& number) { return !number.safety; });
  } else {
    for (NumberComparison& number : cell.numbers) {
      // Failed requests are worse on any device; bytes and calls are the device's.
      const bool stays = number.verdict == Verdict::Same || number.safety;
      if (environment_.exact_reason.empty() || stays) continue;
      number.decide(Verdict::NotComparable, environment_.exact_reason);
    }
  }
  if (kept_ == NumbersKept::Differing) leave_out_same(cell);
  if (policy_.scope != CompareScope::Exact) {
    add_timed(base, now, cell);
    add_flags(base_, base, cell);
    add_flags(now_, now, cell);
  }
  // The null allocator measures the harness, which no change of an allocator can make worse.
  cell.gated = base.key.allocator != kNullAllocator;
  if (base.pass_count != now.pass_count) ++other_pass_count_;
  for (NumberComparison& number : cell.numbers) share_texts(texts_, number);
  cell.numbers.shrink_to_fit();
  result_.cells.push_back(std::move(cell));
}

// The policy may say of single numbers that they do not count, so those stay.
void Comparer::leave_out_same(CellComparison& cell) const {
  const auto is_same = [&](const NumberComparison& number) {
    const auto& listed = policy_.report_only;
    return number.verdict == Verdict::Same && !number.safety && number.name != "status" &&
           std::find(listed.begin(), listed.end(), number.name) == listed.end();
  };
  cell.same_left_out = std::erase_if(cell.numbers, is_same);
}

void Comparer::add_flags(const RunSide& side, const CellResult& measured, CellComparison& cell) {
  for (const std::string& flag :
       stability_flags(measured, side.file.environment.clock_resolution_ns)) {
    cell.flags.push_back(side.label + ": " + flag);
  }
}

void Comparer::add_timed(const CellResult& base, const CellResult& now, CellComparison& cell) {
  const std::string other = other_requests({&base}, {&now});
  const Disturbance disturbed =
      disturbance({base_.file.environment, base}, {now_.file.environment, now});
  for (const TimedNumber& timed : timed_numbers()) {
    if (!has_number(base, timed) && !has_number(now, timed)) continue;
    NumberComparison number{.name = std::string(timed.name),
                            .timed = true,
                            .base = stored_value(base, timed),
                            .now = stored_value(now, timed),
                            .base_interval = pooled_quantile(base, timed, policy_.confidence),
                            .now_interval = pooled_quantile(now, timed, policy_.confidence)};
    if (number.base_interval) number.base = number.base_interval->value;
    if (number.now_interval) number.now = number.now_interval->value;
    if (!number.base && !number.now) continue;
    PassQuantiles quantiles = pass_quantiles(base, now, timed, clock_step_ns_);
    const std::uint64_t wanted = samples_wanted(timed);
    if (!other.empty()) {
      number.decide(Verdict::NotComparable, other);
      number.excused = true;
    } else if (is_of_process(timed)) {
      number.decide(Verdict::Undecided, "one process on each side: only an A/B run can tell");
    } else if (!environment_.timed_reason.empty()) {
      number.decide(Verdict::NotComparable, environment_.timed_reason);
    } else if (!quantiles.known) {
      number.decide(Verdict::NotComparable, "one side has no samples");
    } else if (quantiles.base.size() < 2 || quantiles.now.size() < 2) {
      number.decide(Verdict::Undecided,
                    "fewer than two passes with this quantile: their spread is not known");
    } else if (quantiles.sample_count_min < wanted) {
      number.verdict = Verdict::Undecided;
      number.reason =
          fmt::format("{} samples in a pass, {} are needed", quantiles.sample_count_min, wanted);
    } else {
      pending_.push_back({.cell_index = result_.cells.size(),
                          .number_index = cell.numbers.size(),
                          .name = timed.name,
                          .quantiles = std::move(quantiles),
                          .disturbance = disturbed});
    }
    cell.numbers.push_back(std::move(number));
  }
}

void Comparer::estimate_shifts() {
  std::map<std::string_view, std::vector<Spread>> spreads;
  for (const PendingNumber& pending : pending_) {
    Spread spread = pooled_spread(pending.quantiles.base, pending.quantiles.now).value();
    spread.variance = std::max(spread.variance, kSpreadMin * kSpreadMin);
    spreads[pending.name].push_back(spread);
  }
  std::map<std::string_view, SpreadPrior> priors;
  for (const auto& [name, list] : spreads) priors[name] = fit_spread_prior(list);
  std::vector<double> p_values;
  std::map<std::string_view, std::vector<double>> shifts;
  for (PendingNumber& pending : pending_) {
    pending.shift = estimate_shift(pending.quantiles.base, pending.quantiles.now,
                                   {.confidence = policy_.confidence,
                                    .spread_min = kSpreadMin,
                                    .prior = priors[pending.name]});
    p_values.push_back(pending.shift->p_value);
    shifts[pending.name].push_back(pending.shift->estimate);
  }
  for (auto& [name, list] : shifts) cell_shifts_[name] = CellShifts(name, std::move(list));
  const std::vector<double> adjusted = benjamini_hochberg(p_values);
  for (std::size_t i = 0; i < pending_.size(); ++i) judge_timed(pending_[i], adjusted[i]);
}

double Comparer::default_bound(const PendingNumber& pending) const {
  if (calibration_ || !policy_.default_bounds) return 0;
  return cell_shifts_.at(pending.name).bound(pending.shift->estimate, pending.disturbance);
}

void Comparer::judge_timed(const PendingNumber& pending, double p_value_adjusted) {
  NumberComparison& number = result_.cells[pending.cell_index].numbers[pending.number_index];
  const Shift& shift = *pending.shift;
  number.change = std::expm1(shift.estimate);
  number.change_low = std::expm1(shift.low);
  number.change_high = std::expm1(shift.high);
  number.p_value = shift.p_value;
  number.p_value_adjusted = p_value_adjusted;
  const double effect_min = policy_.effect_min_of(number.name, true);
  const NoiseBound* bound = calibration_ ? calibration_->find(number.name) : nullptr;
  const double noise = bound != nullptr ? bound->shift_bound : default_bound(pending);
  const double reach = std::log1p(std::max(effect_min, noise));
  const double same_reach = std::log1p(effect_min);
  const bool differs = p_value_adjusted <= policy_.false_share_of_runs();
  number.verdict = Verdict::Undecided;
  const double clear = (shift.estimate > 0 ? *number.change_low : -*number.change_high);
  const double base_ns = number.base.value_or(0);
  const bool below_step =
      base_ns * std::abs(*number.change) <= clock_step_ns_ || base_ns * clear <= clock_step_ns_ / 2;
  if (differs && std::abs(shift.estimate) > same_reach && below_step) {
    number.reason = fmt::format("not clear of the clock's step of {:.3g} ns", clock_step_ns_);
  } else if (differs && std::abs(shift.estimate) > same_reach && bound == nullptr &&
             policy_.calibration_required) {
    number.reason = calibration_ ? "the calibration does not have this number"
                                 : "the policy wants a calibration";
  } else if (differs && std::abs(shift.estimate) > reach) {
    number.verdict = shift.estimate > 0 ? Verdict::Worse : Verdict::Better;
  } else if (noise > effect_min) {
    number.reason = fmt::format("two runs of the same thing differ by up to {:.3g} %{}",
                                noise * 100, bound_source(bound != nullptr, pending.disturbance));
  } else if (shift.low > -same_reach && shift.high < same_reach) {
    number.verdict = Verdict::Same;
  } else {
    number.reason = "more passes would tell";
  }
  share_texts(texts_, number);
}

}  // namespace

Comparison compare_runs(const RunSide& base, const RunSide& now, const ComparePolicy& policy,
                        const std::optional<Calibration>& calibration, NumbersKept kept) {
  if (calibration) check_calibration(*calibration, base.file.environment, now.file.environment);
  return Comparer(base, now, policy, calibration, kept).run();
}

}  // namespace allocmark
