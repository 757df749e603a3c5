// Goal: the answer ranks by what a user pays, tells a job that cannot fit from one that a setting
// rescues, and claims what the numbers support and no more. Method: groups made by hand, whole
// sentences as literals.
#include "results/answer/answer.h"

#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/results/answer/answer_cells.h"
#include "tests/support/sample_run.h"
#include "tests/support/text_checks.h"

using namespace allocmark;
using namespace allocmark::answer_cells;

TEST_CASE("settings are ranked by time per step, not by allocate's P99") {
  std::vector<CellResult> cells{step_cell("caching", "", 1e5, 12),
                                step_cell("caching", "a:1", 16e6),
                                step_cell("caching", "b:1", 8e5)};
  sample::fail_requests(cells[0], 0, 12);
  cells[1].allocate.total.p99_ns = 50;
  cells[2].allocate.total.p99_ns = 5000;
  const Answer answer = find_answer(group_of(cells));
  CHECK(names_of(answer.settable) == std::vector<std::string>{"caching b:1", "caching a:1"});
  CHECK(sentence_of(cells) ==
        "w at 1.1x (3.50 GiB): caching unset runs out of memory (free memory is fragmented); b:1 "
        "serves every request at 0.800 ms per step (+0.700 ms against unset).");
  CHECK(contains(lines_of(cells), "To set it: export PYTORCH_CUDA_ALLOC_CONF=b:1\n"));
  CHECK(contains(lines_of(cells),
                 "- caching a:1: 16.0 ms per step (15.8 to 16.2), +15.9 ms against unset, reserved "
                 "peak 3.00 GiB\n"));
}

TEST_CASE("where steps are scaled to the profile's host, the scaled ones rank") {
  std::vector<CellResult> cells{step_cell("caching", "", 9e5, 1), step_cell("caching", "a:1", 2e6),
                                step_cell("caching", "b:1", 1e6)};
  sample::fail_requests(cells[0], 0, 1);
  // The dearer one here calls the driver, whose time is the same on every host.
  const std::vector<double> scaled = {1e6, 21e5, 3e6};
  for (std::size_t at = 0; at < cells.size(); ++at) {
    cells[at].allocator_scaled_ns_per_step = scaled[at];
    for (PassSummary& pass : cells[at].passes) {
      pass.allocator_ns_per_step = cells[at].allocator_ns_per_step;
      pass.allocator_scaled_ns_per_step = scaled[at];
    }
  }
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching a:1", "caching b:1"});
  CHECK(contains(lines_of(cells),
                 "- caching a:1: 2.10 ms per step (2.10 to 2.10), +1.10 ms against unset"));
}

TEST_CASE("the one unit of time leaves the largest cost at least 1") {
  std::vector<CellResult> cells{step_cell("caching", "", 9e4, 1), step_cell("caching", "b:1", 8e5)};
  CHECK(contains(sentence_of(cells), "at 800 us per step (+710 us against unset)"));
}

TEST_CASE("a time per step stands beside the step's own length, where kernels tell it") {
  std::vector<CellResult> cells{step_cell("caching", "", 9e5, 1), step_cell("caching", "a:1", 2e6)};
  for (CellResult& one : cells) one.step_ns_p50 = 8.12e8;
  CHECK(contains(sentence_of(cells), "at 2.00 ms per step (+1.10 ms against unset)"));
  cells[1].kernel_ns_total = 5e9;
  CHECK(contains(sentence_of(cells), "at 2.00 ms per step of 812 ms (+1.10 ms against unset)"));
  CHECK(contains(lines_of(cells),
                 "- caching a:1: 2.00 ms per step of 812 ms (1.98 to 2.02), +1.10 "
                 "ms against unset"));
}

TEST_CASE("servers are ranked by request P99") {
  std::vector<CellResult> cells{cell("caching", "", 3), cell("caching", "a:1"),
                                cell("caching", "b:1")};
  for (CellResult& one : cells) one.allocator_ns_per_step = 5;
  cells[0].requests = sample::requests(2e5);
  cells[1].requests = sample::requests(3e5);
  cells[2].requests = sample::requests(1e5);
  const Answer answer = find_answer(group_of(cells));
  CHECK(answer.metric == CostMetric::RequestP99);
  CHECK(names_of(answer.settable) == std::vector<std::string>{"caching b:1", "caching a:1"});
  // These passes do not store their percentiles, so no difference is beyond doubt.
  CHECK(contains(sentence_of(cells), "30.0 ms request P99 (-30.0 ms against unset?)"));
  cells[2].requests->latency.count = 999;
  CHECK(contains(sentence_of(cells), "~30.0 ms request P99"));
}

TEST_CASE("without steps the cost is the allocator's time per pass, named so") {
  const std::vector<CellResult> cells{cell("caching", "", 1), cell("caching", "a:1", 0, 60)};
  CHECK(contains(sentence_of(cells), "us per pass in the allocator"));
}

TEST_CASE("costs that cannot be told apart are ranked by memory") {
  std::vector<CellResult> cells{
      step_cell("caching", "", 1e5, 12), step_cell("caching", "a:1", 800000),
      step_cell("caching", "b:1", 801000), step_cell("caching", "c:1", 900000)};
  cells[2].reserved_bytes_peak = kGiB;
  cells[3].reserved_bytes_peak = kMiB;
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching b:1", "caching a:1", "caching c:1"});
}

TEST_CASE("of equal cost and memory the setting with the fewest keys comes first") {
  std::vector<CellResult> cells{
      step_cell("caching", "", 1e5, 12), step_cell("caching", "a:1,b:2", 800000),
      step_cell("caching", "c:[1:2,3:4]", 830000), step_cell("caching", "d:1", 835000)};
  cells[1].reserved_bytes_peak = kGiB - kGiB / 128;
  cells[2].reserved_bytes_peak = kGiB;
  cells[3].reserved_bytes_peak = kGiB + kGiB / 64;
  CHECK(names_of(find_answer(group_of(cells)).settable) ==
        std::vector<std::string>{"caching c:[1:2,3:4]", "caching a:1,b:2", "caching d:1"});
}

TEST_CASE("ranges that hardly clear each other are not told apart") {
  std::vector<CellResult> cells{step_cell("caching", "", 800000, 1),
                                step_cell("caching", "a:1", 855000)};
  CHECK(contains(sentence_of(cells), "(+55.0 us against unset?)"));
  cells[1] = step_cell("caching", "a:1", 870000);
  CHECK(contains(sentence_of(cells), "(+70.0 us against unset)"));
}

TEST_CASE("a difference within the spread of the passes is marked") {
  std::vector<CellResult> cells{step_cell("caching", "", 800000, 1),
                                step_cell("caching", "a:1", 805000)};
  CHECK(contains(sentence_of(cells), "(+5.00 us against unset?)"));
  cells[1] = step_cell("caching", "a:1", 900000);
  CHECK(contains(sentence_of(cells), "(+100 us against unset)"));
  cells[1].passes.resize(1);
  CHECK(contains(sentence_of(cells), "(+100 us against unset?)"));
}

TEST_CASE("a range is that of the passes' own costs, where all of them store theirs") {
  std::vector<CellResult> cells{step_cell("caching", "", 800000, 1),
                                step_cell("caching", "a:1", 900000)};
  const auto store = [&](CellResult& one, double step_ns) {
    for (PassSummary& pass : one.passes) {
      pass.allocator_ns_per_step = step_ns;
      step_ns += 20000;
    }
  };
  store(cells[0], 790000);
  store(cells[1], 820000);
  CHECK(contains(lines_of(cells), "900 us per step (820 to 860), +100 us against unset?"));
  cells[1].passes[2].allocator_ns_per_step = 0;
  CHECK(contains(lines_of(cells), "900 us per step (891 to 909), +100 us against unset,"));
  cells[1].passes.resize(1);
  CHECK(contains(lines_of(cells), "900 us per step, +100 us against unset?"));
}

TEST_CASE("request P99 has the range of the passes' own") {
  std::vector<CellResult> cells{cell("caching", "", 3), cell("caching", "a:1")};
  cells[0].requests = sample::requests(2e5);
  cells[1].requests = sample::requests(1e5);
  for (CellResult& one : cells) {
    double p99_ns = one.requests->latency.p99_ns - 1e6;
    for (PassSummary& pass : one.passes) {
      pass.request_latency_ns_p99 = p99_ns;
      p99_ns += 1e6;
    }
  }
  CHECK(contains(sentence_of(cells), "30.0 ms request P99 (-30.0 ms against unset)"));
  CHECK(contains(lines_of(cells), "30.0 ms request P99 (29.0 to 31.0), -30.0 ms"));
}

TEST_CASE("what cannot be set in PyTorch stands apart, and never comes first") {
  std::vector<CellResult> cells{step_cell("caching", "", 1e5, 12), step_cell("cub", "", 2e5),
                                step_cell("async", "release_threshold_mb:max", 9e5),
                                step_cell("torch", "a:1", 5e5),
                                step_cell("async", "pool:own", 9e5)};
  const Answer answer = find_answer(group_of(cells));
  CHECK(names_of(answer.settable) ==
        std::vector<std::string>{"torch a:1", "async release_threshold_mb:max"});
  CHECK(names_of(answer.others) == std::vector<std::string>{"cub unset", "async pool:own"});
  CHECK(line_to_paste(cells[2].key) == "export PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync");
  cells = {step_cell("caching", "", 1e5, 12), step_cell("cub", "", 2e5)};
  CHECK(contains(sentence_of(cells), "(+100 us against unset), but is no setting of PyTorch."));
  CHECK_FALSE(contains(lines_of(cells), "To set it"));
}

TEST_CASE("a pool that depends on the device's work is said to") {
  std::vector<CellResult> cells{step_cell("caching", "", 1e5, 12),
                                step_cell("caching", "backend:cudaMallocAsync", 2e5)};
  cells[1].assumed_kernel_ns = 1;
  cells[1].idle_oom_count = 3;
  cells[1].trial_oom_count = 3;  // timed passes are idle
  CHECK(contains(sentence_of(cells), "it serves every request, on an idle device 3 fail"));
  cells[1].oom_count = 2;
  cells[1].idle_oom_count = 0;
  CHECK(contains(sentence_of(cells), "requests fail, on an idle device it serves every request"));
  CHECK(find_answer(group_of(cells)).settable.empty());
}

TEST_CASE("a line to paste is quoted where a shell would read more into it") {
  CHECK(line_to_paste(cell("caching", "roundup_power2_divisions:[256:1,>:8]").key) ==
        "export PYTORCH_CUDA_ALLOC_CONF='roundup_power2_divisions:[256:1,>:8]'");
  CHECK(line_to_paste(cell("caching", "it's").key) == "export PYTORCH_CUDA_ALLOC_CONF='it'\\''s'");
}

TEST_CASE("a job whose live peak exceeds the capacity is told so, however it ended") {
  std::vector<CellResult> cells{cell("caching", "", 12), cell("native", "", 5)};
  sample::fail_requests(cells[0], 1, 11);
  for (CellResult& one : cells) {
    one.requested_bytes_peak = 36 * kGiB;
    one.capacity_bytes = 24 * kGiB;
  }
  const std::string expected =
      "w at 1.1x (24.0 GiB) needs 36.0 GiB live, 24.0 GiB are there: no setting can help; 12.0 GiB "
      "must go.";
  CHECK(sentence_of(cells) == expected);
  CHECK(contains(lines_of(cells), "Live is what the program itself requests at once"));
  for (CellResult& one : cells) one.status = CellStatus::OomStopped;
  CHECK(sentence_of(cells) == expected);
  // With one byte of room it is no longer impossible, and not to be rescued by what is here.
  for (CellResult& one : cells) one.capacity_bytes = one.requested_bytes_peak;
  CHECK(contains(sentence_of(cells),
                 "runs out of memory (free memory is fragmented), and so does "
                 "every other setting measured."));
}

TEST_CASE("the main cause is named, not the first one") {
  std::vector<CellResult> cells{cell("caching", "", 12), cell("caching", "a:1")};
  cells[0].oom_cause_counts = {0, 7, 5, 0, 0};
  CHECK(contains(sentence_of(cells), "(rounding fills the capacity)"));
  cells[0].oom_cause_counts = {0, 5, 7, 0, 0};
  CHECK(contains(sentence_of(cells), "(free memory is kept for other streams or pools)"));
}

TEST_CASE("where nothing failed, a cheaper setting is named only beyond the noise") {
  std::vector<CellResult> cells{step_cell("caching", "", 800000),
                                step_cell("caching", "a:1", 795000)};
  CHECK(sentence_of(cells) ==
        "w at 1.1x (3.50 GiB): caching unset serves every request at 800 us per step; no setting "
        "measured is cheaper beyond noise.");
  cells[1] = step_cell("caching", "a:1", 700000);
  CHECK(contains(sentence_of(cells), "; a:1 takes 700 us per step (-100 us against unset)."));
}

TEST_CASE("large waste is said where nothing failed") {
  std::vector<CellResult> cells{cell("caching", ""), cell("caching", "a:1")};
  CHECK_FALSE(needs_answer(group_of(cells)));
  cells[1].reserved_bytes_peak = 139 * kGiB;
  cells[1].requested_bytes_peak = 22 * kGiB;
  CHECK(needs_answer(group_of(cells)));
  CHECK(contains(lines_of(cells),
                 "caching a:1 reserves 139 GiB at its peak for 22.0 GiB requested; caching unset "
                 "reserves 3.00 GiB.\n"));
  CHECK(contains(sentence_of(cells), "reserves 139 GiB at its peak for 22.0 GiB requested"));
  cells[0].reserved_bytes_peak = 130 * kGiB;
  CHECK(contains(lines_of(cells), "; no setting measured reserves less.\n"));
}

TEST_CASE("headroom is what the baseline leaves of the capacity") {
  std::vector<CellResult> cells{cell("caching", "")};
  cells[0].capacity_bytes = 24 * kGiB;
  cells[0].reserved_bytes_peak = 20 * kGiB;
  CHECK(contains(lines_of(cells),
                 "Headroom: caching unset reserves 20.0 GiB of 24.0 GiB; 4.00 GiB are left.\n"));
  // The total of a device is more than what its context leaves.
  cells[0].key.capacity = "unlimited";
  CHECK(contains(
      lines_of(cells),
      "Headroom: caching unset reserves 20.0 GiB of 24.0 GiB that the card leaves; 4.00 GiB "
      "are left.\n"));
  cells[0].reserved_bytes_peak.reset();
  CHECK_FALSE(contains(lines_of(cells), "Headroom"));
}

TEST_CASE("growth is told with its interval, and flat only where that is narrow") {
  std::vector<CellResult> cells{cell("caching", ""), cell("caching", "a:1")};
  CHECK_FALSE(contains(lines_of(cells), "over steps"));
  const auto mib = static_cast<double>(kMiB);
  cells[0].growth = MemoryGrowth{12 * mib, 9 * mib, 14 * mib, 40};
  cells[1].growth = MemoryGrowth{0.2 * mib, -1 * mib, 0.9 * mib, 40};
  CHECK(needs_answer(group_of(cells)));
  CHECK(contains(lines_of(cells),
                 "Reserved less live memory over steps: caching unset grows 12.0 MiB a step (9.0 "
                 "to 14.0 MiB); caching a:1 is flat over 40 steps (-1.0 to 0.9 MiB a step).\n"));
  cells[1].growth = MemoryGrowth{300 * mib, -0.8 * mib, 1932.7 * mib, 9};
  CHECK(contains(lines_of(cells),
                 "a:1 is not known to be flat over 9 steps (-0.8 to 1932.7 MiB a step).\n"));
  cells[0].growth = MemoryGrowth{0, 0, 0, 40};
  CHECK_FALSE(needs_answer(group_of(cells)));
}

TEST_CASE("a job that stops at its first failure and cannot fit is named impossible") {
  std::vector<CellResult> cells{cell("caching", "", 1), cell("caching", "a:1", 1)};
  for (CellResult& one : cells) {
    one.key.on_oom = "stop";
    one.status = CellStatus::OomStopped;
    one.requested_bytes_peak = 36 * kGiB;
    one.capacity_bytes = 24 * kGiB;
  }
  CHECK(
      contains(sentence_of(cells),
               "needs 36.0 GiB live, 24.0 GiB are there: no setting can help; 12.0 GiB must go."));
}

TEST_CASE("a release of PyTorch's allocator that is alone is compared with itself unset") {
  std::vector<CellResult> cells{step_cell("caching@2.10", "", 1e6),
                                step_cell("caching@2.10", "a:1", 1e5),
                                step_cell("native", "", 2e6)};
  CHECK(contains(sentence_of(cells),
                 "caching@2.10 unset serves every request at 1.00 ms per step; "
                 "a:1 takes 0.100 ms per step (-0.900 ms against unset)."));
  sample::fail_requests(cells[0], 0, 3);
  cells[0].oom_count = 3;
  CHECK(contains(sentence_of(cells), "caching@2.10 unset runs out of memory"));
  CHECK(contains(run_answer(cells, terminal_style()).sentence, "caching@2.10 unset runs out"));
  CHECK(run_answer(cells, terminal_style()).paste == "export PYTORCH_CUDA_ALLOC_CONF=a:1");
  // Of two releases neither is the one that the user has.
  cells.push_back(step_cell("caching@2.11", "", 1e6));
  CHECK(contains(sentence_of(cells), "caching unset was not measured"));
  CHECK(contains(sentence_of(cells), "(ask about one release alone)"));
  cells.push_back(step_cell("caching", "", 1e6));
  CHECK(contains(sentence_of(cells), "caching unset serves every request"));
}

TEST_CASE("without a measured baseline there are costs, and no differences") {
  const std::vector<CellResult> cells{
      sample::not_measured(cell("caching", ""), CellStatus::TimedOut, "60 s"),
      cell("native", "", 0, 61000)};
  const std::string text = lines_of(cells);
  CHECK(contains(text, "native unset serves every request at "));
  CHECK(contains(text, "caching unset was not measured, so there is nothing to compare with"));
  CHECK(contains(text, "caching unset has no numbers here"));
  CHECK(contains(text, "- native unset: "));
  CHECK_FALSE(contains(text, "against unset"));
  CHECK(contains(text, "No numbers: caching unset (timed_out: 60 s)."));
}

TEST_CASE("the null backend is no answer, and an OOM in any pass counts") {
  std::vector<CellResult> cells{cell("caching", ""), cell("null", ""), cell("cub", "")};
  cells[2].trial_oom_count = 1;
  CHECK(contains(lines_of(cells),
                 "Ran out of memory too: cub unset: a request failed in 1 of 4 timed passes.") ==
        true);
  CHECK_FALSE(contains(lines_of(cells), "null"));
}

TEST_CASE("of several processes each one's failures are said") {
  std::vector<CellResult> cells{cell("caching", "", 12)};
  cells[0].counters = {{"process0.requests", 5000},
                       {"process0.out_of_memory", 12},
                       {"process1.requests", 1000},
                       {"process1.out_of_memory", 0}};
  CHECK(contains(lines_of(cells),
                 "12 of 6000 requests failed, process 0: 12 of 5000, process 1: 0 of 1000"));
}

TEST_CASE("a long list is cut and counted") {
  std::vector<CellResult> cells{cell("caching", "", 1)};
  for (int index = 0; index < 9; ++index) {
    cells.push_back(cell("caching", "a:" + std::to_string(index)));
  }
  CHECK(contains(lines_of(cells), "- and 3 more, in the table\n"));
}

TEST_CASE("a run of several experiments is counted, and the setting that helps most is named") {
  std::vector<CellResult> cells;
  for (const char* workload : {"v", "w", "x"}) {
    for (const char* conf : {"", "a:1", "b:1"}) {
      const bool fails = std::string(conf).empty() || (conf[0] == 'a' && workload[0] == 'v');
      cells.push_back(step_cell("caching", conf, conf[0] == 'a' ? 1e5 : 2e5, fails ? 3 : 0));
      cells.back().key.workload = workload;
      if (workload[0] == 'x') cells.back().oom_count = cells.back().trial_oom_count = 3;
      if (workload[0] == 'x') cells.back().requested_bytes_peak = 9 * kGiB;
    }
  }
  const RunAnswer whole = run_answer(cells, terminal_style());
  CHECK(whole.sentence ==
        "caching unset runs out of memory in 3 of 3 experiments, 1 of them impossible (more live "
        "memory than capacity); caching b:1 serves every request in 2 of them.");
  CHECK(whole.paste == "export PYTORCH_CUDA_ALLOC_CONF=b:1");
  // Jobs of several releases have one name together, as the user asked.
  for (CellResult& one : cells) {
    if (one.key.workload != "w") one.key.allocator = "caching@2.11";
  }
  CHECK(run_answer(cells, terminal_style()).sentence == whole.sentence);
  for (CellResult& one : cells) one.key.allocator = "caching@2.11";
  CHECK(contains(run_answer(cells, terminal_style()).sentence,
                 "caching@2.11 unset runs out of memory in 3 of 3"));
}
