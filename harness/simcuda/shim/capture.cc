// What calls on captured streams add to their graph. See capture.h; which errors NVIDIA's manual
// states and which are taken to be so is in MODEL.md.
#include "harness/simcuda/shim/capture.h"

#include <algorithm>
#include <utility>

#include "harness/simcuda/shim/capture_state.h"

namespace simcuda {
namespace {

Capture* capture_with_id(std::uint64_t id) {
  for (Capture& capture : captures().all) {
    if (capture.id == id) return &capture;
  }
  return nullptr;
}

cudaError_t invalidate(Capture& capture, cudaError_t error) {
  capture.invalidated = true;
  return error;
}

// The legacy stream would follow captured streams.
Captured refuse_legacy(const SimulatedDevice& device) {
  bool is_any = false;
  for (Capture& capture : captures().all) {
    const bool is_concerned = std::any_of(
        capture.streams.begin(), capture.streams.end(),
        [&](const auto& at) { return at.first->device == &device && is_blocking(*at.first); });
    if (is_concerned) static_cast<void>(invalidate(capture, cudaSuccess));
    is_any |= is_concerned;
  }
  return is_any ? Captured(cudaErrorStreamCaptureImplicit) : std::nullopt;
}

// Does `add` with the stream's capture, unless that is invalid already.
template <class Add>
Captured with_capture(const StreamRef& ref, Add add) {
  const std::lock_guard lock(graph_mutex());
  if (ref.stream == nullptr) return refuse_legacy(*ref.device);
  Capture* const capture = capture_of(ref.stream);
  if (capture == nullptr) return std::nullopt;
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  return add(*capture, capture->streams.at(ref.stream));
}

// Puts the node behind what the stream did so far.
cudaError_t append(CapturedStream& stream, SimGraphNode* node) {
  if (node == nullptr) return cudaErrorMemoryAllocation;
  stream.dependencies = {node};
  return cudaSuccess;
}

Captured join_by_wait(const StreamRef& ref, SimEvent& event, bool is_external) {
  Capture* const capture = capture_with_id(event.capture_id);
  if (capture == nullptr || capture->invalidated) return cudaErrorInvalidValue;
  if (is_external) return cudaErrorInvalidValue;
  if (ref.stream == nullptr) return invalidate(*capture, cudaErrorStreamCaptureImplicit);
  if (ref.device != capture->device) return invalidate(*capture, cudaErrorNotSupported);
  join_capture(*capture, *ref.stream, capture->events[&event]);
  return cudaSuccess;
}

}  // namespace

Captured capture_work(const StreamRef& ref, NodeWork work) {
  return with_capture(ref, [&](Capture& capture, CapturedStream& stream) {
    return append(stream, add_node(*capture.graph, stream.dependencies, std::move(work)));
  });
}

Captured capture_allocation(const StreamRef& ref, void** pointer, std::uint64_t size_bytes) {
  return with_capture(ref, [&](Capture& capture, CapturedStream& stream) {
    *pointer = nullptr;
    if (size_bytes == 0) return cudaSuccess;
    const GraphAllocationResult added =
        add_allocation(*capture.graph, *capture.device, stream.dependencies, size_bytes);
    if (added.error != cudaSuccess) return added.error;
    *pointer = reinterpret_cast<void*>(added.address);
    return append(stream, added.node);
  });
}

Captured capture_free(const StreamRef& ref, std::uint64_t address) {
  return with_capture(ref, [&](Capture& capture, CapturedStream& stream) {
    if (device_of_address(address) != capture.device) return cudaErrorInvalidValue;
    const GraphAllocationResult added =
        add_free(*capture.graph, *capture.device, stream.dependencies, address);
    return added.error != cudaSuccess ? added.error : append(stream, added.node);
  });
}

Captured refuse_captured(const StreamRef& ref) {
  return with_capture(ref, [](Capture& capture, CapturedStream&) {
    return invalidate(capture, cudaErrorStreamCaptureUnsupported);
  });
}

Captured capture_record(const StreamRef& ref, SimEvent& event, bool is_external) {
  return with_capture(ref, [&](Capture& capture, CapturedStream& stream) {
    if (is_external) {
      return append(stream, add_node(*capture.graph, stream.dependencies,
                                     event_node(event, cudaGraphNodeTypeEventRecord)));
    }
    capture.events[&event] = stream.dependencies;
    event.capture_id = capture.id;
    return cudaSuccess;
  });
}

Captured capture_wait(const StreamRef& ref, SimEvent& event, bool is_external) {
  const Captured as_captured = with_capture(ref, [&](Capture& capture, CapturedStream& stream) {
    if (is_external) {
      return append(stream, add_node(*capture.graph, stream.dependencies,
                                     event_node(event, cudaGraphNodeTypeWaitEvent)));
    }
    if (event.capture_id == capture.id) {
      add_once(stream.dependencies, capture.events[&event]);
      return cudaSuccess;
    }
    if (event.capture_id == 0) return invalidate(capture, cudaErrorStreamCaptureIsolation);
    Capture* const other = capture_with_id(event.capture_id);
    if (other == nullptr || other->invalidated) return invalidate(capture, cudaErrorInvalidValue);
    other->invalidated = true;
    return invalidate(capture, cudaErrorStreamCaptureMerge);
  });
  if (as_captured || event.capture_id == 0) return as_captured;
  const std::lock_guard lock(graph_mutex());
  return join_by_wait(ref, event, is_external);
}

cudaError_t ask_captured_event(SimEvent& event) {
  const std::lock_guard lock(graph_mutex());
  Capture* const capture = capture_with_id(event.capture_id);
  if (capture == nullptr || capture->invalidated) return cudaErrorInvalidValue;
  capture->invalidated = true;
  return cudaErrorCapturedEvent;
}

bool may_be_captured(const void* pointer, std::uint64_t size_bytes) {
  const std::uint64_t address = number(pointer);
  SimulatedDevice* const device = device_of_address(address);
  if (device == nullptr) return true;
  const std::lock_guard lock(device->mutex);
  Range range = device->live_range(address, size_bytes);
  if (range.empty()) range = device->core.graph_memory().planned_block(address);
  return !range.empty() && size_bytes <= range.hi - address;
}

}  // namespace simcuda
