// Graphs that were instantiated and take another graph's nodes, and objects that graphs keep alive.
// As an H200 answers (driver 580.159.04).
#include <cuda_runtime_api.h>

#include <array>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/graph_place.h"

namespace {

using conformance::GraphPlace;

}  // namespace

TEST_CASE("an instantiated graph takes another one's nodes where they are alike") {
  GraphPlace place;
  static std::array<char, 64> pageable;
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  const auto row = [](void* to, const void* from, std::size_t size_bytes, cudaMemcpyKind kind) {
    return [=](cudaGraph_t graph) {
      cudaGraphNode_t node = nullptr;
      return cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, to, from, size_bytes, kind);
    };
  };
  const auto box = [](void* to, void* from, std::size_t row_count) {
    return [=](cudaGraph_t graph) {
      cudaMemcpy3DParms copy{};
      copy.srcPtr = {from, 16, 16, row_count};
      copy.dstPtr = {to, 16, 16, row_count};
      copy.extent = {8, row_count, 1};
      copy.kind = cudaMemcpyDeviceToDevice;
      cudaGraphNode_t node = nullptr;
      return cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy);
    };
  };
  const auto fill = [](void* to, unsigned element_bytes, std::size_t row_count, unsigned value) {
    return [=](cudaGraph_t graph) {
      cudaMemsetParams what{};
      what.dst = to;
      what.elementSize = element_bytes;
      what.width = 4;
      what.height = row_count;
      what.pitch = 16;
      what.value = value;
      cudaGraphNode_t node = nullptr;
      return cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &what);
    };
  };
  const auto updated = [](const auto& before, const auto& after) {
    cudaGraph_t old_graph = nullptr;
    cudaGraph_t new_graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaGraphExecUpdateResultInfo info{};
    REQUIRE(cudaGraphCreate(&old_graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphCreate(&new_graph, 0) == cudaSuccess);
    REQUIRE(before(old_graph) == cudaSuccess);
    REQUIRE(after(new_graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec, old_graph, 0) == cudaSuccess);
    const cudaError_t error = cudaGraphExecUpdate(exec, new_graph, &info);
    CHECK((error == cudaSuccess) == (info.result == cudaGraphExecUpdateSuccess));
    (void)cudaGetLastError();
    REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(old_graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(new_graph) == cudaSuccess);
    return info.result;
  };
  constexpr auto kSame = cudaGraphExecUpdateSuccess;
  constexpr auto kOther = cudaGraphExecUpdateErrorParametersChanged;
  const auto on_device = cudaMemcpyDeviceToDevice;
  const auto to_host = cudaMemcpyDeviceToHost;
  void* const one = place.one;
  void* const two = place.two;
  CHECK(updated(row(two, one, 16, on_device), row(one, two, 32, on_device)) == kSame);
  CHECK(updated(row(two, one, 16, on_device), row(pinned, one, 16, to_host)) == kOther);
  CHECK(updated(row(two, one, 16, on_device), row(two, one, 16, cudaMemcpyDefault)) == kOther);
  CHECK(updated(row(pageable.data(), one, 16, to_host), row(pinned, one, 32, to_host)) == kSame);
  CHECK(updated(row(two, one, 16, on_device), box(two, one, 2)) == kOther);
  CHECK(updated(box(two, one, 2), box(two, one, 2)) == kSame);
  CHECK(updated(box(two, one, 2), box(two, one, 3)) == kOther);
  CHECK(updated(box(two, one, 2), box(one, two, 2)) == kOther);
  CHECK(updated(fill(one, 1, 1, 1), fill(two, 4, 1, 2)) == kSame);
  CHECK(updated(fill(one, 1, 1, 1), fill(pinned, 1, 1, 1)) == kSame);
  CHECK(updated(fill(one, 1, 1, 1), fill(one, 1, 2, 1)) == kOther);
  CHECK(updated(fill(one, 1, 2, 1), fill(two, 1, 2, 2)) == kSame);
  CHECK(updated(fill(one, 1, 2, 1), fill(one, 1, 3, 1)) == kOther);
  CHECK(updated(fill(one, 1, 2, 1), fill(one, 1, 1, 1)) == kOther);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
}
TEST_CASE("an object ends when the program, graphs and what was instantiated have let it go") {
  GraphPlace place;
  int ended = 0;
  cudaUserObject_t object = nullptr;
  const auto create = [&](unsigned references, unsigned flags) {
    return cudaUserObjectCreate(&object, &ended, conformance::count_up, references, flags);
  };
  CHECK(create(0, cudaUserObjectNoDestructorSync) == cudaErrorInvalidValue);
  CHECK(create(1, 0) == cudaErrorInvalidValue);
  REQUIRE(create(2, cudaUserObjectNoDestructorSync) == cudaSuccess);
  REQUIRE(cudaUserObjectRetain(object, 1) == cudaSuccess);
  CHECK(cudaUserObjectRetain(object, 0) == cudaErrorInvalidValue);
  // The graph takes two of three, and makes three of its own.
  REQUIRE(cudaGraphRetainUserObject(place.graph, object, 2, cudaGraphUserObjectMove) ==
          cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(place.graph, object, 3, 0) == cudaSuccess);
  CHECK(cudaGraphRetainUserObject(place.graph, object, 1, 2) == cudaErrorInvalidValue);
  REQUIRE(cudaUserObjectRelease(object, 1) == cudaSuccess);
  REQUIRE(cudaGraphReleaseUserObject(place.graph, object, 4) == cudaSuccess);
  CHECK(ended == 0);
  cudaGraph_t clone = nullptr;
  REQUIRE(cudaGraphClone(&clone, place.graph) == cudaSuccess);
  place.instantiate();
  REQUIRE(cudaGraphReleaseUserObject(place.graph, object, 1) == cudaSuccess);
  CHECK(ended == 0);
  REQUIRE(cudaGraphDestroy(clone) == cudaSuccess);
  CHECK(ended == 0);
  REQUIRE(cudaGraphExecDestroy(place.exec) == cudaSuccess);
  place.exec = nullptr;
  CHECK(ended == 1);
}

TEST_CASE("more references than a graph has can be given back, and others stand for them") {
  GraphPlace place;
  int ended = 0;
  cudaUserObject_t object = nullptr;
  REQUIRE(cudaUserObjectCreate(&object, &ended, conformance::count_up, 6,
                               cudaUserObjectNoDestructorSync) == cudaSuccess);
  REQUIRE(cudaGraphRetainUserObject(place.graph, object, 2, cudaGraphUserObjectMove) ==
          cudaSuccess);
  CHECK(cudaGraphReleaseUserObject(place.graph, object, 3) == cudaSuccess);
  // One less than nothing: a clone and what is instantiated take it from the others, and give it
  // back.
  cudaGraph_t clone = nullptr;
  REQUIRE(cudaGraphClone(&clone, place.graph) == cudaSuccess);
  place.instantiate();
  REQUIRE(cudaGraphDestroy(clone) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(place.exec) == cudaSuccess);
  place.exec = nullptr;
  REQUIRE(cudaGraphDestroy(place.graph) == cudaSuccess);
  REQUIRE(cudaGraphCreate(&place.graph, 0) == cudaSuccess);
  REQUIRE(cudaUserObjectRelease(object, 3) == cudaSuccess);
  CHECK(ended == 0);
  REQUIRE(cudaUserObjectRelease(object, 1) == cudaSuccess);
  CHECK(ended == 1);
  // Past zero an object never ends.
  REQUIRE(cudaUserObjectCreate(&object, &ended, conformance::count_up, 2,
                               cudaUserObjectNoDestructorSync) == cudaSuccess);
  CHECK(cudaUserObjectRelease(object, 3) == cudaSuccess);
  CHECK(cudaUserObjectRelease(object, 1) == cudaSuccess);
  CHECK(ended == 1);
}
