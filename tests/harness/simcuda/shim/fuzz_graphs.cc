// Steps of the fuzzer: captures that are ended, left open or broken, graphs and what is made of
// them, memory of graphs.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "harness/simcuda/simcu.h"
#include "tests/harness/simcuda/shim/fuzz_state.h"

namespace fuzz {
namespace {

cudaGraph_t any_graph(State& state, bool take = false) {
  return state.as<cudaGraph_t>(state.shared().graphs, take);
}
cudaGraphExec_t any_exec(State& state, bool take = false) {
  return state.as<cudaGraphExec_t>(state.shared().execs, take);
}
cudaGraphNode_t any_node(State& state) { return state.as<cudaGraphNode_t>(state.shared().nodes); }
cudaStream_t stream_of(State& state) { return state.as<cudaStream_t>(state.shared().streams); }

void keep_graph(State& state, cudaGraph_t graph) {
  const std::uint64_t before =
      state.shared().graphs.put(reinterpret_cast<std::uint64_t>(graph), state.random());
  if (before != 0) (void)cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(before));
}

void keep_nodes(State& state, cudaGraph_t graph) {
  cudaGraphNode_t nodes[8] = {};
  std::size_t count = state.below(9);
  if (cudaGraphGetNodes(graph, nodes, &count) != cudaSuccess) return;
  for (std::size_t i = 0; i < count; ++i) {
    (void)state.shared().nodes.put(reinterpret_cast<std::uint64_t>(nodes[i]), state.random());
  }
}

// A graph's copies are the program's to guard.
void launch(State& state, cudaStream_t stream) {
  cudaGraphExec_t const exec = any_exec(state);
  const std::scoped_lock lock(state.shared().contents);
  if (state.one_in(4)) {
    (void)FUZZ_FIND(cuGraphLaunch)(exec, stream);
  } else {
    (void)cudaGraphLaunch(exec, stream);
  }
}

void put_work(State& state, cudaStream_t stream, cudaStream_t joined, void** block) {
  auto* const some = state.as<void*>(state.shared().blocks);
  auto* const event = state.as<cudaEvent_t>(state.shared().events);
  switch (state.below(10)) {
    case 0:
      (void)cudaMallocAsync(block, state.size(), stream);
      break;
    case 1:
      (void)cudaFreeAsync(state.one_in(4) ? some : *block, stream);
      break;
    case 2:
      (void)cudaEventRecordWithFlags(event, stream, state.one_in(4) ? 1 : 0);
      (void)cudaStreamWaitEvent(joined, event, state.one_in(4) ? 1 : 0);
      break;
    case 3:
      (void)cudaStreamWaitEvent(stream, event, 0);
      break;
    case 4:
      (void)cudaLaunchHostFunc(
          stream, [](void* told) { static_cast<std::atomic<std::uint64_t>*>(told)->fetch_add(1); },
          &state.shared().told);
      break;
    case 5:
      launch(state, stream);
      break;
    case 6: {
      // Only what this capture allocates: others' bytes are theirs to guard.
      (void)cudaMemsetAsync(*block, 1, state.below(512), stream);
      break;
    }
    case 7: {
      cudaStreamCaptureStatus status{};
      unsigned long long id = 0;
      cudaGraph_t graph = nullptr;
      const cudaGraphNode_t* nodes = nullptr;
      std::size_t count = 0;
      (void)cudaStreamGetCaptureInfo(joined, &status, &id, &graph);
      (void)cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, nullptr, &count);
      break;
    }
    default:
      (void)FUZZ_FIND(simcu_launch)(stream, state.below(100'000));
  }
}

void capture(State& state) {
  cudaStream_t const stream = stream_of(state);
  cudaStream_t const joined = stream_of(state);
  const auto mode = static_cast<cudaStreamCaptureMode>(
      state.one_in(8) ? state.word(3) : cudaStreamCaptureModeRelaxed - state.below(2));
  const cudaError_t error =
      state.one_in(4) ? cudaStreamBeginCaptureToGraph(stream, any_graph(state), nullptr, nullptr,
                                                      state.one_in(8) ? 1 : 0, mode)
                      : cudaStreamBeginCapture(stream, mode);
  void* block = nullptr;
  for (std::uint64_t i = 1 + state.below(8); i > 0; --i) put_work(state, stream, joined, &block);
  if (state.one_in(8)) {
    cudaGraphNode_t node = any_node(state);
    (void)cudaStreamUpdateCaptureDependencies(stream, state.one_in(4) ? nullptr : &node, nullptr,
                                              state.below(3) / 2,
                                              static_cast<unsigned>(state.below(3)));
  }
  if (state.one_in(10)) return;  // whoever finds it
  cudaGraph_t graph = nullptr;
  const cudaError_t end = cudaStreamEndCapture(stream, &graph);
  if (error == cudaSuccess && end == cudaSuccess) keep_nodes(state, graph);
  if (graph != nullptr) keep_graph(state, graph);
}

void end_capture(State& state) {
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(stream_of(state), state.one_in(20) ? nullptr : &graph);
  if (graph != nullptr) keep_graph(state, graph);
}

void make_exec(State& state) {
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiateParams parameters{};
  parameters.flags = state.below(20);
  parameters.uploadStream = stream_of(state);
  const cudaError_t error =
      state.one_in(3)
          ? cudaGraphInstantiateWithParams(&exec, any_graph(state), &parameters)
          : cudaGraphInstantiate(&exec, any_graph(state), state.one_in(4) ? state.word(16) : 1);
  if (error != cudaSuccess) return;
  const std::uint64_t before =
      state.shared().execs.put(reinterpret_cast<std::uint64_t>(exec), state.random());
  if (before != 0) (void)cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(before));
}

void use_exec(State& state) {
  cudaGraphExecUpdateResultInfo result{};
  unsigned long long flags = 0;
  switch (state.below(8)) {
    case 0:
      (void)cudaGraphUpload(any_exec(state), stream_of(state));
      break;
    case 1:
      (void)cudaGraphExecUpdate(any_exec(state), any_graph(state), &result);
      break;
    case 2:
      (void)cudaGraphExecGetFlags(any_exec(state), &flags);
      break;
    case 3:
      (void)cudaGraphExecDestroy(any_exec(state, true));
      break;
    default:
      launch(state, stream_of(state));
  }
}

// Nodes of work: added, changed in a graph or in what was instantiated, and asked for.
void use_nodes(State& state) {
  cudaGraphNode_t node = any_node(state);
  cudaGraphNode_t made = nullptr;
  cudaMemcpy3DParms copy{};
  cudaMemsetParams fill{.dst = state.as<void*>(state.shared().blocks),
                        .pitch = 64,
                        .value = 1,
                        .elementSize = 1U << state.below(3),
                        .width = state.below(65),
                        .height = state.below(3)};
  switch (state.below(8)) {
    case 0:
      (void)cudaGraphAddMemsetNode(&made, any_graph(state), &node, state.below(2), &fill);
      break;
    case 1:
      (void)cudaGraphAddMemcpyNode1D(&made, any_graph(state), &node, state.below(2), fill.dst,
                                     state.as<void*>(state.shared().blocks), state.below(65),
                                     cudaMemcpyDeviceToDevice);
      break;
    case 2:
      (void)cudaGraphAddChildGraphNode(&made, any_graph(state), &node, state.below(2),
                                       any_graph(state));
      break;
    case 3:
      (void)cudaGraphMemsetNodeSetParams(node, &fill);
      break;
    case 4:
      (void)cudaGraphExecMemsetNodeSetParams(any_exec(state), node, &fill);
      break;
    case 5:
      if (cudaGraphMemcpyNodeGetParams(node, &copy) == cudaSuccess) {
        (void)cudaGraphExecMemcpyNodeSetParams(any_exec(state), any_node(state), &copy);
      }
      break;
    case 6:
      (void)cudaGraphExecChildGraphNodeSetParams(any_exec(state), node, any_graph(state));
      break;
    default:
      (void)cudaGraphMemsetNodeGetParams(node, &fill);
  }
  if (made != nullptr) {
    (void)state.shared().nodes.put(reinterpret_cast<std::uint64_t>(made), state.random());
  }
}

void build_graph(State& state) {
  cudaGraph_t graph = nullptr;
  cudaGraph_t clone = nullptr;
  cudaGraphNode_t node = any_node(state);
  cudaGraphNode_t made = nullptr;
  cudaMemAllocNodeParams parameters{};
  parameters.poolProps.allocType = static_cast<cudaMemAllocationType>(state.word(2));
  parameters.poolProps.location.type = static_cast<cudaMemLocationType>(state.word(2));
  parameters.poolProps.location.id = state.word(3);
  parameters.bytesize = state.size();
  switch (state.below(7)) {
    case 0:
      if (cudaGraphCreate(&graph, state.one_in(20) ? 1 : 0) == cudaSuccess) {
        keep_graph(state, graph);
      }
      return;
    case 1:
      if (cudaGraphClone(&clone, any_graph(state)) == cudaSuccess) keep_graph(state, clone);
      return;
    case 2:
      (void)cudaGraphDestroy(any_graph(state, true));
      return;
    case 3:
      (void)cudaGraphAddMemAllocNode(&made, any_graph(state), &node, state.below(2), &parameters);
      break;
    case 4:
      (void)cudaGraphAddMemFreeNode(&made, any_graph(state), &node, state.below(2),
                                    state.as<void*>(state.shared().blocks));
      break;
    default:
      (void)cudaGraphAddEmptyNode(&made, any_graph(state), &node, state.below(2));
  }
  if (made != nullptr) {
    (void)state.shared().nodes.put(reinterpret_cast<std::uint64_t>(made), state.random());
  }
}

void ask_of_graphs(State& state) {
  cudaGraphNode_t list[8] = {};
  cudaGraphNode_t ends[8] = {};
  std::size_t count = state.below(9);
  cudaGraphNodeType type{};
  void* address = nullptr;
  cudaMemAllocNodeParams parameters{};
  std::uint64_t bytes = state.below(2);
  switch (state.below(11)) {
    case 0:
      (void)cudaGraphGetNodes(any_graph(state), state.one_in(3) ? nullptr : list, &count);
      break;
    case 1:
      (void)cudaGraphGetRootNodes(any_graph(state), list, state.one_in(20) ? nullptr : &count);
      break;
    case 2:
      (void)cudaGraphGetEdges(any_graph(state), list, ends, nullptr, &count);
      break;
    case 3:
      (void)cudaGraphNodeGetType(any_node(state), state.one_in(20) ? nullptr : &type);
      break;
    case 4:
      (void)cudaGraphNodeGetDependencies(any_node(state), list, nullptr, &count);
      break;
    case 5:
      (void)cudaGraphNodeGetDependentNodes(any_node(state), list, nullptr, &count);
      break;
    case 6:
      (void)cudaGraphMemFreeNodeGetParams(any_node(state), &address);
      break;
    case 7:
      (void)cudaGraphMemAllocNodeGetParams(any_node(state), &parameters);
      break;
    case 8:
      (void)cudaDeviceGetGraphMemAttribute(
          state.word(3), static_cast<cudaGraphMemAttributeType>(state.word(5)), &bytes);
      break;
    case 9:
      (void)cudaDeviceSetGraphMemAttribute(
          state.word(3), static_cast<cudaGraphMemAttributeType>(state.word(5)), &bytes);
      break;
    default:
      (void)cudaDeviceGraphMemTrim(state.word(3));
      (void)cudaGraphDebugDotPrint(any_graph(state), "/dev/null", 0);
  }
}

constexpr Step kGraphs[] = {{"capture", 6, capture},         {"end_capture", 3, end_capture},
                            {"make_exec", 4, make_exec},     {"use_exec", 6, use_exec},
                            {"build_graph", 4, build_graph}, {"ask_of_graphs", 4, ask_of_graphs},
                            {"use_nodes", 4, use_nodes}};

}  // namespace

std::span<const Step> graph_steps() { return kGraphs; }

}  // namespace fuzz
