// pair/... and cold/...: one allocate and one deallocate, by allocator, size and number of threads.
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
#include "harness/core/measure/clock.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/bench/benchmarks.h"

namespace allocmark {
namespace {

struct Cell {
  BenchSide side;
  std::uint64_t size_bytes;
  int thread_count;
};

// What simcuda says about the calling thread's time. Nothing with a real runtime.
class DriverCosts {
 public:
  DriverCosts() {
    clock_.finish_calibration();
    if (simcu_.present) now_ = simcu_.thread_clock();
  }

  void begin() {
    if (now_ != nullptr) before_ = *now_;
  }
  void end() {
    if (now_ == nullptr) return;
    modelled_ns_ += now_->modelled_ns - before_.modelled_ns;
    simulator_ticks_ += now_->simulator_ticks - before_.simulator_ticks;
  }

  // Per pair. Each thread reports its own mean; Google Benchmark averages over the threads.
  void set_counters(benchmark::State& state) const {
    if (now_ == nullptr) return;
    const auto count = static_cast<double>(std::max<std::uint64_t>(state.iterations(), 1));
    const auto mean = [&](double total) {
      return benchmark::Counter(total / count, benchmark::Counter::kAvgThreads);
    };
    // What the calls would have taken on the device's driver.
    state.counters["driver_modelled_ns"] = mean(static_cast<double>(modelled_ns_));
    // Of the host time: the simulation's own.
    state.counters["simulator_ns"] =
        mean(static_cast<double>(simulator_ticks_) * clock_.scale().ns_per_tick());
  }

 private:
  TickClock clock_;
  SimcuApi simcu_ = SimcuApi::find();
  const SimcuThreadClock* now_ = nullptr;
  SimcuThreadClock before_{};
  std::uint64_t modelled_ns_ = 0;
  std::uint64_t simulator_ticks_ = 0;
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
        backend_ = cell_.side.entry->make({.conf = cell_.side.conf});
      } catch (const std::exception& error) {
        error_ = error.what();
      }
    }
    barrier_.arrive_and_wait();
    return backend_.get();
  }

  void end(int thread_index) {
    barrier_.arrive_and_wait();
    if (thread_index == 0) backend_.reset();
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

void warm_pairs(benchmark::State& state, Backend& backend, const Cell& cell) {
  const OwnStream stream;
  if (!one_pair(backend, cell.size_bytes, stream.get())) {
    state.SkipWithError("out of memory");
    return;
  }
  DriverCosts costs;
  costs.begin();
  for (auto _ : state) {
    if (!one_pair(backend, cell.size_bytes, stream.get())) {
      state.SkipWithError("out of memory");
      break;
    }
  }
  costs.end();
  costs.set_counters(state);
}

void cold_pairs(benchmark::State& state, Backend& backend, const Cell& cell) {
  using Clock = std::chrono::steady_clock;
  const OwnStream stream;
  DriverCosts costs;
  for (auto _ : state) {
    backend.trim();
    costs.begin();
    const Clock::time_point begin = Clock::now();
    const bool good = one_pair(backend, cell.size_bytes, stream.get());
    const Clock::time_point end = Clock::now();
    costs.end();
    if (!good) {
      state.SkipWithError("out of memory");
      break;
    }
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  }
  costs.set_counters(state);
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
  return fmt::format("{}/{}/size:{}", kind, name_of(cell.side), cell.size_bytes);
}

void register_cell(const Cell& cell) {
  const auto warm = std::make_shared<Run>(cell);
  add_benchmark(cell_name("pair", cell), [warm](benchmark::State& state) {
    run_body(state, *warm, warm_pairs);
  })->Threads(cell.thread_count);
  // Emptying the cache under other threads' feet would measure them waiting for each other.
  if (cell.thread_count == 1 && cell.side.entry->capabilities.real_memory) {
    const auto cold = std::make_shared<Run>(cell);
    add_benchmark(cell_name("cold", cell),
                  [cold](benchmark::State& state) { run_body(state, *cold, cold_pairs); })
        ->Threads(1)
        ->UseManualTime();
  }
}

}  // namespace

void register_pair_benchmarks(const BenchOptions& options) {
  for (const BenchSide& side : bench_sides(options, {})) {
    for (const std::uint64_t size_bytes : options.sizes_bytes) {
      for (const int thread_count : options.thread_counts) {
        if (thread_count > 1 && !side.entry->capabilities.any_thread) continue;
        register_cell({.side = side, .size_bytes = size_bytes, .thread_count = thread_count});
      }
    }
  }
}

}  // namespace allocmark
