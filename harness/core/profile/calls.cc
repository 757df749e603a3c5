// Calls that do not touch the device's memory: each once per round, in turns, as a program's calls
// alternate.
#include <cuda_runtime_api.h>

#include <array>

#include "allocators/cuda/cuda_check.h"
#include "harness/core/profile/blocks.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kRoundCount = 200;
constexpr std::uint32_t kObjectCount = 20;
constexpr std::uint64_t kSmallBytes = 4096;

// Streams, events and a block for the calls, given back at the end.
struct Objects {
  Objects() {
    ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ALLOCMARK_CUDA_CHECK(cudaMalloc(&block, kSmallBytes));
    int device = 0;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
    ALLOCMARK_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
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
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  add("cudaGetDevice", [&] { ALLOCMARK_CUDA_CHECK(cudaGetDevice(&number)); });
  add("cudaSetDevice", [&] { ALLOCMARK_CUDA_CHECK(cudaSetDevice(device)); });
  add("cudaGetLastError", [&] { (void)cudaGetLastError(); });
  add("cudaDeviceGetAttribute", [&] {
    ALLOCMARK_CUDA_CHECK(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, device));
  });
  cudaDeviceProp properties{};
  add("cudaGetDeviceProperties",
      [&] { ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, device)); });
  cudaPointerAttributes pointer{};
  add("cudaPointerGetAttributes",
      [&] { ALLOCMARK_CUDA_CHECK(cudaPointerGetAttributes(&pointer, objects.block)); });
  std::uint64_t threshold_bytes = 0;
  add("cudaMemPoolGetAttribute", [&] {
    ALLOCMARK_CUDA_CHECK(
        cudaMemPoolGetAttribute(objects.pool, cudaMemPoolAttrReleaseThreshold, &threshold_bytes));
  });
  add("cudaMemPoolSetAttribute", [&] {
    ALLOCMARK_CUDA_CHECK(
        cudaMemPoolSetAttribute(objects.pool, cudaMemPoolAttrReleaseThreshold, &threshold_bytes));
  });
  add("cudaMemPoolTrimTo", [&] { ALLOCMARK_CUDA_CHECK(cudaMemPoolTrimTo(objects.pool, 0)); });
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  add("cudaMemGetInfo", [&] { ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes)); });
}

// One round over the calls about streams and events whose work is done.
void order(const BlockSetup& setup, const Objects& objects) {
  const auto add = [&](const char* cost, auto&& call) { setup.out.add(cost, 0, setup.time(call)); };
  cudaEvent_t event = nullptr;
  add("cudaEventCreate",
      [&] { ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); });
  add("cudaMemsetAsync", [&] {
    ALLOCMARK_CUDA_CHECK(cudaMemsetAsync(objects.block, 0, kSmallBytes, objects.stream));
  });
  ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(objects.stream));
  add("cudaStreamSynchronize",
      [&] { ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(objects.stream)); });
  add("launch", [&] { setup.work.launch(objects.stream, 0); });
  ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(objects.stream));
  add("cudaEventRecord", [&] { ALLOCMARK_CUDA_CHECK(cudaEventRecord(event, objects.stream)); });
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  add("cudaEventQuery", [&] { ALLOCMARK_CUDA_CHECK(cudaEventQuery(event)); });
  add("cudaEventSynchronize", [&] { ALLOCMARK_CUDA_CHECK(cudaEventSynchronize(event)); });
  add("cudaStreamWaitEvent",
      [&] { ALLOCMARK_CUDA_CHECK(cudaStreamWaitEvent(objects.stream, event, 0)); });
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  add("cudaStreamQuery", [&] { ALLOCMARK_CUDA_CHECK(cudaStreamQuery(objects.stream)); });
  add("cudaDeviceSynchronize", [&] { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); });
  add("cudaEventDestroy", [&] { ALLOCMARK_CUDA_CHECK(cudaEventDestroy(event)); });
}

void measure_streams(const BlockSetup& setup) {
  std::array<cudaStream_t, kObjectCount> streams{};
  for (cudaStream_t& stream : streams) {
    setup.out.add("cudaStreamCreate", 0, setup.time([&] {
      ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }));
  }
  for (cudaStream_t stream : streams) {
    setup.out.add("cudaStreamDestroy", 0,
                  setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(stream)); }));
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
  ALLOCMARK_CUDA_CHECK(cudaEventRecord(objects.event, objects.stream));
  const auto expect_not_ready = [](cudaError_t error) {
    if (error != cudaErrorNotReady) ALLOCMARK_CUDA_CHECK(error);
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
