// Graphs on simcuda alone: how long a launch takes, kernels with arguments, gates, misuse that no
// GPU survives. Needs simcuda in front.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/control.h"

cudaError_t launch_add_to_all(int* values, int count, int summand, cudaStream_t stream);
const void* add_to_all_function();

namespace {

constexpr std::uint64_t kMicrosecond = 1000;

struct Lane {
  Lane() { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
  ~Lane() { cudaStreamDestroy(stream); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream = nullptr;
};

cudaGraphExec_t end_and_instantiate(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  return exec;
}

void begin(cudaStream_t stream) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
}

// From now until the stream's work ends, less what the calls themselves took.
std::uint64_t work_ns(cudaStream_t stream) {
  std::uint64_t end_ns = 0;
  REQUIRE(SIMCU(simcu_stream_end)(stream, &end_ns) == 0);
  const std::uint64_t now_ns = SIMCU(simcu_thread_clock)()->modelled_ns;
  return end_ns > now_ns ? end_ns - now_ns : 0;
}

}  // namespace

TEST_CASE("a launch takes as long as the longest path of its graph") {
  const Lane one;
  const Lane two;
  cudaEvent_t events[2] = {};
  for (cudaEvent_t& event : events) REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  begin(one);
  REQUIRE(SIMCU(simcu_launch)(one, 100 * kMicrosecond) == 0);
  REQUIRE(cudaEventRecord(events[0], one) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(two, events[0], 0) == cudaSuccess);
  REQUIRE(SIMCU(simcu_launch)(one, 50 * kMicrosecond) == 0);
  REQUIRE(SIMCU(simcu_launch)(two, 300 * kMicrosecond) == 0);
  REQUIRE(cudaEventRecord(events[1], two) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(one, events[1], 0) == cudaSuccess);
  REQUIRE(SIMCU(simcu_launch)(one, 7 * kMicrosecond) == 0);
  CHECK(work_ns(one) == 0);  // nothing ran yet
  cudaGraphExec_t const exec = end_and_instantiate(one);
  REQUIRE(cudaGraphLaunch(exec, one) == cudaSuccess);
  CHECK(work_ns(one) == 407 * kMicrosecond);
  // The next launch comes behind it, on another stream too.
  REQUIRE(cudaGraphLaunch(exec, two) == cudaSuccess);
  const std::uint64_t both_ns = work_ns(two);
  CHECK(both_ns <= 814 * kMicrosecond);
  CHECK(both_ns > 790 * kMicrosecond);
  CHECK(cudaStreamQuery(two) == cudaErrorNotReady);
  REQUIRE(cudaStreamSynchronize(two) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  for (cudaEvent_t const event : events) cudaEventDestroy(event);
}

TEST_CASE("a captured kernel keeps its arguments, where their sizes were told") {
  const Lane stream;
  int count = 0;
  const auto model = [](void** arguments, void* context) -> std::uint64_t {
    int* const values = *static_cast<int**>(arguments[0]);
    auto* const view = static_cast<int*>(SIMCU(simcu_view)(values, sizeof(int)));
    *view += *static_cast<int*>(arguments[2]);
    ++*static_cast<int*>(context);
    return 5 * kMicrosecond;
  };
  REQUIRE(SIMCU(simcu_register_kernel)("add_to_all", model, &count) == 0);
  int* values = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&values), sizeof(int)) == cudaSuccess);
  REQUIRE(cudaMemset(values, 0, sizeof(int)) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  begin(stream);
  CHECK(launch_add_to_all(values, 1, 3, stream) == cudaErrorNotSupported);
  CHECK(std::string(SIMCU(simcu_last_message)()).find("simcu_register_arguments") !=
        std::string::npos);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  const std::uint64_t sizes_bytes[] = {sizeof(int*), sizeof(int), sizeof(int)};
  REQUIRE(SIMCU(simcu_register_arguments)("add_to_all", sizes_bytes, 3) == 0);
  CHECK(SIMCU(simcu_register_arguments)("", sizes_bytes, 3) == cudaErrorInvalidValue);
  begin(stream);
  REQUIRE(launch_add_to_all(values, 1, 3, stream) == cudaSuccess);
  CHECK(count == 0);
  cudaGraphExec_t const exec = end_and_instantiate(stream);
  for (int i = 0; i < 4; ++i) REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  int sum = 0;
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaMemcpy(&sum, values, sizeof sum, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(count == 4);
  CHECK(sum == 12);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);

  // So does a kernel that is added by hand.
  int summand = 5;
  void* arguments[] = {&values, &count, &summand};
  cudaKernelNodeParams kernel{};
  kernel.func = const_cast<void*>(add_to_all_function());
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(128);
  kernel.kernelParams = arguments;
  cudaFuncAttributes facts{};
  REQUIRE(cudaFuncGetAttributes(&facts, kernel.func) == cudaSuccess);
  CHECK(facts.numRegs > 0);  // cuBLAS divides by it
  cudaGraphNode_t node = nullptr;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel) == cudaSuccess);
  REQUIRE(cudaGraphNodeGetType(node, &type) == cudaSuccess);
  CHECK(type == cudaGraphNodeTypeKernel);
  summand = 100;  // too late
  cudaGraphExec_t by_hand = nullptr;
  REQUIRE(cudaGraphInstantiate(&by_hand, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(by_hand, stream) == cudaSuccess);
  CHECK(work_ns(stream) == 5 * kMicrosecond);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaMemcpy(&sum, values, sizeof sum, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(sum == 17);
  kernel.func = &summand;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel) ==
        cudaErrorInvalidDeviceFunction);
  REQUIRE(cudaGraphExecDestroy(by_hand) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaFree(values) == cudaSuccess);
}

TEST_CASE("gates, host functions, external events and child graphs keep the order of the graph") {
  const Lane stream;
  const Lane other;
  std::atomic<int> calls = 0;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  begin(stream);
  REQUIRE(SIMCU(simcu_launch)(stream, 10 * kMicrosecond) == 0);
  cudaGraphExec_t const child = end_and_instantiate(stream);
  constexpr std::uint64_t kGate = 771;
  begin(stream);
  REQUIRE(cudaGraphLaunch(child, stream) == cudaSuccess);
  REQUIRE(SIMCU(simcu_launch_gated)(stream, kGate) == 0);
  REQUIRE(cudaLaunchHostFunc(
              stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls) ==
          cudaSuccess);
  REQUIRE(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal) == cudaSuccess);
  cudaGraphExec_t const exec = end_and_instantiate(stream);
  REQUIRE(cudaGraphExecDestroy(child) == cudaSuccess);  // the graph has its own
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
  CHECK(cudaStreamQuery(other) == cudaErrorNotReady);
  CHECK(calls == 0);
  REQUIRE(SIMCU(simcu_open_gate)(kGate) == 0);
  REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
  CHECK(calls == 1);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  // External events are of captures alone.
  CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal) == cudaErrorInvalidValue);
  CHECK(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal) == cudaErrorInvalidValue);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaGraphLaunch(exec, stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("handles that were destroyed or made up are refused by every function of graphs") {
  const Lane stream;
  cudaGraph_t graph = nullptr;
  cudaGraph_t made = nullptr;
  cudaGraphNode_t node = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphAddEmptyNode(&node, graph, nullptr, 0) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  std::size_t count = 0;
  cudaGraphNodeType type{};
  unsigned long long flags = 0;
  cudaGraphExecUpdateResultInfo result{};
  const std::vector<cudaError_t> errors = {
      cudaGraphLaunch(exec, stream),
      cudaGraphUpload(exec, stream),
      cudaGraphExecDestroy(exec),
      cudaGraphExecGetFlags(exec, &flags),
      cudaGraphExecUpdate(exec, graph, &result),
      cudaGraphInstantiate(&exec, graph, 0),
      cudaGraphDestroy(graph),
      cudaGraphClone(&made, graph),
      cudaGraphGetNodes(graph, nullptr, &count),
      cudaGraphDebugDotPrint(graph, "/dev/null", 0),
      cudaGraphNodeGetType(node, &type),
      cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count),
      cudaGraphAddEmptyNode(&node, graph, nullptr, 0),
      cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(&count), stream),
      cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(0x10)),
      cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0,
                                    cudaStreamCaptureModeGlobal),
      cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(3))};
  for (const cudaError_t error : errors) CHECK(error == cudaErrorInvalidValue);
  CHECK(cudaStreamBeginCapture(reinterpret_cast<cudaStream_t>(0x77), cudaStreamCaptureModeGlobal) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamEndCapture(reinterpret_cast<cudaStream_t>(0x77), &graph) ==
        cudaErrorInvalidResourceHandle);
  // A graph that is being captured into is the capture's.
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  REQUIRE(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0,
                                        cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
  CHECK(cudaStreamEndCapture(stream, nullptr) == cudaErrorInvalidValue);
  REQUIRE(cudaStreamEndCapture(stream, &made) == cudaSuccess);
  CHECK(made == graph);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("a stream that is destroyed takes its capture with it") {
  void* block = nullptr;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  begin(stream);
  REQUIRE(cudaMallocAsync(&block, 4096, stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  REQUIRE(cudaMalloc(&block, 512) == cudaSuccess);  // nothing is captured any more
  REQUIRE(cudaFree(block) == cudaSuccess);
  REQUIRE(cudaMemset(nullptr, 0, 0) == cudaSuccess);
}

TEST_CASE("a graph whose memory is gone says so at its launch") {
  const Lane stream;
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 4 << 20) == cudaSuccess);
  begin(stream);
  REQUIRE(cudaMemsetAsync(block, 1, 512, stream) == cudaSuccess);
  cudaGraphExec_t const exec = end_and_instantiate(stream);
  REQUIRE(cudaFree(block) == cudaSuccess);
  CHECK(cudaGraphLaunch(exec, stream) == cudaErrorIllegalAddress);
  CHECK(std::string(SIMCU(simcu_last_message)()).find("not allocated") != std::string::npos);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("the driver's names do the same, and leave the runtime's last error alone") {
  const auto begin_capture = SIMCU(cuStreamBeginCapture_v2);
  REQUIRE(begin_capture != nullptr);
  const Lane stream;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUstreamCaptureStatus status{};
  CUgraphNode node = nullptr;
  CUgraphNodeType type{};
  std::size_t count = 1;
  CUdeviceptr address = 0;
  CHECK(begin_capture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  REQUIRE(begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(SIMCU(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  cuuint64_t id = 0;
  REQUIRE(SIMCU(cuStreamGetCaptureInfo_v3)(stream, &status, &id, &graph, nullptr, nullptr,
                                           &count) == CUDA_SUCCESS);
  CHECK(id != 0);
  CHECK(count == 0);
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, 1000, stream) == cudaSuccess);
  REQUIRE(cudaFreeAsync(block, stream) == cudaSuccess);
  REQUIRE(SIMCU(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
  count = 1;
  REQUIRE(SIMCU(cuGraphGetNodes)(graph, &node, &count) == CUDA_SUCCESS);
  REQUIRE(SIMCU(cuGraphNodeGetType)(node, &type) == CUDA_SUCCESS);
  CHECK(type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  REQUIRE(SIMCU(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(SIMCU(cuGraphUpload)(exec, stream) == CUDA_SUCCESS);
  std::uint64_t bytes = 0;
  REQUIRE(SIMCU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) ==
          CUDA_SUCCESS);
  CHECK(bytes == 32 << 20);
  REQUIRE(SIMCU(cuGraphLaunch)(exec, stream) == CUDA_SUCCESS);
  CHECK(SIMCU(cuGraphMemFreeNodeGetParams)(node, &address) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(SIMCU(cuGraphExecDestroy)(exec) == CUDA_SUCCESS);
  CHECK(SIMCU(cuGraphExecDestroy)(exec) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(SIMCU(cuGraphDestroy)(graph) == CUDA_SUCCESS);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(SIMCU(cuDeviceGraphMemTrim)(0) == CUDA_SUCCESS);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("threads capture, launch and destroy beside each other") {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      cudaStream_t stream = nullptr;
      bool works = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
      for (int round = 0; round < 50; ++round) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t exec = nullptr;
        void* block = nullptr;
        works &= cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
        works &= cudaMallocAsync(&block, 1 << 20, stream) == cudaSuccess;
        works &= cudaMemsetAsync(block, round, 512, stream) == cudaSuccess;
        works &= cudaFreeAsync(block, stream) == cudaSuccess;
        works &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
        works &= cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
        works &= cudaGraphLaunch(exec, stream) == cudaSuccess;
        works &= cudaGraphLaunch(exec, stream) == cudaSuccess;
        works &= cudaGraphExecDestroy(exec) == cudaSuccess;
        works &= cudaGraphDestroy(graph) == cudaSuccess;
      }
      works &= cudaStreamSynchronize(stream) == cudaSuccess;
      works &= cudaStreamDestroy(stream) == cudaSuccess;
      failures += works ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  REQUIRE(cudaDeviceGraphMemTrim(0) == cudaSuccess);
  std::uint64_t reserved_bytes = 1;
  REQUIRE(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved_bytes) ==
          cudaSuccess);
  CHECK(reserved_bytes == 0);
}
