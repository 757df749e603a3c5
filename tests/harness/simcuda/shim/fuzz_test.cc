// simcuda's whole interface from several threads at once, misuse included: handles are shared,
// destroyed twice and mixed up, numbers are no enumerators, sizes fit nowhere. Nothing may crash,
// hang or race; the sanitizers' builds say whether anything did. 50,000 calls, or ALLOCMARK_CALLS.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/simcuda/simcu.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/shim/fuzz_state.h"

namespace fuzz {
namespace {

constexpr std::size_t kThreadCount = 4;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoull(given);
}

// Each step as often as its weight says.
std::vector<const Step*> weighted_steps() {
  std::vector<const Step*> steps;
  for (const auto& part :
       {memory_steps(), mapping_steps(), order_steps(), question_steps(), graph_steps()}) {
    for (const Step& step : part) steps.insert(steps.end(), step.weight, &step);
  }
  return steps;
}

// What a thread captured in its own default streams, nobody else can end.
void end_own_captures() {
  for (const int device : {1, 0}) {
    cudaGraph_t graph = nullptr;
    (void)cudaSetDevice(device);
    (void)cudaStreamEndCapture(cudaStreamPerThread, &graph);
    (void)cudaGraphDestroy(graph);
  }
}

void run_threads(Shared* shared, std::uint64_t seed, std::uint64_t call_count) {
  const std::vector<const Step*> steps = weighted_steps();
  std::atomic<std::uint64_t> step_count{0};
  // A graph that one thread captured names that thread's host memory, and others launch it.
  std::vector<std::unique_ptr<State>> states;
  for (std::size_t i = 0; i < kThreadCount; ++i) {
    states.push_back(std::make_unique<State>(shared, seed * kThreadCount + i));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreadCount; ++i) {
    threads.emplace_back([&, i] {
      State& state = *states[i];
      while (step_count.fetch_add(1) < call_count) {
        steps[state.below(steps.size())]->perform(state);
      }
      end_own_captures();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("calls of all kinds from several threads neither crash nor hang") {
  setenv("SIMCUDA_DEVICES", "2", 1);
  setenv("SIMCUDA_CAPACITY_BYTES", "8589934592", 1);
  const std::uint64_t seed = number_of("ALLOCMARK_SEED", 1);
  INFO("ALLOCMARK_SEED=" << seed);
  Shared shared;
  const std::uint64_t call_count = number_of("ALLOCMARK_CALLS", 50'000);
  run_threads(&shared, seed, call_count);
  FUZZ_FIND(simcu_watch_calls)(nullptr, nullptr);
  FUZZ_FIND(simcu_watch_touches)(nullptr, nullptr);
  FUZZ_FIND(simcu_reset)();
  // No more than it is known to lack.
  CHECK(std::string(FUZZ_FIND(simcu_unimplemented_names)()) ==
        "pool with handles other than of files");
  CHECK(shared.told > 0);
  CHECK(shared.served > call_count / 50);
  // Captures go with their streams.
  for (const std::uint64_t stream : shared.streams.drain())
    (void)cudaStreamDestroy(reinterpret_cast<cudaStream_t>(stream));
  for (const std::uint64_t block : shared.blocks.drain())
    (void)cudaFree(reinterpret_cast<void*>(block));
  // It still works for a program that makes no mistake.
  (void)cudaGetLastError();
  void* block = nullptr;
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMalloc(&block, 1 << 20) == cudaSuccess);
  CHECK(cudaMemset(block, 1, 1 << 20) == cudaSuccess);
  CHECK(cudaFree(block) == cudaSuccess);
  // A broken context stays broken, and answers.
  CHECK(FUZZ_FIND(simcu_fail_calls)("cudaStreamQuery", 1, 1, cudaErrorIllegalAddress) == 0);
  CHECK(cudaStreamQuery(nullptr) == cudaErrorIllegalAddress);
  run_threads(&shared, seed + 1, 2000);
}

}  // namespace
}  // namespace fuzz
