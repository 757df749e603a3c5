// The owner's side of a backend in tests: which blocks are live, that they never overlap, and that
// what was written to them is still there. Independent of any allocator's own bookkeeping.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "allocators/backend/backend.h"
#include "base/random.h"

namespace allocmark {

struct OwnedBlock {
  void* pointer = nullptr;
  std::uint64_t size_bytes = 0;
  cudaStream_t stream = nullptr;
  std::uint64_t id = 0;
};

[[nodiscard]] bool overlap(const OwnedBlock& a, const OwnedBlock& b);

// Ranges that are live now, of one or several backends. Throws RuleBroken at the first overlap.
class RangeMap {
 public:
  void add(const OwnedBlock& block);
  void remove(const OwnedBlock& block);

 private:
  std::map<std::uintptr_t, std::uintptr_t> end_by_begin_;
};

enum class Contents : std::uint8_t { Unchecked, Checked };

class OwnedBlocks {
 public:
  OwnedBlocks(Backend& backend, Contents contents) : backend_(backend), contents_(contents) {}

  // Allocates, checks for overlap, writes marks.
  [[nodiscard]] AllocateStatus allocate(std::uint64_t size_bytes, cudaStream_t stream);
  // Checks the marks and gives the block back.
  void free(std::size_t index);
  void free_all();
  void check_contents() const;
  // Leaves the blocks to the backend, whose end is to be tested.
  void forget() { blocks_.clear(); }

  [[nodiscard]] const std::vector<OwnedBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::uint64_t live_bytes() const { return live_bytes_; }

 private:
  Backend& backend_;
  Contents contents_;
  std::vector<OwnedBlock> blocks_;
  RangeMap ranges_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t next_id_ = 1;
};

// A random mix of allocations and frees within a bound on what is live.
struct TraceShape {
  std::uint64_t seed = 1;
  int step_count = 600;
  std::uint64_t size_bytes_max = 0;
  std::uint64_t live_bytes_max = 0;
  std::vector<cudaStream_t> streams;
};

// Sizes spread over all magnitudes up to `size_bytes_max`.
[[nodiscard]] std::uint64_t random_size_bytes(Random& random, std::uint64_t size_bytes_max);

// Runs the trace and gives the status of every allocation; what is live at the end stays live.
std::vector<AllocateStatus> run_trace(OwnedBlocks& owned, const TraceShape& shape);

// The seed of all random traces; ALLOCMARK_SEED overrides it, and a failing rule names it.
[[nodiscard]] std::uint64_t test_seed();

}  // namespace allocmark
