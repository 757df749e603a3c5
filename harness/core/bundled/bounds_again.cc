// See bounds_again.h.
#include "harness/core/bundled/bounds_again.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/bundled/made_again.h"
#include "results/cell_words.h"

namespace allocmark {
namespace {

using Findings = std::vector<std::string>;

// Simulated driver time has noise that the order of calls decides.
constexpr double kTolerance = 0.1;

double host_ns_total(const CellResult& cell) {
  double total_ns = 0;
  for (const OperationLatency* one : {&cell.allocate, &cell.deallocate})
    if (one->host.count > 0) total_ns += one->host.mean_ns * static_cast<double>(one->host.count);
  return total_ns;
}

// A time of the allocator: what the driver takes of it is the same on every host.
struct Bounded {
  std::string_view name;
  double stored_ns, again_ns;
};

// What a coarse clock reads as nothing.
constexpr double kUnreadableNs = 10'000;

// `host_ns` is all that this host can have added to it here.
void must_hold_driver(const Bounded& time, double host_ns, Findings& findings) {
  const double least_ns = time.again_ns * (1 - kTolerance) - host_ns;
  if (least_ns <= 0 || time.stored_ns >= least_ns) return;
  findings.push_back(fmt::format("{}: stored {:.6g}, and the driver alone takes {:.6g}", time.name,
                                 time.stored_ns, least_ns));
}

void must_be_there(const Bounded& time, Findings& findings) {
  if (time.stored_ns > 0 || time.again_ns <= kUnreadableNs) return;
  findings.push_back(fmt::format("{} is left out", time.name));
}

// Failed requests have host time that no sample has.
double failed_ns_total(const CellResult& cell) {
  constexpr double kFailedNs = 100'000;
  return kFailedNs * static_cast<double>(cell.oom_count + cell.failed_again_count);
}

void check_steps(const CellResult& stored, const CellResult& again, Findings& findings) {
  const double all_ns = host_ns_total(again) + failed_ns_total(again);
  for (const Bounded& time :
       {Bounded{"allocator_ns_per_step", stored.allocator_ns_per_step,
                again.allocator_undisturbed_ns_per_step},
        Bounded{"allocator_undisturbed_ns_per_step", stored.allocator_undisturbed_ns_per_step,
                again.allocator_undisturbed_ns_per_step}}) {
    must_be_there(time, findings);
    must_hold_driver(time, all_ns, findings);
  }
  if (stored.allocator_scaled_ns_per_step > 0) {
    must_hold_driver({"allocator_scaled_ns_per_step", stored.allocator_scaled_ns_per_step,
                      again.allocator_undisturbed_ns_per_step},
                     all_ns, findings);
  }
  for (std::size_t pass = 0; pass < stored.passes.size(); ++pass) {
    const PassSummary& was = stored.passes[pass];
    const PassSummary& is = again.passes[pass];
    const double host_ns = std::min(all_ns, is.wall_ns) + failed_ns_total(again);
    const std::string place = fmt::format("passes[{}].", pass);
    must_hold_driver({place + "allocator_ns_per_step", was.allocator_ns_per_step,
                      is.allocator_undisturbed_ns_per_step},
                     host_ns, findings);
    must_hold_driver({place + "allocator_undisturbed_ns", was.allocator_undisturbed_ns,
                      is.allocator_undisturbed_ns},
                     host_ns, findings);
    must_hold_driver(
        {place + "request_latency_ns_p99", was.request_latency_ns_p99, is.request_latency_ns_p99},
        host_ns, findings);
  }
}

void check_requests(const CellResult& stored, const CellResult& again, Findings& findings) {
  if (!stored.requests || !again.requests) return;
  struct Row {
    std::string_view name;
    LatencySummary RequestLatency::*summary;
  };
  const double host_ns = host_ns_total(again) + failed_ns_total(again);
  for (const Row& row : {Row{"requests.latency_ns_", &RequestLatency::latency},
                         Row{"requests.first_token_latency_ns_", &RequestLatency::first_token},
                         Row{"requests.delay_ns_", &RequestLatency::delay}}) {
    const LatencySummary& was = (*stored.requests).*row.summary;
    const LatencySummary& is = (*again.requests).*row.summary;
    for (const auto& [name, quantile] :
         {std::pair{"p50", &LatencySummary::p50_ns}, std::pair{"p90", &LatencySummary::p90_ns},
          std::pair{"p99", &LatencySummary::p99_ns}, std::pair{"p999", &LatencySummary::p999_ns},
          std::pair{"max", &LatencySummary::max_ns}, std::pair{"mean", &LatencySummary::mean_ns}}) {
      must_hold_driver({std::string(row.name) + name, was.*quantile, is.*quantile}, host_ns,
                       findings);
    }
  }
}

// The words that `cell` says of itself on every machine and `other` does not.
void must_be_said(const CellResult& cell, const CellResult& other, std::string_view finding,
                  Findings& findings) {
  for (const std::string& warning : cell.warnings) {
    const bool of_machine = std::ranges::any_of(kWordsOfMachine, [&](std::string_view words) {
      return warning.find(words) != std::string::npos;
    });
    if (of_machine || std::ranges::find(other.warnings, warning) != other.warnings.end()) continue;
    findings.push_back(fmt::format("{}: {}", finding, warning));
  }
}

}  // namespace

Findings impossible_beside(const CellResult& stored, const CellResult& again) {
  Findings findings;
  must_be_said(again, stored, "lacks a warning", findings);
  must_be_said(stored, again, "has a warning that no such cell gets", findings);
  const bool same_passes = stored.passes.size() == again.passes.size();
  if (!same_passes || is_of_host(stored.key.allocator)) return findings;
  check_steps(stored, again, findings);
  check_requests(stored, again, findings);
  return findings;
}

}  // namespace allocmark
