// Calls that do not touch the device's memory: each once per round, in turns, as a program's calls
// alternate.
#include <cuda_runtime_api.h>

#include <array>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "harness/profile/blocks.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kRoundCount = 200;
constexpr std::uint32_t kObjectCount = 20;
constexpr std::uint64_t kSmallBytes = 4096;

void check(cudaError_t error) { ALLOCMARK_CUDA_CHECK(error); }

// Streams, events and a block for the calls, given back at the end.
struct Objects {
  Objects() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check(cudaMalloc(&block, kSmallBytes));
    int device = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetDefaultMemPool(&pool, device));
  }
  ~Objects() {
    (void)cudaFree(block);
    (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(stream);
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaMemPool_t pool = nullptr;
  void* block = nullptr;
};

// One round over the calls about the device, its memory and its pool.
void ask(const BlockSetup& setup, const Objects& objects) {
  const auto add = [&](const char* cost, auto&& call) { setup.out.add(cost, 0, setup.time(call)); };
  int number = 0;
  int device = 0;
  check(cudaGetDevice(&device));
  add("cudaGetDevice", [&] { check(cudaGetDevice(&number)); });
  add("cudaSetDevice", [&] { check(cudaSetDevice(device)); });
  add("cudaGetLastError", [&] { (void)cudaGetLastError(); });
  add("cudaDeviceGetAttribute",
      [&] { check(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, device)); });
  cudaDeviceProp properties{};
  add("cudaGetDeviceProperties", [&] { check(cudaGetDeviceProperties(&properties, device)); });
  cudaPointerAttributes pointer{};
  add("cudaPointerGetAttributes",
      [&] { check(cudaPointerGetAttributes(&pointer, objects.block)); });
  std::uint64_t threshold_bytes = 0;
  add("cudaMemPoolGetAttribute", [&] {
    check(cudaMemPoolGetAttribute(objects.pool, cudaMemPoolAttrReleaseThreshold, &threshold_bytes));
  });
  add("cudaMemPoolSetAttribute", [&] {
    check(cudaMemPoolSetAttribute(objects.pool, cudaMemPoolAttrReleaseThreshold, &threshold_bytes));
  });
  add("cudaMemPoolTrimTo", [&] { check(cudaMemPoolTrimTo(objects.pool, 0)); });
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  add("cudaMemGetInfo", [&] { check(cudaMemGetInfo(&free_bytes, &total_bytes)); });
}

// One round over the calls about streams and events whose work is done.
void order(const BlockSetup& setup, const Objects& objects) {
  const auto add = [&](const char* cost, auto&& call) { setup.out.add(cost, 0, setup.time(call)); };
  cudaEvent_t event = nullptr;
  add("cudaEventCreate", [&] { check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); });
  add("cudaMemsetAsync",
      [&] { check(cudaMemsetAsync(objects.block, 0, kSmallBytes, objects.stream)); });
  check(cudaStreamSynchronize(objects.stream));
  add("cudaStreamSynchronize", [&] { check(cudaStreamSynchronize(objects.stream)); });
  add("launch", [&] { setup.work.launch(objects.stream, 0); });
  check(cudaStreamSynchronize(objects.stream));
  add("cudaEventRecord", [&] { check(cudaEventRecord(event, objects.stream)); });
  check(cudaDeviceSynchronize());
  add("cudaEventQuery", [&] { check(cudaEventQuery(event)); });
  add("cudaEventSynchronize", [&] { check(cudaEventSynchronize(event)); });
  add("cudaStreamWaitEvent", [&] { check(cudaStreamWaitEvent(objects.stream, event, 0)); });
  check(cudaDeviceSynchronize());
  add("cudaStreamQuery", [&] { check(cudaStreamQuery(objects.stream)); });
  add("cudaDeviceSynchronize", [&] { check(cudaDeviceSynchronize()); });
  add("cudaEventDestroy", [&] { check(cudaEventDestroy(event)); });
}

void measure_streams(const BlockSetup& setup) {
  std::array<cudaStream_t, kObjectCount> streams{};
  for (cudaStream_t& stream : streams) {
    setup.out.add("cudaStreamCreate", 0, setup.time([&] {
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }));
  }
  for (cudaStream_t stream : streams) {
    setup.out.add("cudaStreamDestroy", 0, setup.time([&] { check(cudaStreamDestroy(stream)); }));
  }
}

}  // namespace

void measure_quick_calls(const BlockSetup& setup) {
  const Objects objects;
  for (std::uint32_t i = 0; i < kRoundCount; ++i) {
    ask(setup, objects);
    order(setup, objects);
  }
  measure_streams(setup);
}

void measure_unfinished(const BlockSetup& setup) {
  const Objects objects;
  setup.work.launch_gated(objects.stream);
  check(cudaEventRecord(objects.event, objects.stream));
  const auto expect_not_ready = [](cudaError_t error) {
    if (error != cudaErrorNotReady) check(error);
  };
  for (std::uint32_t i = 0; i < kRoundCount; ++i) {
    const std::uint64_t event_ns =
        setup.time([&] { expect_not_ready(cudaEventQuery(objects.event)); });
    const std::uint64_t stream_ns =
        setup.time([&] { expect_not_ready(cudaStreamQuery(objects.stream)); });
    setup.out.add("cudaEventQuery.not_ready", 0, event_ns);
    setup.out.add("cudaStreamQuery.not_ready", 0, stream_ns);
    (void)cudaGetLastError();
  }
  setup.work.synchronize();
}

}  // namespace allocmark
