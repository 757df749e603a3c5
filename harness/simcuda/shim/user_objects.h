// Objects of a program whose lifetime CUDA counts, and the graphs that hold some. In: references
// that come and go. Out: calls of the program's destructors, at the end of the API call that gave
// back the last reference.
//
// As the driver does, nothing checks that a program or a graph gives back what it has: counts go
// below zero, and an object ends when the count of all is zero again, or never. What then still
// names it crashes on a GPU's machine (driver 580.159.04). Here a call that names it is refused,
// and what graphs hold of it is forgotten.
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
  std::uint64_t number = 0;  // 0: ended; no two objects have one
  std::int64_t reference_count = 0;
  cudaHostFn_t destroy = nullptr;
  void* pointer = nullptr;
};

// What a graph holds: how many references of which object, by the object's number.
struct HeldReferences {
  SimUserObject* object = nullptr;
  std::int64_t count = 0;
};
using UserReferences = std::map<std::uint64_t, HeldReferences>;

void retain_all(const UserReferences& references);
// Destructors of objects that nobody holds any more wait for run_destructors().
void release_all(const UserReferences& references);
// Without locks, at the end of a call that may have released something.
void run_destructors();

}  // namespace simcuda
