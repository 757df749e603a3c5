// What every operation of the simulated device answers: a status and what a cost model needs to
// know about the work that the driver had to do. Plain values; nothing here throws.
#pragma once

#include <cstdint>

namespace simcuda {

enum class Status : std::uint8_t {
  Ok,
  OutOfMemory,    // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
  InvalidValue,   // cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE; nothing changed
  InvalidHandle,  // a stream, event, pool or memory handle that does not exist; nothing changed
  NotReady,       // cudaErrorNotReady: the work has not finished yet
  Blocked,  // the host would wait for a gate that nobody has opened yet; nothing changed, ask again
            // later
};

// The driver's work during one operation. Zero where nothing of the kind happened.
struct Work {
  std::uint64_t pages_taken = 0;      // 2 MiB pages the heap or a VMM handle took from the device
  std::uint64_t pages_returned = 0;   // and gave back
  std::uint64_t chunks_taken = 0;     // 32 MiB pool chunks newly taken from the device
  std::uint64_t chunks_returned = 0;  // and given back to it, by any pool
  std::uint64_t host_chunks_returned = 0;  // given back to the host by its pools; in no other count
  std::uint64_t chunks_mapped = 0;         // pool chunks attached to an address (taken or moved)
  bool served_by_slab =
      false;  // a small request was met by an existing slab; a small free kept its slab
  bool pools_gave_back = false;  // memory ran short and the other pools were asked for theirs
  bool stream_waits = false;     // the allocating stream was made to wait for another stream's free
  std::uint64_t host_wait_until_ns =
      0;  // the host waits until this virtual time; at most `now` means it did not
};

struct Outcome {
  Status status = Status::Ok;
  Work work = {};
};

struct AllocationOutcome {
  Status status = Status::Ok;
  std::uint64_t address = 0;     // 0 for a request of 0 bytes and for failures
  std::uint64_t size_bytes = 0;  // what the request was rounded up to
  Work work = {};
};

// What pools and graphs hold, now and at most so far.
struct MemoryUsage {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_bytes_high = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t used_bytes_high = 0;
};

}  // namespace simcuda
