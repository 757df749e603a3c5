// Registers our benchmarks with Google Benchmark: what allocators cost per request, and what
// allocmark itself costs. Times; checks nothing but that requests succeed.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"

namespace allocmark {

struct BenchOptions {
  std::vector<std::string> allocators;  // empty: those that a benchmark is about
  // Config strings, in the grammar of each allocator; an allocator runs those that it accepts. The
  // empty string is always among them.
  std::vector<std::string> confs = {""};
  std::vector<std::uint64_t> sizes_bytes;
  std::vector<int> thread_counts;
  std::vector<std::string> workloads;      // empty: those that a benchmark is about
  std::uint64_t event_count = 20'000'000;  // of generate/... and long/...
};

// An allocator under a config string.
struct BenchSide {
  const BackendEntry* entry = nullptr;
  std::string conf;
};
// Of the allocators that are chosen, else of the usual ones (empty: all), those that can run here,
// under each config string that they accept.
[[nodiscard]] std::vector<BenchSide> bench_sides(const BenchOptions& options,
                                                 const std::vector<std::string_view>& usual);
// "caching/conf:unset".
[[nodiscard]] std::string name_of(const BenchSide& side);

// pair/...: allocate and deallocate in turn, so that a caching allocator hits its cache from the
// second pair on. cold/...: the same with the cache emptied (untimed) before each pair.
void register_pair_benchmarks(const BenchOptions& options);
// hits/...: a workload's requests that the cache serves, and c10's beside them. Needs simcuda.
void register_hit_benchmarks(const BenchOptions& options);
// clock: an empty timed region. replay/...: events through the replayer.
void register_replay_benchmarks(const BenchOptions& options);
// long/...: a long trace that is never kept. generate/...: a workload's events alone.
void register_stream_benchmarks(const BenchOptions& options);

// What the body throws becomes the benchmark's error.
benchmark::internal::Benchmark* add_benchmark(
    const std::string& name, const std::function<void(benchmark::State& state)>& body);

// Of this process so far, and what it should stay below; 0 where the system does not say.
[[nodiscard]] double resident_bytes_peak();
inline constexpr double kTargetResidentBytesPeak = 128.0 * 1024 * 1024;

}  // namespace allocmark
