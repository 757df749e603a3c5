// Tests of BlockRing without a GPU: block_ring_test CASE. Exit code 0 where the case holds.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <allocmark/simcu_test.h>

#include "block_ring.h"

namespace {

constexpr std::size_t kBlockBytes = std::size_t{8} << 20;

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

// Each call of the constructor fails once: what it took before must be given back.
void no_leak() {
  for (const char* api : {"cudaMalloc", "cudaEventCreateWithFlags"}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      const std::uint64_t used_before_bytes = SIMCU(simcu_used_bytes)();
      const simcu::CallCounter created("cudaEventCreateWithFlags");
      const simcu::CallCounter destroyed("cudaEventDestroy");
      bool thrown = false;
      {
        const simcu::Fault fault(api, nth, cudaErrorMemoryAllocation);
        try {
          const BlockRing ring(4, kBlockBytes);
        } catch (const std::exception&) {
          thrown = true;
        }
      }
      EXPECT(thrown);
      EXPECT(SIMCU(simcu_used_bytes)() == used_before_bytes);
      EXPECT(destroyed.count() == nth - 1);
    }
  }
  std::printf("8 failing calls, no leak\n");
}

// A thousand rounds make no call that takes memory or waits on the host.
void hot_loop() {
  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  BlockRing ring(4, kBlockBytes);
  const simcu::CallCounter mallocs("cudaMalloc");
  const simcu::CallCounter waits("cudaEventSynchronize");
  const simcu::Stopwatch watch;
  for (int round = 0; round < 1000; ++round) {
    static_cast<void>(ring.acquire(stream));
    ring.release(stream);
  }
  std::printf("1000 rounds: %llu cudaMalloc, %.0f ns of CUDA calls a round\n",
              static_cast<unsigned long long>(mallocs.count()),
              static_cast<double>(watch.elapsed_ns()) / 1000);
  EXPECT(mallocs.count() == 0);
  EXPECT(waits.count() == 0);
  EXPECT(watch.elapsed_ns() < 1000 * std::uint64_t{5000});
}

// A block goes from one stream to another while the first still works: the second must wait.
void ordering() {
  std::array<cudaStream_t, 3> streams{};
  for (cudaStream_t& stream : streams) {
    EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  BlockRing ring(1, kBlockBytes);
  constexpr std::uint64_t kGate = 1;
  static_cast<void>(ring.acquire(streams[0]));
  EXPECT(SIMCU(simcu_launch_gated)(streams[0], kGate) == 0);  // runs until the gate is opened
  ring.release(streams[0]);
  static_cast<void>(ring.acquire(streams[1]));
  EXPECT(SIMCU(simcu_launch)(streams[1], 1000) == 0);
  EXPECT(SIMCU(simcu_launch)(streams[2], 1'000'000) == 0);  // lets a virtual millisecond pass
  EXPECT(cudaStreamSynchronize(streams[2]) == cudaSuccess);
  EXPECT(cudaStreamQuery(streams[1]) == cudaErrorNotReady);
  EXPECT(SIMCU(simcu_open_gate)(kGate) == 0);
  EXPECT(cudaStreamSynchronize(streams[1]) == cudaSuccess);
  std::printf("the second stream waited for the first\n");
}

// Handing a busy block on costs the host nothing; waiting for the result takes the kernel's time.
void time() {
  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  BlockRing ring(1, kBlockBytes);
  constexpr std::uint64_t kKernelNs = 1'000'000;
  const simcu::Stopwatch watch;
  static_cast<void>(ring.acquire(stream));
  EXPECT(SIMCU(simcu_launch)(stream, kKernelNs) == 0);
  ring.release(stream);
  static_cast<void>(ring.acquire(stream));
  const std::uint64_t host_ns = watch.elapsed_ns();
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  std::printf("host busy for %.1f us, result after %.1f us\n", static_cast<double>(host_ns) / 1e3,
              static_cast<double>(watch.elapsed_ns()) / 1e3);
  EXPECT(host_ns < 50'000);
  EXPECT(watch.elapsed_ns() >= kKernelNs);
}

// Mistakes that CUDA reports, or should: each is an error here.
void misuse() {
  void* block = nullptr;
  EXPECT(cudaMalloc(&block, kBlockBytes) == cudaSuccess);
  std::array<char, 16> bytes{};
  EXPECT(cudaMemcpy(block, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  EXPECT(SIMCU(simcu_view)(block, kBlockBytes) != nullptr);
  EXPECT(SIMCU(simcu_view)(block, kBlockBytes + 1) == nullptr);  // beyond the block
  EXPECT(cudaFree(block) == cudaSuccess);
  EXPECT(SIMCU(simcu_view)(block, 1) == nullptr);  // after its free
  EXPECT(cudaFree(block) != cudaSuccess);          // a second free
  EXPECT(cudaMemcpy(block, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) != cudaSuccess);
  std::printf("use after free, use beyond the end and a second free are errors\n");
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::string name = argument_count == 2 ? arguments[1] : "";
  try {
    if (name == "no_leak") {
      no_leak();
    } else if (name == "hot_loop") {
      hot_loop();
    } else if (name == "ordering") {
      ordering();
    } else if (name == "time") {
      time();
    } else if (name == "misuse") {
      misuse();
    } else {
      std::printf("wanted no_leak, hot_loop, ordering, time or misuse, got '%s'\n", name.c_str());
      return 2;
    }
    if (const std::uint64_t missing = SIMCU(simcu_unimplemented_count)(); missing != 0) {
      std::printf("simcuda lacks: %s\n", SIMCU(simcu_unimplemented_names)());
      return 1;
    }
  } catch (const std::exception& failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
  return 0;
}
