// Goal: what an allocator takes of the host, and calls that are rarely slow, are worse where every
// round shows it, and nothing where one process was disturbed. Method: quiet rounds of which one
// side changes.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "results/compare/interleaved.h"
#include "tests/catch.h"
#include "tests/support/made_rounds.h"

using namespace allocmark;
using namespace allocmark::made_rounds;

namespace {

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;

// Each process as the function makes it: side, and how many of that side came before.
Comparison with_processes(const std::function<void(CellResult&, std::uint32_t, std::size_t)>& set) {
  return compared([&](InterleavedRun& run) {
    std::size_t counts[2] = {};
    for (RoundResult& round : run.rounds) {
      if (round.cell.key.workload == "work0") set(round.cell, round.side, counts[round.side]++);
    }
  });
}

// A call of each process's first pass takes so long.
void add_call(CellResult& cell, double ns) {
  LatencyBuckets& buckets = cell.passes.front().allocate_own_buckets;
  buckets = cell.passes.front().allocate_buckets;
  cell.passes.back().allocate_own_buckets = cell.passes.back().allocate_buckets;
  const std::uint32_t index = sample::bucket_of_picoseconds(static_cast<std::uint64_t>(ns * 1000));
  while (!buckets.empty() && buckets.back().index >= index) buckets.pop_back();
  buckets.push_back({.index = index, .count = 1});
}

}  // namespace

TEST_CASE("more memory of the host in every process is worse, and in one of them is not") {
  const auto taken = [](std::uint64_t of_each, std::uint64_t of_first) {
    return with_processes([=](CellResult& cell, std::uint32_t side, std::size_t count) {
      const std::uint64_t more = side == 0 ? 0 : count == 0 ? of_first : of_each;
      cell.host_taken_bytes = 40 * kMebi + more;
    });
  };
  const Comparison table = taken(1024 * kMebi, 1024 * kMebi);
  CHECK(number(table, "work0", "host_taken_bytes").verdict == Verdict::Worse);
  CHECK(table.exit_code == ExitCode::Regression);
  CHECK(number(taken(0, 1024 * kMebi), "work0", "host_taken_bytes").verdict == Verdict::Same);
  CHECK(number(taken(12 * kMebi, 12 * kMebi), "work0", "host_taken_bytes").verdict ==
        Verdict::Same);
  CHECK(number(taken(17 * kMebi, 17 * kMebi), "work0", "host_taken_bytes").verdict ==
        Verdict::Worse);
}

TEST_CASE("a thread that takes processor time in every process is worse") {
  const auto spinning = [](std::uint64_t ns_per_s) {
    return with_processes([=](CellResult& cell, std::uint32_t side, std::size_t) {
      cell.other_threads_ns_per_s = side == 0 ? 1000 : ns_per_s;
    });
  };
  CHECK(number(spinning(300'000'000), "work0", "other_threads_ns_per_s").verdict == Verdict::Worse);
  CHECK(number(spinning(5'000'000), "work0", "other_threads_ns_per_s").verdict == Verdict::Same);
}

TEST_CASE("one long call in each process is worse, and in a few of them is nothing") {
  const auto stalls = [](std::size_t every) {
    return with_processes([=](CellResult& cell, std::uint32_t side, std::size_t count) {
      add_call(cell, side == 1 && count % every == 0 ? 3e6 : 2e4);
    });
  };
  const Comparison all = stalls(1);
  CHECK(number(all, "work0", "allocate_own_ns_max").verdict == Verdict::Worse);
  CHECK(number(all, "work0", "allocate_own_ns_p99").verdict != Verdict::Worse);
  CHECK(all.exit_code == ExitCode::Regression);
  const Comparison few = stalls(4);
  CHECK(number(few, "work0", "allocate_own_ns_max").verdict == Verdict::Same);
  // Rare calls alone are no reason to go on.
  CHECK(number(few, "work0", "allocate_own_ns_max").rounds_needed == std::nullopt);
}

TEST_CASE("more processor time of a process's passes is worse, though most passes take as long") {
  const auto slowed = [](double ns) {
    return with_processes([=](CellResult& cell, std::uint32_t side, std::size_t count) {
      for (PassSummary& pass : cell.passes)
        pass.thread_cpu_ns = 1e7 * (1 + 1e-3 * static_cast<double>(count % 3));
      if (side == 1) cell.passes.back().thread_cpu_ns += ns;
    });
  };
  CHECK(number(slowed(3e6), "work0", "thread_cpu_ns").verdict == Verdict::Worse);
  CHECK(number(slowed(2e5), "work0", "thread_cpu_ns").verdict == Verdict::Same);
}
