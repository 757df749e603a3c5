// Stream capture: which streams are captured into which graph, what their calls add to it, and
// which calls a capture forbids. In: calls that meet a capture. Out: nodes, or the error of CUDA's
// manual; an error that breaks the rules of capture invalidates the captures that it concerns.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "harness/simcuda/shim/graph.h"

namespace simcuda {

// The functions below answer nothing where the stream is not captured any more: the call goes on as
// it would without a capture. None is called with a lock.
using Captured = std::optional<cudaError_t>;

// A call that puts work into a stream. The legacy stream's cannot be captured: it is refused while
// a blocking stream of its device is captured.
[[nodiscard]] Captured capture_work(const StreamRef& ref, NodeWork work);
// As above. Sets what `pointer` points to.
[[nodiscard]] Captured capture_allocation(const StreamRef& ref, void** pointer,
                                          std::uint64_t size_bytes);
[[nodiscard]] Captured capture_free(const StreamRef& ref, std::uint64_t address);
[[nodiscard]] Captured refuse_captured(const StreamRef& ref);
// A call that no captured stream takes, such as one that waits for it.
[[nodiscard]] inline Captured capture_forbids(const StreamRef& ref) {
  return ref.captured ? refuse_captured(ref) : std::nullopt;
}
// An event in a captured stream stands for the nodes before it; an external one is a node itself.
[[nodiscard]] Captured capture_record(const StreamRef& ref, SimEvent& event, bool is_external);
// A wait by a captured stream, or for an event that was recorded in one.
[[nodiscard]] Captured capture_wait(const StreamRef& ref, SimEvent& event, bool is_external);
// The host asks about an event that was last recorded in a captured stream.
[[nodiscard]] cudaError_t ask_captured_event(SimEvent& event);

// Whether device memory may be named in a capture: it is there, or an allocation of a graph.
[[nodiscard]] bool may_be_captured(const void* pointer, std::uint64_t size_bytes);

// The error of a call that captures forbid whatever its stream, 0 where they do not.
[[nodiscard]] int forbid_in_capture(const ApiRecord& api, ThreadState& thread,
                                    std::initializer_list<std::uint64_t> arguments);

// The stream is about to be destroyed: a capture that began in it is gone with its graph.
void leave_capture(const SimStream& stream);

}  // namespace simcuda
