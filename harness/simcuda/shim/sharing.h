// Records that travel in files: what a file descriptor stands for that a process sends to another.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/shared_blocks.h"

namespace simcuda {

// A new file that begins with the record; negative where the system gives none.
[[nodiscard]] int record_file(const char* name, const ShareRecord& record);
// cudaErrorUnknown where that is no open file, cudaErrorInvalidValue where it is another one, as on
// an H200.
[[nodiscard]] cudaError_t read_record(int file, SharedKind kind, ShareRecord* record);

// What is answered where SharedBlocks::give() shares nothing.
[[nodiscard]] cudaError_t no_sharing(ThreadState& thread);

// A record in a structure of CUDA that travels between processes, and back.
template <class Handle>
void put(const ShareRecord& record, Handle* handle) {
  static_assert(sizeof *handle >= sizeof record);
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(static_cast<void*>(handle), &record, sizeof record);
}
template <class Handle>
[[nodiscard]] ShareRecord record_of(const Handle& handle) {
  ShareRecord record;
  std::memcpy(static_cast<void*>(&record), &handle, sizeof record);
  return record;
}

}  // namespace simcuda
