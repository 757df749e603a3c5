// Objects of a program whose lifetime CUDA counts, and the graphs that hold some. In: references
// that come and go. Out: calls of the program's destructors, at the end of the API call that gave
// back the last reference.
//
// References are counted under a lock of their own, which may be taken inside graph_mutex().
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>

namespace simcuda {

// Behind cudaUserObject_t.
struct SimUserObject {
  bool live = false;
  std::uint64_t reference_count = 0;
  cudaHostFn_t destroy = nullptr;
  void* pointer = nullptr;
};

// What a graph holds: how many references of which object.
using UserReferences = std::map<SimUserObject*, std::uint64_t>;

void retain_all(const UserReferences& references);
// Destructors of objects that nobody holds any more wait for run_destructors().
void release_all(const UserReferences& references);
// Without locks, at the end of a call that may have released something.
void run_destructors();

}  // namespace simcuda
