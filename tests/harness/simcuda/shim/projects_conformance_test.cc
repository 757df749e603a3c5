// What tests of other projects hold GPUs to, and what no card was asked for here: a project's name
// stands at each. See scripts/measure/simcuda_suites.py.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <utility>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"
#include "tests/harness/simcuda/shim/driver_functions.h"

namespace {

using conformance::current_context;
using conformance::kMiB;
using conformance::on_new_thread;

constexpr const char* kPasses = "cudaSuccess";
constexpr const char* kRefused = "cudaErrorInvalidValue";

int first_byte_of(const void* block) {
  unsigned char byte = 0;
  REQUIRE(cudaMemcpy(&byte, block, 1, cudaMemcpyDeviceToHost) == cudaSuccess);
  return byte;
}

}  // namespace

// Umpire. Of other host memory CUDA's manual leaves it open.
TEST_CASE("pinned memory may stand where a copy is said to be of the device's") {
  std::array<char, 64> host{};
  host.fill(3);
  void* pinned = nullptr;
  void* block = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  REQUIRE(cudaMalloc(&block, 64) == cudaSuccess);
  REQUIRE_ANSWER(cudaMemcpy(pinned, host.data(), 64, cudaMemcpyHostToDevice), kPasses);
  REQUIRE_ANSWER(cudaMemcpy(block, pinned, 64, cudaMemcpyDeviceToDevice), kPasses);
  host.fill(0);
  REQUIRE_ANSWER(cudaMemcpy(host.data(), pinned, 64, cudaMemcpyDeviceToHost), kPasses);
  CHECK(host[63] == 3);
  host.fill(0);
  REQUIRE_ANSWER(cudaMemcpy(host.data(), block, 64, cudaMemcpyDeviceToHost), kPasses);
  CHECK(host[63] == 3);
  REQUIRE(cudaFree(block) == cudaSuccess);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
}

// CCCL.
TEST_CASE("pools need no current context and make none current, if the stream is a handle") {
  DRIVER(cuCtxSetCurrent);
  DRIVER(cuMemAllocAsync);
  DRIVER(cuMemAllocFromPoolAsync);
  DRIVER(cuMemFreeAsync);
  DRIVER(cuStreamSynchronize);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  on_new_thread([&] {
    REQUIRE(cuCtxSetCurrent_found(nullptr) == CUDA_SUCCESS);
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {.type = cudaMemLocationTypeDevice, .id = 0};
    cudaMemPool_t pool = nullptr;
    cudaMemPool_t first = nullptr;
    std::uint64_t threshold_bytes = 1;
    REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
    CHECK(cudaDeviceGetDefaultMemPool(&first, 0) == cudaSuccess);
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold_bytes) ==
          cudaSuccess);
    CUdeviceptr one = 0;
    CUdeviceptr two = 0;
    CHECK(cuMemAllocFromPoolAsync_found(&one, kMiB, pool, stream) == CUDA_SUCCESS);
    CHECK(cuMemAllocAsync_found(&two, kMiB, stream) == CUDA_SUCCESS);
    CHECK(cuMemAllocAsync_found(&two, kMiB, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    cudaPointerAttributes attributes{};
    CHECK(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(one)) == cudaSuccess);
    CHECK(attributes.device == 0);
    CHECK(cuMemFreeAsync_found(one, stream) == CUDA_SUCCESS);
    CHECK(cuMemFreeAsync_found(two, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize_found(stream) == CUDA_SUCCESS);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(current_context() == nullptr);
  });
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}

// CUDA's samples of graphs with memory.
TEST_CASE("nodes of work are added by hand, and run in the order of their dependencies") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t fill = nullptr;
  cudaGraphNode_t copy = nullptr;
  cudaGraphNode_t host = nullptr;
  unsigned char* block = nullptr;
  unsigned char got[64] = {};
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&block), 1024) == cudaSuccess);
  REQUIRE(cudaMemset(block, 1, 1024) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);

  cudaMemsetParams values{};
  values.dst = block;
  values.elementSize = 3;
  values.value = 7;
  values.width = 32;
  values.height = 1;
  REQUIRE_ANSWER(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &values), kRefused);
  values.elementSize = 1;
  REQUIRE_ANSWER(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, nullptr), kRefused);
  REQUIRE_ANSWER(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &values), kPasses);
  REQUIRE_ANSWER(cudaGraphAddMemcpyNode1D(&copy, graph, &fill, 1, got, block, sizeof got,
                                          cudaMemcpyDeviceToHost),
                 kPasses);
  // Sees what the copy brought.
  struct Seen {
    const unsigned char* at = nullptr;
    int value = 0;
  } seen{got, 0};
  cudaHostNodeParams function{};
  REQUIRE_ANSWER(cudaGraphAddHostNode(&host, graph, &copy, 1, &function), kRefused);
  function.fn = [](void* data) { static_cast<Seen*>(data)->value = *static_cast<Seen*>(data)->at; };
  function.userData = &seen;
  REQUIRE_ANSWER(cudaGraphAddHostNode(&host, graph, &copy, 1, &function), kPasses);
  for (const auto& [node, type] :
       {std::pair(fill, cudaGraphNodeTypeMemset), std::pair(copy, cudaGraphNodeTypeMemcpy),
        std::pair(host, cudaGraphNodeTypeHost)}) {
    cudaGraphNodeType told = cudaGraphNodeTypeEmpty;
    REQUIRE_ANSWER(cudaGraphNodeGetType(node, &told), kPasses);
    CHECK(told == type);
  }

  REQUIRE_ANSWER(cudaGraphInstantiate(&exec, graph, 0), kPasses);
  CHECK(first_byte_of(block) == 1);
  REQUIRE_ANSWER(cudaGraphLaunch(exec, stream), kPasses);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(first_byte_of(block) == 7);
  CHECK(got[31] == 7);
  CHECK(got[32] == 1);
  CHECK(seen.value == 7);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaFree(block) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}

// CUDA's sample UnifiedMemoryStreams.
TEST_CASE("managed memory is attached to a stream, but not to the null stream alone") {
  cudaStream_t stream = nullptr;
  void* block = nullptr;
  void* plain = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaMallocManaged(&block, 4096, cudaMemAttachGlobal) == cudaSuccess);
  REQUIRE(cudaMalloc(&plain, 4096) == cudaSuccess);
  REQUIRE_ANSWER(cudaStreamAttachMemAsync(stream, block, 0, cudaMemAttachSingle), kPasses);
  REQUIRE_ANSWER(cudaStreamAttachMemAsync(nullptr, block, 0, cudaMemAttachHost), kPasses);
  REQUIRE_ANSWER(cudaStreamAttachMemAsync(nullptr, block, 0, cudaMemAttachSingle), kRefused);
  REQUIRE_ANSWER(cudaStreamAttachMemAsync(stream, block, 0, 8), kRefused);
  REQUIRE_ANSWER(cudaStreamAttachMemAsync(stream, plain, 0, cudaMemAttachGlobal), kRefused);
  REQUIRE(cudaFree(plain) == cudaSuccess);
  REQUIRE(cudaFree(block) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}
