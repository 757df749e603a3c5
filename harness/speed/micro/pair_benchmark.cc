// See pair_benchmark.h.
#include "harness/speed/micro/pair_benchmark.h"

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "harness/speed/micro/thread_costs.h"

namespace allocmark {
namespace {

struct Cell {
  const BackendEntry* entry;
  std::string conf;
  std::uint64_t size_bytes;
  int thread_count;
};

// One run of one benchmark: the first thread makes the backend that all threads then share.
class Run {
 public:
  explicit Run(Cell cell) : cell_(std::move(cell)), barrier_(cell_.thread_count) {}

  [[nodiscard]] const Cell& cell() const { return cell_; }

  // Null where the backend could not be made; error() then says why.
  Backend* begin(int thread_index) {
    if (thread_index == 0) {
      error_.clear();
      try {
        backend_ = cell_.entry->make({.conf = cell_.conf, .memory_limit_bytes = 0});
      } catch (const std::exception& error) {
        error_ = error.what();
      }
    }
    barrier_.arrive_and_wait();
    return backend_.get();
  }

  void end(int thread_index) {
    barrier_.arrive_and_wait();
    if (thread_index == 0) {
      backend_.reset();
    }
  }

  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  Cell cell_;
  std::barrier<> barrier_;
  std::unique_ptr<Backend> backend_;
  std::string error_;
};

class OwnStream {
 public:
  OwnStream() { ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnStream() { (void)cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

bool one_pair(Backend& backend, std::uint64_t size_bytes, cudaStream_t stream) {
  AllocateResult result = backend.allocate(size_bytes, stream);
  benchmark::DoNotOptimize(result.pointer);
  if (result.status != AllocateStatus::Ok) [[unlikely]] {
    return false;
  }
  backend.deallocate(result.pointer, size_bytes, stream);
  return true;
}

void set_counters(benchmark::State& state, const ThreadCosts& begin, std::uint64_t count) {
  const ThreadCosts end = thread_costs_now();
  if (!end.simulated) {
    return;
  }
  // Each thread reports its own mean; Google Benchmark averages over the threads.
  const CostsPerOperation costs = costs_between(begin, end, count);
  state.counters["driver_modelled_ns"] =
      benchmark::Counter(costs.modelled_ns, benchmark::Counter::kAvgThreads);
  state.counters["simulator_ns"] =
      benchmark::Counter(costs.simulator_ns, benchmark::Counter::kAvgThreads);
}

void warm_pairs(benchmark::State& state, Backend& backend, const Cell& cell) {
  const OwnStream stream;
  if (!one_pair(backend, cell.size_bytes, stream.get())) {
    state.SkipWithError("out of memory");
    return;
  }
  const ThreadCosts begin = thread_costs_now();
  for (auto _ : state) {
    if (!one_pair(backend, cell.size_bytes, stream.get())) {
      state.SkipWithError("out of memory");
      break;
    }
  }
  set_counters(state, begin, static_cast<std::uint64_t>(state.iterations()));
}

void cold_pairs(benchmark::State& state, Backend& backend, const Cell& cell) {
  using Clock = std::chrono::steady_clock;
  const OwnStream stream;
  CostsPerOperation total;
  bool simulated = false;
  for (auto _ : state) {
    backend.trim();
    const ThreadCosts before = thread_costs_now();
    const Clock::time_point begin = Clock::now();
    const bool good = one_pair(backend, cell.size_bytes, stream.get());
    const Clock::time_point end = Clock::now();
    const ThreadCosts after = thread_costs_now();
    if (!good) {
      state.SkipWithError("out of memory");
      break;
    }
    const CostsPerOperation costs = costs_between(before, after, 1);
    total.modelled_ns += costs.modelled_ns;
    total.simulator_ns += costs.simulator_ns;
    simulated = after.simulated;
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  }
  if (simulated) {
    state.counters["driver_modelled_ns"] =
        benchmark::Counter(total.modelled_ns, benchmark::Counter::kAvgIterations);
    state.counters["simulator_ns"] =
        benchmark::Counter(total.simulator_ns, benchmark::Counter::kAvgIterations);
  }
}

using Body = void (*)(benchmark::State& state, Backend& backend, const Cell& cell);

void run_body(benchmark::State& state, Run& run, Body body) {
  Backend* const backend = run.begin(state.thread_index());
  if (backend == nullptr) {
    state.SkipWithError(run.error().c_str());
  } else {
    try {
      body(state, *backend, run.cell());
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  }
  run.end(state.thread_index());
}

std::string cell_name(std::string_view kind, const Cell& cell) {
  return fmt::format("{}/{}/conf:{}/size:{}", kind, cell.entry->name,
                     cell.conf.empty() ? "unset" : cell.conf, cell.size_bytes);
}

void register_cell(const Cell& cell) {
  const auto warm = std::make_shared<Run>(cell);
  benchmark::RegisterBenchmark(cell_name("pair", cell).c_str(), [warm](benchmark::State& state) {
    run_body(state, *warm, warm_pairs);
  })->Threads(cell.thread_count);
  // Emptying the cache under other threads' feet would measure them waiting for each other.
  if (cell.thread_count == 1 && cell.entry->capabilities.real_memory) {
    const auto cold = std::make_shared<Run>(cell);
    benchmark::RegisterBenchmark(
        cell_name("cold", cell).c_str(),
        [cold](benchmark::State& state) { run_body(state, *cold, cold_pairs); })
        ->Threads(1)
        ->UseManualTime();
  }
}

bool accepts(const BackendEntry& entry, const std::string& conf) {
  return (conf.empty() && entry.argument_keys.empty()) || !entry.check_conf(conf);
}

}  // namespace

void register_pair_benchmarks(const MicroOptions& options) {
  for (const BackendEntry& entry : backend_registry()) {
    const bool wanted = options.allocators.empty() ||
                        std::find(options.allocators.begin(), options.allocators.end(),
                                  entry.name) != options.allocators.end();
    if (!wanted || !entry.unavailable_reason().empty()) {
      continue;
    }
    for (const std::string& conf : options.confs) {
      for (const std::uint64_t size_bytes : options.sizes_bytes) {
        for (const int thread_count : options.thread_counts) {
          if (accepts(entry, conf) && (thread_count == 1 || entry.capabilities.any_thread)) {
            register_cell({.entry = &entry,
                           .conf = conf,
                           .size_bytes = size_bytes,
                           .thread_count = thread_count});
          }
        }
      }
    }
  }
}

}  // namespace allocmark
