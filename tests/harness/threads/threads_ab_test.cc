// Goal: of two sides under the same threads, what is worse in every round is said, and the same
// thing twice is not; a block that two hold is found. Method: rows and calls made by hand.
#include "harness/tools/threads/threads.h"

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tools/threads/noted_blocks.h"
#include "tests/catch.h"
#include "tests/support/text_checks.h"

using namespace allocmark;

namespace {

struct Made {
  double p50_ns = 100;
  std::uint64_t oom_count = 0;
  std::string overlap = {};
};

ThreadsRounds rounds_of(const std::vector<Made>& made) {
  ThreadsRounds rounds;
  for (const Made& each : made) {
    ThreadsRow row;
    row.thread_count = 4;
    row.allocate.p50_ns = each.p50_ns;
    row.oom_count = {.low = each.oom_count, .high = each.oom_count};
    row.overlap = each.overlap;
    rounds.push_back({row});
  }
  return rounds;
}

ThreadsVerdict verdict_of(const ThreadsComparison& comparison, std::string_view name) {
  for (const ThreadsNumber& number : comparison.numbers) {
    if (number.name == name) return number.verdict;
  }
  FAIL("no number " << name);
  return ThreadsVerdict::Same;
}

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

TEST_CASE("a time is worse where every round takes more than the other side's worst and 5 %") {
  const ThreadsRounds base = rounds_of({{.p50_ns = 100}, {.p50_ns = 110}});
  const auto p50 = [&](double a_ns, double b_ns) {
    return verdict_of(compare_threads(base, rounds_of({{.p50_ns = a_ns}, {.p50_ns = b_ns}})),
                      "allocate_p50_ns");
  };
  CHECK(p50(116, 130) == ThreadsVerdict::Worse);
  CHECK(p50(115, 130) == ThreadsVerdict::Same);
  CHECK(p50(109, 500) == ThreadsVerdict::Same);
  CHECK(p50(95, 90) == ThreadsVerdict::Better);
  CHECK(p50(96, 90) == ThreadsVerdict::Same);
}

TEST_CASE("one failed request more than ever on the other side is worse, and ends in a failure") {
  const ThreadsRounds base = rounds_of({{.oom_count = 3}, {.oom_count = 5}});
  const ThreadsComparison more = compare_threads(base, rounds_of({{.oom_count = 6}}));
  CHECK(verdict_of(more, "oom_count") == ThreadsVerdict::Worse);
  CHECK(!more.passed());
  CHECK(contains(render_comparison(more), "FAILED: 1 of 7 numbers are worse in every round"));
  CHECK(contains(to_json(more), "\"passed\":false"));
  const ThreadsComparison same = compare_threads(base, base);
  CHECK(same.passed());
  CHECK(contains(render_comparison(same), "\npassed"));
}

TEST_CASE("an overlap in one round of the second side fails, whatever the numbers") {
  const ThreadsRounds sound = rounds_of({{}, {}});
  const ThreadsRounds broken = rounds_of({{.p50_ns = 50}, {.p50_ns = 50, .overlap = "request 7"}});
  const ThreadsComparison comparison = compare_threads(sound, broken);
  CHECK(!comparison.passed());
  CHECK(contains(render_comparison(comparison), "FAILED: B with 4 threads: request 7"));
  CHECK(verdict_of(comparison, "allocate_p50_ns") == ThreadsVerdict::Same);
  CHECK(verdict_of(compare_threads(sound, rounds_of({{.p50_ns = 50}})), "allocate_p50_ns") ==
        ThreadsVerdict::Better);
  const ThreadsComparison back = compare_threads(broken, sound);
  CHECK(back.overlaps.empty());
}

TEST_CASE("a block overlaps one that lives, from below, from above or at the same place") {
  const auto overlap_of = [](std::uintptr_t address, std::uint64_t size_bytes) {
    CheckedBlocks blocks;
    blocks.add(at(0x1000), 512);
    blocks.add(at(address), size_bytes);
    return blocks.overlap();
  };
  CHECK(contains(overlap_of(0x1000, 1), "request 2 of all threads (1 bytes)"));
  CHECK(contains(overlap_of(0x0f00, 257), "512 bytes which is live"));
  CHECK(contains(overlap_of(0x11ff, 512), "512 bytes which is live"));
  CHECK(overlap_of(0x0f00, 256).empty());
  CHECK(overlap_of(0x1200, 512).empty());
  CheckedBlocks blocks;
  blocks.add(at(0x1000), 512);
  blocks.remove(at(0x1000));
  blocks.add(at(0x1000), 512);
  CHECK(blocks.overlap().empty());
}
