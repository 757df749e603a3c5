// Goal: a failure is told with the numbers behind it: which limit, whose cache, which stream, and
// what would help. Method: groups made by hand, whole sentences as literals.
#include "results/answer/cause_words.h"

#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/results/answer/answer_cells.h"
#include "tests/support/text_checks.h"

using namespace allocmark;
using namespace allocmark::answer_cells;

namespace {

CellResult limited_cell(std::uint64_t limit_bytes, std::uint64_t left_bytes) {
  CellResult one = cell("caching", "", 2);
  one.oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 0);
  one.oom_cause_counts[static_cast<std::size_t>(OomCause::Limit)] = 2;
  one.oom_first =
      OomEvent{.size_bytes = kGiB, .cause = OomCause::Limit, .free_largest_bytes = std::nullopt};
  one.oom_first->live_bytes = 11 * kGiB;
  one.oom_first->limit_bytes = limit_bytes;
  one.oom_first->device_left_bytes = left_bytes;
  one.requested_bytes_peak = 13 * kGiB;
  one.capacity_bytes = left_bytes;
  return one;
}

}  // namespace

TEST_CASE("a limit of the process is named with its number and what lifting it does") {
  const CellResult half = limited_cell(23 * kGiB / 2, 23 * kGiB);
  CHECK(contains(sentence_of({half}),
                 "runs out of memory (its own live memory fills the limit of the process: 11.0 GiB "
                 "live and 1.00 GiB asked exceed the limit of the process, 11.5 GiB: no other "
                 "setting helps; without the limit, or with one above 13.0 GiB, the card's 23.0 "
                 "GiB suffice)"));
  const CellResult small_card = limited_cell(23 * kGiB / 2, 12 * kGiB);
  CHECK(contains(sentence_of({small_card}), "needs 13.0 GiB live, 12.0 GiB are there"));
  CellResult capped = limited_cell(12 * kGiB, 23 * kGiB);
  capped.capacity_bytes = 12 * kGiB;
  capped.key.capacity = "12GiB@limit";
  CHECK(contains(sentence_of({capped}),
                 "needs 13.0 GiB live, the limit of the process is 12.0 GiB: no other setting can "
                 "help; raise the limit by 1.00 GiB (the card leaves 23.0 GiB), or 1.00 GiB must "
                 "go."));
}

TEST_CASE("a limit of the process is named where something else filled what is below it") {
  CellResult one = limited_cell(2 * kGiB, 255 * kGiB);
  one.oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 0);
  one.oom_cause_counts[static_cast<std::size_t>(OomCause::Fragmentation)] = 1;
  CHECK(contains(sentence_of({one}),
                 "free memory is fragmented: below the limit of the process, 2.00 GiB; without it "
                 "the card leaves 255 GiB)"));
  CHECK(other_way(one) == "a higher limit of the process, or none, can");
  one.oom_first->limit_bytes.reset();
  CHECK(contains(sentence_of({one}), "(free memory is fragmented)"));
  CHECK(other_way(one).empty());
}

TEST_CASE("a setting that could not run says why, wherever it is named") {
  CellResult skipped = cell("rmm", "", 1);
  skipped.status = CellStatus::Skipped;
  skipped.reason = "rmm cannot run here: no plugin";
  CHECK(contains(sentence_of({skipped}), "nothing was measured: rmm cannot run here: no plugin"));
}

TEST_CASE("another process's cache is named with its owner and what would help") {
  CellResult one = cell("caching", "", 1);
  one.oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 0);
  one.oom_cause_counts[static_cast<std::size_t>(OomCause::OtherProcess)] = 1;
  one.oom_first = OomEvent{
      .size_bytes = kGiB, .cause = OomCause::OtherProcess, .free_largest_bytes = std::nullopt};
  one.counters = {{"process0.requests", 1},
                  {"process0.out_of_memory", 0},
                  {"process0.cached_bytes_at_oom", 3 * static_cast<std::int64_t>(kGiB)},
                  {"process1.requests", 1},
                  {"process1.out_of_memory", 1},
                  {"process1.cached_bytes_at_oom", 0},
                  {"remedy.empty_cache.out_of_memory", 0},
                  {"remedy.fraction.impossible", 1}};
  CHECK(contains(sentence_of({one}),
                 "(free memory is in another process's cache: process 0 caches 3.00 GiB; "
                 "torch.cuda.empty_cache() in process 0 before the request serves all; no memory "
                 "fraction helps: the processes' own peaks do not fit side by side)"));
  one.counters.pop_back();
  one.counters.insert(one.counters.end(),
                      {{"remedy.fraction.process", 0},
                       {"remedy.fraction.limit_bytes", static_cast<std::int64_t>(kGiB)},
                       {"remedy.fraction.out_of_memory", 0}});
  CHECK(contains(sentence_of({one}),
                 "a memory fraction that limits process 0 to 1.00 GiB serves all)"));
}

TEST_CASE("memory that other streams keep is named by stream, the largest first") {
  CellResult one = cell("caching", "", 1);
  one.oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 0);
  one.oom_cause_counts[static_cast<std::size_t>(OomCause::Stranded)] = 1;
  one.oom_first = OomEvent{.size_bytes = kGiB,
                           .stream = 2,
                           .cause = OomCause::Stranded,
                           .free_largest_bytes = std::nullopt};
  const auto gib = static_cast<std::int64_t>(kGiB);
  one.oom_first->free_by_stream = {{"stream0", gib},
                                   {"stream1", 3 * gib},
                                   {"stream2", 5 * gib},
                                   {"stream3", gib},
                                   {"stream4", gib}};
  CHECK(contains(sentence_of({one}),
                 "(free memory is kept for other streams or pools: stream 2 asked for 1.00 GiB; "
                 "stream 1 keeps 3.00 GiB, stream 0 keeps 1.00 GiB, stream 3 keeps 1.00 GiB, "
                 "others 1.00 GiB)"));
}
