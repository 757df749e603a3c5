// Goal: neither noise nor a missing range decides between settings. Method: cells whose passes take
// given times.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "results/answer/answer.h"
#include "tests/catch.h"
#include "tests/results/answer/answer_cells.h"
#include "tests/support/sample_run.h"
#include "tests/support/text_checks.h"

using namespace allocmark;
using namespace allocmark::answer_cells;

namespace {

// A cell whose passes take these times per step; the cell has their median.
CellResult passes_cell(const std::string& conf, std::vector<double> passes_ns,
                       std::uint64_t reserved_bytes = 3 * kGiB) {
  CellResult result = cell("caching", conf);
  result.reserved_bytes_peak = reserved_bytes;
  result.passes.resize(passes_ns.size());
  result.pass_count = static_cast<std::uint32_t>(passes_ns.size());
  for (std::size_t at = 0; at < passes_ns.size(); ++at) {
    result.passes[at].allocator_ns_per_step = passes_ns[at];
  }
  std::ranges::sort(passes_ns);
  result.allocator_ns_per_step = passes_ns[(passes_ns.size() - 1) / 2];
  return result;
}

}  // namespace

TEST_CASE("a wide range around a dear median makes no setting equal to cheap ones") {
  // The dear one needs least memory, and its cheapest pass is as cheap as the others.
  std::vector<CellResult> cells{step_cell("caching", "", 1e6, 3),
                                passes_cell("noisy:1", {4.8e5, 10.6e6, 12e6}, kGiB),
                                passes_cell("steady:1", {4.8e5, 4.9e5, 5e5}),
                                passes_cell("steady:2", {4.9e5, 5e5, 5.1e5}, 2 * kGiB)};
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching steady:2", "caching steady:1", "caching noisy:1"});
  CHECK(run_answer(cells, terminal_style()).paste == "export PYTORCH_CUDA_ALLOC_CONF=steady:2");
  // Nor where its median is that of the cheap ones and a half more.
  cells[1] = passes_cell("noisy:1", {4.8e5, 7.5e5, 8e5}, kGiB);
  CHECK(names_of(find_answer(group_of(cells)).settable).back() == "caching noisy:1");
}

TEST_CASE("of servers a wide range of request P99 makes no setting equal, either") {
  std::vector<CellResult> cells{cell("caching", "", 3), cell("caching", "noisy:1"),
                                cell("caching", "steady:1")};
  const auto store = [](CellResult& one, std::vector<double> p99s_ns) {
    one.requests = sample::requests(p99s_ns[1] / 300);
    for (std::size_t at = 0; at < p99s_ns.size(); ++at) {
      one.passes[at].request_latency_ns_p99 = p99s_ns[at];
    }
  };
  store(cells[0], {3e7, 3e7, 3e7});
  store(cells[1], {3e7, 6e8, 6.1e8});
  store(cells[2], {3e7, 3.1e7, 3.2e7});
  cells[1].reserved_bytes_peak = kGiB;
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching steady:1", "caching noisy:1"});
  CHECK(contains(lines_of(cells),
                 "- caching noisy:1: 600 ms request P99 (30.0 to 610), dear in 2 "
                 "of 3 passes, +570 ms against unset"));
}

TEST_CASE("a setting that is dear in some passes is called so, and costs what its passes cost") {
  std::vector<CellResult> cells{
      step_cell("caching", "", 1e6, 3), passes_cell("edge:1", {5e5, 12e6, 5e5, 5e5}, kGiB),
      passes_cell("steady:1", {7e5, 7e5, 7e5, 7e5}), passes_cell("steady:2", {9e6, 9e6, 9e6, 9e6})};
  // Its passes take 3.375 ms on average: more than 0.7, and less than 9.
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching steady:1", "caching edge:1", "caching steady:2"});
  CHECK(contains(lines_of(cells),
                 "- caching edge:1: 0.500 ms per step (0.500 to 12.0), dear in 1 of 4 passes, "));
  cells.resize(2);
  CHECK(contains(sentence_of(cells),
                 "edge:1 serves every request at 0.500 ms per step (-0.500 ms against unset), dear "
                 "in 1 of 4 passes (up to 12.0 ms)."));
  // Where unset itself is, too.
  cells[0] = passes_cell("", {5e5, 12e6, 12e6});
  cells[1] = passes_cell("steady:1", {4.9e5, 5e5, 5.1e5});
  CHECK(
      contains(sentence_of(cells),
               "caching unset serves every request at 12.0 ms per step, dear in 2 of 3 passes (up "
               "to 12.0 ms); steady:1 takes 0.500 ms per step (-11.5 ms against unset)."));
}

TEST_CASE("a setting that is dear in some passes never wins a tie by memory") {
  std::vector<double> often(40, 5e5);
  often[7] = 1.1e6;
  std::vector<CellResult> cells{step_cell("caching", "", 1e6, 3),
                                passes_cell("edge:1", often, kGiB),
                                passes_cell("steady:1", {5e5, 5.1e5, 5.2e5})};
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching steady:1", "caching edge:1"});
}

TEST_CASE("without steps the passes' scaled times rank, and have the range") {
  std::vector<CellResult> cells{cell("caching", "", 3), cell("caching", "a:1"),
                                cell("caching", "b:1")};
  // As measured a:1 is the dearer one: a call of it was preempted.
  cells[1].allocate.total.mean_ns *= 100;
  double pass_ns = 2e6;
  for (CellResult& one : cells) {
    for (PassSummary& pass : one.passes) pass.allocator_scaled_ns = pass_ns += 1e4;
    pass_ns *= 2;
  }
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching a:1", "caching b:1"});
  CHECK(contains(lines_of(cells),
                 "- caching a:1: 4.08 ms per pass in the allocator (4.07 to 4.09), "
                 "+2.06 ms against unset,"));
}

TEST_CASE("simulated times within 15 % are equal, however narrow their ranges") {
  std::vector<CellResult> cells{step_cell("caching", "", 1e6, 3),
                                passes_cell("a:1", {4.30e5, 4.31e5, 4.32e5}),
                                passes_cell("b:1", {4.78e5, 4.79e5, 4.80e5}, 2 * kGiB),
                                passes_cell("c:1", {5.20e5, 5.21e5, 5.22e5}, kGiB)};
  const std::vector<std::string> as_measured = {"caching a:1", "caching b:1", "caching c:1"};
  CHECK(names_of(find_answer(group_of(cells)).settable) == as_measured);
  // Passes of one run are cut to each other, and another run lies beside all of them.
  for (CellResult& one : cells) one.allocator_undisturbed_ns_per_step = one.allocator_ns_per_step;
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching b:1", "caching a:1", "caching c:1"});
  cells[0] = passes_cell("", {4.78e5, 4.79e5, 4.80e5});
  CHECK(contains(sentence_of(cells), "; no setting measured is cheaper beyond noise."));
  // Ranges that touch tell as little as those of measured times.
  cells = {passes_cell("", {4e5, 5e5, 7e5}), passes_cell("a:1", {3.9e5, 4.1e5, 6e5})};
  for (CellResult& one : cells) one.allocator_undisturbed_ns_per_step = one.allocator_ns_per_step;
  CHECK(contains(sentence_of(cells), "; no setting measured is cheaper beyond noise."));
}

TEST_CASE("times measured on a GPU are told apart by their ranges, 15 % or not") {
  std::vector<CellResult> cells{passes_cell("", {4.78e5, 4.79e5, 4.80e5}),
                                passes_cell("a:1", {4.30e5, 4.31e5, 4.32e5})};
  CHECK(contains(sentence_of(cells), "; a:1 takes 431 us per step (-48.0 us against unset)."));
  // Without steps: 12 % less in each pass, and nothing scaled or settled.
  cells = {step_cell("caching", "", 0), step_cell("caching", "a:1", 0)};
  cells[1].allocate.total.mean_ns *= 0.88;
  cells[1].deallocate.total.mean_ns *= 0.88;
  CHECK(contains(sentence_of(cells), "; a:1 takes 396 us per pass in the allocator (-54.0 us "));
}

TEST_CASE("one pass has no range, so that it makes no tie: the difference is named") {
  std::vector<CellResult> cells{passes_cell("", {78.1e6}), passes_cell("a:1", {1.9e6}),
                                passes_cell("b:1", {1.95e6}, kGiB)};
  CHECK(sentence_of(cells) ==
        "w at 1.1x (3.50 GiB): caching unset serves every request at 78.1 ms per step; a:1 takes "
        "1.90 ms per step (-76.2 ms against unset?). One pass has no range.");
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching a:1", "caching b:1"});
  // Two runs of one setting differ by as much.
  cells = {passes_cell("", {2e6}), passes_cell("a:1", {1.9e6})};
  CHECK(contains(sentence_of(cells),
                 "; no setting measured is more than 15 % cheaper. One pass has no range."));
  // Where unset fails, too.
  cells = {passes_cell("", {2e6}), passes_cell("a:1", {9e6}, kGiB), passes_cell("b:1", {1e6})};
  cells[0].oom_count = 3;
  CHECK(contains(sentence_of(cells),
                 "; b:1 serves every request at 1.00 ms per step (-1.00 ms "
                 "against unset?). One pass has no range."));
}

TEST_CASE("a step with the device's work is ranked by its time, and says what the setting adds") {
  std::vector<CellResult> cells{step_cell("caching", "", 1e5, 12), step_cell("caching", "a:1", 9e5),
                                step_cell("caching", "b:1", 1e5)};
  for (CellResult& one : cells) {
    one.kernel_ns_total = 1;
    one.host_ns_total = 1;
    one.step_ideal_ns_mean = 50e6;
    one.step_ns_mean = one.key.conf == "a:1" ? 51e6 : 80e6;
    for (PassSummary& pass : one.passes) pass.step_ns_mean = one.step_ns_mean;
  }
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching a:1", "caching b:1"});
  CHECK(contains(sentence_of(cells),
                 "51.0 ms per step, 1.00 ms of it the setting's (0 to 9.00 ms on a card)"));
  cells[1].step_ns_mean = 75e6;
  CHECK(contains(sentence_of(cells), "25.0 ms of it the setting's (12.5 to 45.0 ms on a card)"));
  CHECK_FALSE(contains(lines_of(cells), "not known here"));
  for (CellResult& one : cells) one.kernel_ns_total.reset();
  for (CellResult& one : cells) one.key.device = "sim:h100";
  CHECK_FALSE(contains(sentence_of(cells), "on average"));
  CHECK(contains(lines_of(cells), "The device's work is not known here"));
  for (CellResult& one : cells) one.retry_count = 1;
  CHECK(contains(sentence_of(cells), "100 us per step, 80.0 ms on average"));
}
