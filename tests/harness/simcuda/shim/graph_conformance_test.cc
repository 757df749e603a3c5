// Graphs and the memory that they allocate. All of it holds on an H200 (driver 580.159.04,
// 2026-11-26).
#include <cuda_runtime_api.h>

#include <array>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

namespace {

using conformance::kMiB;

constexpr const char* kFine = "cudaSuccess";
constexpr const char* kBadValue = "cudaErrorInvalidValue";

struct OwnStream {
  OwnStream() { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream = nullptr;
};

std::uint64_t graph_memory(cudaGraphMemAttributeType attribute) {
  std::uint64_t value = 99;
  REQUIRE(cudaDeviceGetGraphMemAttribute(0, attribute, &value) == cudaSuccess);
  return value;
}

void reset_graph_memory() {
  std::uint64_t zero = 0;
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
  for (const auto attribute : {cudaGraphMemAttrUsedMemHigh, cudaGraphMemAttrReservedMemHigh}) {
    REQUIRE(cudaDeviceSetGraphMemAttribute(0, attribute, &zero) == cudaSuccess);
  }
}

// A captured graph of one allocation, a fill of it, and its free where asked.
struct AllocatingGraph {
  AllocatingGraph(cudaStream_t stream, std::size_t size_bytes, bool frees,
                  unsigned long long flags = 0) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&block, size_bytes, stream) == cudaSuccess);
    REQUIRE(block != nullptr);
    REQUIRE(cudaMemsetAsync(block, 5, 512, stream) == cudaSuccess);
    if (frees) REQUIRE(cudaFreeAsync(block, stream) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec, graph, flags) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  ~AllocatingGraph() { cudaGraphExecDestroy(exec); }
  AllocatingGraph(const AllocatingGraph&) = delete;
  AllocatingGraph& operator=(const AllocatingGraph&) = delete;
  void* block = nullptr;
  cudaGraphExec_t exec = nullptr;
};

int first_byte(const void* block) {
  unsigned char byte = 0;
  if (cudaMemcpy(&byte, block, 1, cudaMemcpyDeviceToHost) != cudaSuccess) return -1;
  return byte;
}

}  // namespace

TEST_CASE("captured work happens at each launch and not before") {
  const OwnStream stream;
  void* block = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaMalloc(&block, 1024) == cudaSuccess);
  REQUIRE(cudaMemset(block, 1, 1024) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(block, 2, 512, stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(static_cast<char*>(block) + 512, block, 512, cudaMemcpyDeviceToDevice,
                          stream) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(first_byte(block) == 1);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int round = 0; round < 2; ++round) {
    REQUIRE(cudaMemset(block, 1, 1024) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE_ANSWER(cudaGraphLaunch(exec, stream), kFine);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(first_byte(static_cast<char*>(block) + 1023) == 2);
  }
  REQUIRE_ANSWER(cudaGraphExecDestroy(exec), kFine);
  REQUIRE_ANSWER(cudaGraphDestroy(graph), kFine);
  REQUIRE(cudaFree(block) == cudaSuccess);
}

TEST_CASE("a graph tells its nodes, their kinds and what they depend on") {
  const OwnStream stream;
  void* block = nullptr;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaMalloc(&block, 1024) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(block, 2, 512, stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(static_cast<char*>(block) + 512, block, 512, cudaMemcpyDefault, stream) ==
          cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(
              stream, [](void*) {}, nullptr) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  std::array<cudaGraphNode_t, 5> nodes{};
  nodes.fill(reinterpret_cast<cudaGraphNode_t>(&nodes));
  std::size_t count = 0;
  REQUIRE_ANSWER(cudaGraphGetNodes(graph, nullptr, &count), kFine);
  CHECK(count == 3);
  count = nodes.size();
  REQUIRE_ANSWER(cudaGraphGetNodes(graph, nodes.data(), &count), kFine);
  CHECK(count == 3);
  CHECK(nodes[4] == nullptr);
  const std::array wanted = {cudaGraphNodeTypeMemset, cudaGraphNodeTypeMemcpy,
                             cudaGraphNodeTypeHost};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    cudaGraphNodeType type{};
    REQUIRE_ANSWER(cudaGraphNodeGetType(nodes[i], &type), kFine);
    CHECK(type == wanted[i]);
    cudaGraphNode_t before = nullptr;
    count = 1;
    REQUIRE_ANSWER(cudaGraphNodeGetDependencies(nodes[i], &before, nullptr, &count), kFine);
    CHECK(count == (i == 0 ? 0 : 1));
    CHECK(before == (i == 0 ? nullptr : nodes[i - 1]));
  }
  std::array<cudaGraphNode_t, 2> from{};
  std::array<cudaGraphNode_t, 2> to{};
  count = 2;
  REQUIRE_ANSWER(cudaGraphGetEdges(graph, from.data(), to.data(), nullptr, &count), kFine);
  CHECK(count == 2);
  CHECK(from[1] == nodes[1]);
  CHECK(to[1] == nodes[2]);
  count = 5;
  REQUIRE_ANSWER(cudaGraphGetRootNodes(graph, nullptr, &count), kFine);
  CHECK(count == 1);
  REQUIRE_ANSWER(cudaGraphGetNodes(graph, nullptr, nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphGetNodes(nullptr, nullptr, &count), kBadValue);
  cudaGraph_t clone = nullptr;
  REQUIRE_ANSWER(cudaGraphClone(&clone, graph), kFine);
  REQUIRE_ANSWER(cudaGraphGetEdges(clone, nullptr, nullptr, nullptr, &count), kFine);
  CHECK(count == 2);
  REQUIRE(cudaGraphDestroy(clone) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaFree(block) == cudaSuccess);
}

TEST_CASE("an executable graph is updated by a graph of the same shape alone") {
  const OwnStream stream;
  void* block = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaMalloc(&block, 1024) == cudaSuccess);
  const auto capture = [&](int value, int count) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    for (int i = 0; i < count; ++i) {
      REQUIRE(cudaMemsetAsync(block, value, 512, stream) == cudaSuccess);
    }
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    return graph;
  };
  cudaGraph_t const first = capture(3, 1);
  cudaGraph_t const again = capture(4, 1);
  cudaGraph_t const longer = capture(5, 2);
  cudaGraphExecUpdateResultInfo result{};
  REQUIRE(cudaGraphInstantiate(&exec, first, 0) == cudaSuccess);
  REQUIRE_ANSWER(cudaGraphExecUpdate(exec, again, &result), kFine);
  CHECK(result.result == cudaGraphExecUpdateSuccess);
  REQUIRE_ANSWER(cudaGraphExecUpdate(exec, longer, &result), "cudaErrorGraphExecUpdateFailure");
  CHECK(result.result == cudaGraphExecUpdateErrorTopologyChanged);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(first_byte(block) == 4);
  for (cudaGraph_t const graph : {first, again, longer}) {
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  REQUIRE(cudaFree(block) == cudaSuccess);
}

TEST_CASE("what is no graph, no executable graph or no flag is refused") {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE_ANSWER(cudaGraphCreate(nullptr, 0), kBadValue);
  REQUIRE_ANSWER(cudaGraphCreate(&graph, 1), kBadValue);
  REQUIRE_ANSWER(cudaGraphDestroy(nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphCreate(&graph, 0), kFine);
  REQUIRE_ANSWER(cudaGraphInstantiate(nullptr, graph, 0), kBadValue);
  REQUIRE_ANSWER(cudaGraphInstantiate(&exec, nullptr, 0), kBadValue);
  REQUIRE_ANSWER(cudaGraphInstantiate(&exec, graph, 1024), kBadValue);
  REQUIRE_ANSWER(cudaGraphInstantiateWithParams(&exec, graph, nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphLaunch(nullptr, nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphUpload(nullptr, nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphExecDestroy(nullptr), kBadValue);
  cudaGraphInstantiateParams parameters{};
  parameters.flags = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload;
  REQUIRE_ANSWER(cudaGraphInstantiateWithParams(&exec, graph, &parameters), kFine);
  CHECK(parameters.result_out == cudaGraphInstantiateSuccess);
  unsigned long long flags = 0;
  REQUIRE_ANSWER(cudaGraphExecGetFlags(exec, &flags), kFine);
  CHECK(flags == cudaGraphInstantiateFlagAutoFreeOnLaunch);
  REQUIRE_ANSWER(cudaGraphLaunch(exec, nullptr), kFine);  // an empty graph
  REQUIRE_ANSWER(cudaGraphExecDestroy(exec), kFine);
  REQUIRE_ANSWER(cudaGraphDestroy(graph), kFine);
}

TEST_CASE("a graph's memory comes with its first launch and goes when it is trimmed") {
  const OwnStream stream;
  {  // A process's first such launch takes 2 MiB of an H200 for good.
    const AllocatingGraph first(stream, 2 * kMiB, /*frees=*/true);
    REQUIRE(cudaGraphLaunch(first.exec, stream) == cudaSuccess);
  }
  reset_graph_memory();
  const std::uint64_t free_before = conformance::free_bytes();
  {
    const AllocatingGraph graph(stream, 256 * kMiB, /*frees=*/true);
    CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 0);
    REQUIRE_ANSWER(cudaGraphLaunch(graph.exec, stream), kFine);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(graph_memory(cudaGraphMemAttrUsedMemCurrent) == 256 * kMiB);
    CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 256 * kMiB);
    CHECK(free_before - conformance::free_bytes() == 256 * kMiB);
    // It is not the pool's.
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    REQUIRE(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
    CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 256 * kMiB);
  }
  // What no graph maps any more counts as used until it is trimmed.
  CHECK(graph_memory(cudaGraphMemAttrUsedMemCurrent) == 256 * kMiB);
  CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 256 * kMiB);
  REQUIRE_ANSWER(cudaDeviceGraphMemTrim(0), kFine);
  CHECK(graph_memory(cudaGraphMemAttrUsedMemCurrent) == 0);
  CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 0);
  CHECK(graph_memory(cudaGraphMemAttrReservedMemHigh) == 256 * kMiB);
  CHECK(graph_memory(cudaGraphMemAttrUsedMemHigh) == 256 * kMiB);
  CHECK(conformance::free_bytes() == free_before);
  std::uint64_t value = 1;
  REQUIRE_ANSWER(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value), kBadValue);
  value = 0;
  REQUIRE_ANSWER(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &value),
                 kBadValue);
  REQUIRE_ANSWER(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, nullptr),
                 kBadValue);
  REQUIRE_ANSWER(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, nullptr),
                 kBadValue);
  REQUIRE_ANSWER(cudaDeviceGetGraphMemAttribute(99, cudaGraphMemAttrUsedMemHigh, &value),
                 "cudaErrorInvalidDevice");
  REQUIRE_ANSWER(cudaDeviceGraphMemTrim(99), "cudaErrorInvalidDevice");
  REQUIRE_ANSWER(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value), kFine);
  CHECK(graph_memory(cudaGraphMemAttrUsedMemHigh) == 0);
}

TEST_CASE("graphs that run one behind the other share their memory") {
  const OwnStream stream;
  reset_graph_memory();
  {
    const AllocatingGraph one(stream, 256 * kMiB, /*frees=*/true);
    const AllocatingGraph two(stream, 256 * kMiB, /*frees=*/true);
    CHECK(one.block != two.block);
    for (int round = 0; round < 3; ++round) {
      REQUIRE(cudaGraphLaunch(one.exec, stream) == cudaSuccess);
      REQUIRE(cudaGraphLaunch(two.exec, stream) == cudaSuccess);
    }
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(graph_memory(cudaGraphMemAttrReservedMemHigh) == 256 * kMiB);
  }
  reset_graph_memory();
}

TEST_CASE("what a graph does not free lives on, and is freed before the next launch") {
  const OwnStream stream;
  reset_graph_memory();
  {
    const AllocatingGraph graph(stream, 64 * kMiB, /*frees=*/false);
    for (int round = 0; round < 3; ++round) {
      REQUIRE_ANSWER(cudaGraphLaunch(graph.exec, stream), kFine);
      REQUIRE_ANSWER(cudaGraphLaunch(graph.exec, stream), kBadValue);
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      CHECK(first_byte(graph.block) == 5);  // at the address of the capture
      REQUIRE_ANSWER(cudaDeviceGraphMemTrim(0), kFine);
      CHECK(graph_memory(cudaGraphMemAttrUsedMemCurrent) == 64 * kMiB);
      REQUIRE_ANSWER(round == 0 ? cudaFree(graph.block) : cudaFreeAsync(graph.block, stream),
                     kFine);
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      REQUIRE_ANSWER(cudaFreeAsync(graph.block, stream), kBadValue);
    }
    // A graph may free what another one allocated.
    REQUIRE(cudaGraphLaunch(graph.exec, stream) == cudaSuccess);
    cudaGraph_t freeing = nullptr;
    cudaGraphExec_t freeing_exec = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE_ANSWER(cudaFreeAsync(graph.block, stream), kFine);
    REQUIRE(cudaStreamEndCapture(stream, &freeing) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&freeing_exec, freeing, 0) == cudaSuccess);
    REQUIRE_ANSWER(cudaGraphLaunch(freeing_exec, stream), kFine);
    REQUIRE_ANSWER(cudaGraphLaunch(graph.exec, stream), kFine);
    REQUIRE_ANSWER(cudaGraphLaunch(freeing_exec, stream), kFine);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(freeing_exec) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(freeing) == cudaSuccess);
  }
  {
    const AllocatingGraph graph(stream, 64 * kMiB, /*frees=*/false,
                                cudaGraphInstantiateFlagAutoFreeOnLaunch);
    REQUIRE_ANSWER(cudaGraphLaunch(graph.exec, stream), kFine);
    REQUIRE_ANSWER(cudaGraphLaunch(graph.exec, stream), kFine);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(graph_memory(cudaGraphMemAttrReservedMemCurrent) == 64 * kMiB);
    REQUIRE_ANSWER(cudaFreeAsync(graph.block, stream), kFine);
  }
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  reset_graph_memory();
}

TEST_CASE("a capture frees only what a graph allocates, and nothing twice") {
  const OwnStream stream;
  void* pooled = nullptr;
  void* block = nullptr;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaMallocAsync(&pooled, 4096, stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE_ANSWER(cudaFreeAsync(pooled, stream), kBadValue);
  REQUIRE_ANSWER(cudaMallocAsync(&block, 4096, stream), kFine);
  REQUIRE_ANSWER(cudaFreeAsync(static_cast<char*>(block) + 512, stream), kBadValue);
  REQUIRE_ANSWER(cudaFreeAsync(block, stream), kFine);
  REQUIRE_ANSWER(cudaFreeAsync(block, stream), kBadValue);
  REQUIRE_ANSWER(cudaStreamEndCapture(stream, &graph), kFine);
  std::size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  CHECK(count == 2);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE_ANSWER(cudaFreeAsync(block, stream), kBadValue);
  REQUIRE(cudaFreeAsync(pooled, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST_CASE("nodes of memory are added by hand, and bind their graph") {
  const OwnStream stream;
  cudaGraph_t graph = nullptr;
  cudaGraph_t clone = nullptr;
  cudaGraphNode_t made = nullptr;
  cudaGraphNode_t freed = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphExec_t second = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  cudaMemAllocNodeParams parameters{};
  parameters.bytesize = 1000;
  REQUIRE_ANSWER(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters), kBadValue);
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location.type = cudaMemLocationTypeDevice;
  parameters.poolProps.location.id = 99;
  REQUIRE_ANSWER(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters), kBadValue);
  parameters.poolProps.location.id = 0;
  REQUIRE_ANSWER(cudaGraphAddMemAllocNode(nullptr, graph, nullptr, 0, &parameters), kBadValue);
  REQUIRE_ANSWER(cudaGraphAddMemAllocNode(&made, graph, nullptr, 3, &parameters), kBadValue);
  REQUIRE_ANSWER(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &parameters), kFine);
  cudaMemAllocNodeParams told{};
  REQUIRE_ANSWER(cudaGraphMemAllocNodeGetParams(made, &told), kFine);
  CHECK(told.dptr == parameters.dptr);
  CHECK(told.bytesize == 1000);
  REQUIRE_ANSWER(cudaGraphAddMemFreeNode(&freed, graph, &made, 1, nullptr), kBadValue);
  REQUIRE_ANSWER(cudaGraphAddMemFreeNode(&freed, graph, &made, 1, parameters.dptr), kFine);
  REQUIRE_ANSWER(cudaGraphAddMemFreeNode(&freed, graph, &made, 1, parameters.dptr), kBadValue);
  void* address = nullptr;
  REQUIRE_ANSWER(cudaGraphMemFreeNodeGetParams(freed, &address), kFine);
  CHECK(address == parameters.dptr);
  REQUIRE_ANSWER(cudaGraphMemFreeNodeGetParams(made, &address), kBadValue);
  REQUIRE_ANSWER(cudaGraphClone(&clone, graph), "cudaErrorNotSupported");
  REQUIRE_ANSWER(cudaGraphInstantiate(&exec, graph, 0), kFine);
  REQUIRE_ANSWER(cudaGraphInstantiate(&second, graph, 0), "cudaErrorNotSupported");
  REQUIRE_ANSWER(cudaGraphLaunch(exec, stream), kFine);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE_ANSWER(cudaGraphExecDestroy(exec), kFine);
  REQUIRE_ANSWER(cudaGraphInstantiate(&second, graph, 0), kFine);
  REQUIRE(cudaGraphExecDestroy(second) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  reset_graph_memory();
}
