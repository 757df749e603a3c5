// What nodes of graphs do, from what a program says of them: the runtime's structures, and the
// driver's where they differ. In: a node's parameters, right or wrong. Out: nodes as a capture
// makes them, and for copies and fills the way back.
#pragma once

#include "harness/simcuda/shim/graph.h"

namespace simcuda {

// InvalidValue where `parameters` is null, or says nothing that can be done.
[[nodiscard]] MadeWork node_work(ThreadState& thread, const cudaKernelNodeParams* parameters);
[[nodiscard]] MadeWork node_work(ThreadState& thread, const CUDA_KERNEL_NODE_PARAMS* parameters);
[[nodiscard]] MadeWork node_work(ThreadState& thread, const cudaMemcpy3DParms* parameters);
[[nodiscard]] MadeWork node_work(ThreadState& thread, const CUDA_MEMCPY3D* parameters);
[[nodiscard]] MadeWork node_work(ThreadState& thread, const cudaMemsetParams* parameters);
[[nodiscard]] MadeWork node_work(ThreadState& thread, const cudaHostNodeParams* parameters);
// A row of bytes.
[[nodiscard]] MadeWork row_work(void* to, const void* from, std::size_t size_bytes,
                                cudaMemcpyKind kind);
// cudaGraphNodeTypeEventRecord or cudaGraphNodeTypeWaitEvent.
[[nodiscard]] MadeWork event_work(cudaEvent_t event, cudaGraphNodeType type);

// Work of that kind alone; an event is its handle.
void give(const NodeWork& work, CUDA_MEMCPY3D* parameters);
void give(const NodeWork& work, cudaMemcpy3DParms* parameters);
void give(const NodeWork& work, cudaMemsetParams* parameters);
void give(const NodeWork& work, cudaHostNodeParams* parameters);
void give(const NodeWork& work, cudaEvent_t* event);

// How the driver says the runtime's copy; arrays stay arrays.
[[nodiscard]] CUDA_MEMCPY3D driver_copy(const cudaMemcpy3DParms& copy);

}  // namespace simcuda
