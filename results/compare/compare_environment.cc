// Environments held against each other, and noise bounds from runs of the same thing.
#include "results/compare/compare_environment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/median.h"
#include "results/compare/compare_numbers.h"
#include "results/compare/known_cells.h"
#include "results/compare/side_cells.h"
#include "results/derived.h"
#include "results/statistics/shift.h"

namespace allocmark {
namespace {

enum class Matters : std::uint8_t { Note, Timed, All };

struct EnvironmentField {
  const char* name;
  Matters matters;
  std::string (*value)(const Environment& environment);
};

template <auto Member>
std::string text_of(const Environment& environment) {
  return fmt::format("{}", environment.*Member);
}

// Where blocks lie and how often the device is asked depends on the device and its driver only;
// how long it takes depends on the host, too. What may differ is what a comparison is made for.
constexpr EnvironmentField kFields[] = {
    {"device", Matters::All, text_of<&Environment::device>},
    {"gpu_name", Matters::All, text_of<&Environment::gpu_name>},
    {"gpu_memory_bytes", Matters::All, text_of<&Environment::gpu_memory_bytes>},
    {"driver_version", Matters::All, text_of<&Environment::driver_version>},
    {"runtime_version", Matters::All, text_of<&Environment::runtime_version>},
    {"profile_hash", Matters::All, text_of<&Environment::profile_hash>},
    {"times_borrowed_from", Matters::All, text_of<&Environment::times_borrowed_from>},
    {"hostname_hash", Matters::Timed, text_of<&Environment::hostname_hash>},
    {"cpu_model", Matters::Timed, text_of<&Environment::cpu_model>},
    {"cpu_count", Matters::Timed, text_of<&Environment::cpu_count>},
    {"cpu_governor", Matters::Timed, text_of<&Environment::cpu_governor>},
    {"gpu_uuid_hash", Matters::Timed, text_of<&Environment::gpu_uuid_hash>},
    {"os", Matters::Timed, text_of<&Environment::os>},
    {"kernel", Matters::Timed, text_of<&Environment::kernel>},
    {"build_type", Matters::Timed, text_of<&Environment::build_type>},
    {"compiler", Matters::Note, text_of<&Environment::compiler>},
    {"allocmark_version", Matters::Note, text_of<&Environment::allocmark_version>},
    {"git_sha", Matters::Note, text_of<&Environment::git_sha>},
    {"schema_version", Matters::Note, text_of<&Environment::schema_version>},
};

// Pairs of cells that a noise bound must rest on: fewer do not show a 99 % quantile's order of
// size.
constexpr std::size_t kCalibrationPairCountMin = 20;

// How much longer a fixed program of host code takes on one run's host than on the other's
// (results/TIMES.md, "Host time on another host"), and whether something allows for it; empty
// where the hosts are about as fast or it is not known.
std::string host_speed_difference(const Environment& base, const Environment& now) {
  if (base.host_reference_ns <= 0 || now.host_reference_ns <= 0) return {};
  const double ratio = now.host_reference_ns / base.host_reference_ns;
  if (!hosts_are_apart(ratio)) return {};
  const bool to_one_host = base.profile_host_reference_ns > 0 &&
                           base.profile_host_reference_ns == now.profile_host_reference_ns;
  return fmt::format(
      "the same host code takes {:.2f} times as long on the host of NEW (host_reference_ns {:.0f} "
      "and {:.0f}), and host times are compared as measured: {}",
      ratio, base.host_reference_ns, now.host_reference_ns,
      to_one_host ? "the runs' *_scaled_* fields are for one host"
                  : "nothing here has them for one host");
}

void append(std::string& reasons, const std::string& difference) {
  reasons += reasons.empty() ? "the environment differs: " : "; ";
  reasons += difference;
}

[[noreturn]] void refuse_calibration(std::string what, std::string wanted, std::string got) {
  throw UsageError({.what = std::move(what),
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = "make one from at least two runs of the same build on this machine: "
                            "allocmark compare --calibrate FILE RUN RUN..."});
}

// Absolute shifts, as logarithms, of every timed number between all pairs of runs.
using Shifts = std::map<std::string_view, std::vector<double>>;

void add_shifts(const RunSide& base, const RunSide& now, Shifts& shifts) {
  const double clock_step_ns =
      std::max(base.file.environment.clock_resolution_ns, now.file.environment.clock_resolution_ns);
  const SideCells base_cells(base);
  const SideCells now_cells(now);
  const KnownCells known(now_cells.outlines());
  for (std::size_t index = 0; index < base_cells.outlines().size(); ++index) {
    const CellOutline& outline = base_cells.outlines()[index];
    const std::optional<std::size_t> found = known.find(outline.key);
    if (!found || !(now_cells.outlines()[*found].key == outline.key)) continue;
    if (!is_measured_status(outline.status) ||
        !is_measured_status(now_cells.outlines()[*found].status))
      continue;
    const CellResult& cell = base_cells.whole(index);
    const CellResult& other = now_cells.whole(*found);
    if (cell.trace_hash != other.trace_hash) continue;
    for (const TimedNumber& number : timed_numbers()) {
      const PassQuantiles quantiles = pass_quantiles(cell, other, number, clock_step_ns);
      if (!quantiles.known || quantiles.sample_count_min < samples_wanted(number)) {
        continue;
      }
      const auto shift = estimate_shift(quantiles.base, quantiles.now, {});
      if (shift) shifts[number.name].push_back(std::abs(shift->estimate));
    }
  }
}

// The spread of shifts that nothing caused: the larger of median + 3 robust standard deviations and
// the 99 % quantile by nearest rank.
NoiseBound noise_bound(std::string_view name, std::vector<double> shifts) {
  std::sort(shifts.begin(), shifts.end());
  const double middle = median(shifts);
  std::vector<double> deviations;
  for (const double shift : shifts) deviations.push_back(std::abs(shift - middle));
  constexpr double kNormalPerMad = 1.4826;
  const double robust = middle + 3 * kNormalPerMad * median(deviations);
  const auto at = [&](double q) {
    return shifts[static_cast<std::size_t>(std::ceil(q * static_cast<double>(shifts.size()))) - 1];
  };
  return {.number = std::string(name),
          .shift_bound = std::expm1(std::max(robust, at(0.99))),
          .shift_median = std::expm1(middle),
          .shift_p95 = std::expm1(at(0.95)),
          .pair_count = shifts.size()};
}

}  // namespace

EnvironmentVerdict compare_environments(const Environment& base, const Environment& now,
                                        const std::vector<std::string>& ignored) {
  EnvironmentVerdict verdict{.host_note = host_speed_difference(base, now)};
  for (const EnvironmentField& field : kFields) {
    const std::string before = field.value(base);
    const std::string after = field.value(now);
    if (before == after) continue;
    const std::string difference = fmt::format("{} was '{}', is '{}'", field.name, before, after);
    const bool may_differ = std::find(ignored.begin(), ignored.end(), field.name) != ignored.end();
    if (may_differ || field.matters == Matters::Note) {
      verdict.notes.push_back(difference);
      continue;
    }
    append(verdict.timed_reason, difference);
    if (field.matters == Matters::All) append(verdict.exact_reason, difference);
  }
  return verdict;
}

void check_calibration(const Calibration& calibration, const Environment& base,
                       const Environment& now) {
  for (const Environment* environment : {&base, &now}) {
    const auto check = [](const char* name, const std::string& wanted, const std::string& got) {
      if (wanted == got) return;
      refuse_calibration(fmt::format("the calibration is of another {}", name), wanted, got);
    };
    check("machine (hostname_hash)", environment->hostname_hash, calibration.hostname_hash);
    check("device", environment->device, calibration.device);
    check("build type", environment->build_type, calibration.build_type);
  }
}

Calibration calibrate(const std::vector<RunSide>& runs) {
  if (runs.size() < 2) {
    refuse_calibration("a calibration needs at least two runs", "2 or more",
                       std::to_string(runs.size()));
  }
  const Environment& first = runs.front().file.environment;
  Shifts shifts;
  for (std::size_t later = 1; later < runs.size(); ++later) {
    const Environment& environment = runs[later].file.environment;
    const EnvironmentVerdict verdict = compare_environments(first, environment, {});
    if (!verdict.timed_reason.empty() || !verdict.notes.empty()) {
      refuse_calibration("the runs are not of the same build on the same machine", runs[0].label,
                         runs[later].label + ": " + verdict.timed_reason +
                             (verdict.notes.empty() ? "" : verdict.notes.front()));
    }
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      add_shifts(runs[earlier], runs[later], shifts);
    }
  }
  Calibration calibration{.hostname_hash = first.hostname_hash,
                          .device = first.device,
                          .build_type = first.build_type,
                          .run_count = runs.size()};
  for (auto& [name, list] : shifts) {
    if (list.size() < kCalibrationPairCountMin) continue;
    calibration.bounds.push_back(noise_bound(name, std::move(list)));
  }
  if (calibration.bounds.empty()) {
    refuse_calibration(
        "the runs have too few cells in common",
        fmt::format("{} pairs of cells with enough samples and passes", kCalibrationPairCountMin),
        {});
  }
  return calibration;
}

}  // namespace allocmark
