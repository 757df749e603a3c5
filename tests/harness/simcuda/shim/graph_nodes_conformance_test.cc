// Nodes that a program adds to a graph itself, changes and asks about. As an H200 answers (driver
// 580.159.04).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/driver_functions.h"
#include "tests/harness/simcuda/shim/graph_place.h"

namespace {

using conformance::GraphPlace;
using conformance::kBytes;

int byte_at(const void* block, std::size_t place) {
  unsigned char byte = 0;
  if (cudaMemcpy(&byte, static_cast<const char*>(block) + place, 1, cudaMemcpyDeviceToHost) !=
      cudaSuccess) {
    return -1;
  }
  return byte;
}

CUdeviceptr address(void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// `rows` rows of 16 bytes, in slices, at a pitch of 64 bytes and 4 rows a slice.
CUDA_MEMCPY3D box(void* to, void* from, std::size_t rows, std::size_t slices) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address(from);
  copy.srcPitch = 64;
  copy.srcHeight = 4;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = address(to);
  copy.dstPitch = 64;
  copy.dstHeight = 4;
  copy.WidthInBytes = 16;
  copy.Height = rows;
  copy.Depth = slices;
  return copy;
}

}  // namespace

TEST_CASE("a node copies slices of rows, tells what it copies, and copies something else") {
  GraphPlace place;
  DRIVER(cuGraphAddMemcpyNode);
  DRIVER(cuGraphMemcpyNodeGetParams);
  DRIVER(cuGraphMemcpyNodeSetParams);
  const CUcontext context = conformance::current_context();
  CUgraphNode node = nullptr;
  const auto add = [&](const CUDA_MEMCPY3D& copy) {
    return cuGraphAddMemcpyNode_found(&node, place.graph, nullptr, 0, &copy, context);
  };
  CHECK(add(box(place.two, place.one, 0, 1)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(box(nullptr, place.one, 1, 1)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddMemcpyNode_found(&node, place.graph, nullptr, 0, nullptr, context) ==
        CUDA_ERROR_INVALID_VALUE);
  REQUIRE(add(box(place.two, place.one, 2, 2)) == CUDA_SUCCESS);
  CUDA_MEMCPY3D told{};
  REQUIRE(cuGraphMemcpyNodeGetParams_found(node, &told) == CUDA_SUCCESS);
  CHECK(told.dstDevice == address(place.two));
  CHECK(told.Height == 2);
  CHECK(told.Depth == 2);
  CHECK(cuGraphMemcpyNodeGetParams_found(node, nullptr) == CUDA_ERROR_INVALID_VALUE);
  place.instantiate();
  // What is instantiated does not change with the graph.
  const CUDA_MEMCPY3D other = box(place.one, place.two, 1, 1);
  REQUIRE(cuGraphMemcpyNodeSetParams_found(node, &other) == CUDA_SUCCESS);
  place.launch();
  CHECK(byte_at(place.two, 0) == 1);
  CHECK(byte_at(place.two, 16) == 2);
  CHECK(byte_at(place.two, 64) == 1);
  CHECK(byte_at(place.two, 128) == 2);
  CHECK(byte_at(place.two, 4 * 64 + 64 + 15) == 1);
  CHECK(byte_at(place.two, 8 * 64) == 2);
  REQUIRE(cuGraphMemcpyNodeGetParams_found(node, &told) == CUDA_SUCCESS);
  CHECK(told.dstDevice == address(place.one));
}

TEST_CASE("what is instantiated copies another row, but no box, and nothing of another place") {
  GraphPlace place;
  cudaGraphNode_t node = nullptr;
  std::array<char, 64> host{};
  host.fill(7);
  REQUIRE(cudaGraphAddMemcpyNode1D(&node, place.graph, nullptr, 0, place.two, place.one, 16,
                                   cudaMemcpyDeviceToDevice) == cudaSuccess);
  place.instantiate();
  DRIVER(cuGraphExecMemcpyNodeSetParams);
  const CUcontext context = conformance::current_context();
  const auto set = [&](const CUDA_MEMCPY3D& copy) {
    return cuGraphExecMemcpyNodeSetParams_found(place.exec, node, &copy, context);
  };
  CHECK(set(box(place.two, place.one, 2, 1)) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D from_host = box(place.two, place.one, 1, 1);
  from_host.srcMemoryType = CU_MEMORYTYPE_HOST;
  from_host.srcHost = host.data();
  CHECK(set(from_host) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D further = box(place.two, place.one, 1, 1);
  further.dstXInBytes = 32;
  REQUIRE(set(further) == CUDA_SUCCESS);
  place.launch();
  CHECK(byte_at(place.two, 0) == 2);
  CHECK(byte_at(place.two, 32) == 1);
  cudaMemcpy3DParms told{};
  REQUIRE(cudaGraphMemcpyNodeGetParams(node, &told) == cudaSuccess);
  CHECK(told.dstPtr.ptr == place.two);
  CHECK(told.dstPos.x == 0);
  CHECK(told.extent.width == 16);
  CHECK(told.kind == cudaMemcpyDeviceToDevice);
  told.srcPos.x = 1;
  told.dstPos.x = 48;
  REQUIRE(cudaGraphExecMemcpyNodeSetParams(place.exec, node, &told) == cudaSuccess);
  place.launch();
  CHECK(byte_at(place.two, 63) == 1);
}

TEST_CASE("fills and host functions are asked for and changed") {
  GraphPlace place;
  int calls = 0;
  int others = 0;
  cudaMemsetParams fill{};
  fill.dst = place.one;
  fill.elementSize = 1;
  fill.value = 5;
  fill.width = 8;
  fill.height = 1;
  cudaHostNodeParams function{conformance::count_up, &calls};
  cudaGraphNode_t filled = nullptr;
  cudaGraphNode_t called = nullptr;
  REQUIRE(cudaGraphAddMemsetNode(&filled, place.graph, nullptr, 0, &fill) == cudaSuccess);
  REQUIRE(cudaGraphAddHostNode(&called, place.graph, &filled, 1, &function) == cudaSuccess);
  cudaMemsetParams told{};
  cudaHostNodeParams told_function{};
  REQUIRE(cudaGraphMemsetNodeGetParams(filled, &told) == cudaSuccess);
  CHECK(told.dst == place.one);
  CHECK(told.width == 8);
  CHECK(cudaGraphMemsetNodeGetParams(called, &told) == cudaErrorInvalidValue);
  REQUIRE(cudaGraphHostNodeGetParams(called, &told_function) == cudaSuccess);
  CHECK(told_function.userData == &calls);
  place.instantiate();
  fill.value = 6;
  REQUIRE(cudaGraphExecMemsetNodeSetParams(place.exec, filled, &fill) == cudaSuccess);
  fill.height = 2;
  fill.pitch = 64;
  CHECK(cudaGraphExecMemsetNodeSetParams(place.exec, filled, &fill) == cudaErrorInvalidValue);
  function.userData = &others;
  REQUIRE(cudaGraphExecHostNodeSetParams(place.exec, called, &function) == cudaSuccess);
  // Work of another kind is refused, and so is a node of another graph.
  CHECK(cudaGraphExecMemsetNodeSetParams(place.exec, called, &told) == cudaErrorInvalidValue);
  CHECK(cudaGraphMemsetNodeSetParams(called, &told) == cudaErrorInvalidValue);
  cudaGraph_t clone = nullptr;
  cudaGraphNode_t cloned = nullptr;
  std::size_t one = 1;
  REQUIRE(cudaGraphClone(&clone, place.graph) == cudaSuccess);
  REQUIRE(cudaGraphGetRootNodes(clone, &cloned, &one) == cudaSuccess);
  CHECK(cudaGraphExecMemsetNodeSetParams(place.exec, cloned, &told) == cudaErrorInvalidValue);
  place.launch();
  CHECK(byte_at(place.one, 7) == 6);
  CHECK(calls == 0);
  CHECK(others == 1);
  REQUIRE(cudaGraphDestroy(clone) == cudaSuccess);
}

TEST_CASE("a graph is a node as it was, and its nodes change in what was instantiated") {
  GraphPlace place;
  cudaGraph_t child = nullptr;
  cudaGraphNode_t inner = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphNode_t recorded = nullptr;
  cudaEvent_t event = nullptr;
  cudaEvent_t told = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  REQUIRE(cudaGraphCreate(&child, 0) == cudaSuccess);
  REQUIRE(cudaGraphAddMemcpyNode1D(&inner, child, nullptr, 0, place.two, place.one, 16,
                                   cudaMemcpyDeviceToDevice) == cudaSuccess);
  REQUIRE(cudaGraphAddChildGraphNode(&node, place.graph, nullptr, 0, child) == cudaSuccess);
  REQUIRE(cudaGraphAddEventRecordNode(&recorded, place.graph, &node, 1, event) == cudaSuccess);
  REQUIRE(cudaGraphEventRecordNodeGetEvent(recorded, &told) == cudaSuccess);
  CHECK(told == event);
  CHECK(cudaGraphEventWaitNodeGetEvent(recorded, &told) == cudaErrorInvalidValue);
  REQUIRE(cudaGraphMemcpyNodeSetParams1D(inner, place.one, place.two, 16,
                                         cudaMemcpyDeviceToDevice) == cudaSuccess);
  place.instantiate();
  place.launch();
  CHECK(byte_at(place.two, 0) == 1);
  CHECK(byte_at(place.two, 16) == 2);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  cudaGraph_t longer = nullptr;
  REQUIRE(cudaGraphClone(&longer, child) == cudaSuccess);
  cudaGraphNode_t more = nullptr;
  REQUIRE(cudaGraphAddEmptyNode(&more, longer, nullptr, 0) == cudaSuccess);
  CHECK(cudaGraphExecChildGraphNodeSetParams(place.exec, node, longer) ==
        cudaErrorGraphExecUpdateFailure);
  CHECK(cudaGetLastError() == cudaErrorGraphExecUpdateFailure);
  CHECK(cudaGraphExecChildGraphNodeSetParams(place.exec, recorded, child) == cudaErrorInvalidValue);
  REQUIRE(cudaGraphExecChildGraphNodeSetParams(place.exec, node, child) == cudaSuccess);
  GraphPlace::set(place.two, 9);
  place.launch();
  CHECK(byte_at(place.one, 0) == 9);
  REQUIRE(cudaGraphDestroy(longer) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(child) == cudaSuccess);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
}

#if CUDA_VERSION >= 13000
TEST_CASE("one function adds and changes nodes of every kind") {
  GraphPlace place;
  DRIVER(cuGraphAddNode);
  DRIVER(cuGraphNodeSetParams);
  DRIVER(cuGraphExecNodeSetParams);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_MEMSET;
  parameters.memset.dst = address(place.one);
  parameters.memset.elementSize = 1;
  parameters.memset.value = 5;
  parameters.memset.width = 8;
  parameters.memset.height = 1;
  CUgraphNode fill = nullptr;
  CUgraphNode copy = nullptr;
  CUgraphNode last = nullptr;
  REQUIRE(cuGraphAddNode_found(&fill, place.graph, nullptr, nullptr, 0, &parameters) ==
          CUDA_SUCCESS);
  CUgraphNodeParams copied{};
  copied.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  copied.memcpy.copyParams = box(place.two, place.one, 1, 1);
  copied.memcpy.copyCtx = conformance::current_context();
  copied.memcpy.flags = 1;
  CHECK(cuGraphAddNode_found(&copy, place.graph, &fill, nullptr, 1, &copied) ==
        CUDA_ERROR_INVALID_VALUE);
  copied.memcpy.flags = 0;
  REQUIRE(cuGraphAddNode_found(&copy, place.graph, &fill, nullptr, 1, &copied) == CUDA_SUCCESS);
  CUgraphNodeParams nothing{};
  nothing.type = CU_GRAPH_NODE_TYPE_EMPTY;
  REQUIRE(cuGraphAddNode_found(&last, place.graph, &copy, nullptr, 1, &nothing) == CUDA_SUCCESS);
  CHECK(cuGraphAddNode_found(&last, place.graph, &copy, nullptr, 1, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  parameters.memset.value = 6;
  REQUIRE(cuGraphNodeSetParams_found(fill, &parameters) == CUDA_SUCCESS);
  place.instantiate();
  place.launch();
  CHECK(byte_at(place.two, 0) == 6);
  parameters.memset.value = 7;
  REQUIRE(cuGraphExecNodeSetParams_found(place.exec, fill, &parameters) == CUDA_SUCCESS);
  CHECK(cuGraphExecNodeSetParams_found(place.exec, copy, &parameters) == CUDA_ERROR_INVALID_VALUE);
  place.launch();
  CHECK(byte_at(place.two, 0) == 7);
}

TEST_CASE("a child that is moved into a graph ends with it") {
  GraphPlace place;
  DRIVER(cuGraphAddNode);
  cudaGraph_t child = nullptr;
  cudaGraphNode_t node = nullptr;
  int ended = 0;
  cudaUserObject_t object = nullptr;
  REQUIRE(cudaGraphCreate(&child, 0) == cudaSuccess);
  REQUIRE(cudaUserObjectCreate(&object, &ended, conformance::count_up, 1,
                               cudaUserObjectNoDestructorSync) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(child, object, 1, cudaGraphUserObjectMove) == cudaSuccess);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
  parameters.graph.graph = child;
  parameters.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  REQUIRE(cuGraphAddNode_found(&node, place.graph, nullptr, nullptr, 0, &parameters) ==
          CUDA_SUCCESS);
  CHECK(cudaGraphDestroy(child) == cudaErrorInvalidValue);
  CHECK(ended == 0);
  REQUIRE(cudaGraphDestroy(place.graph) == cudaSuccess);
  CHECK(ended == 1);
  REQUIRE(cudaGraphCreate(&place.graph, 0) == cudaSuccess);
}
#endif
