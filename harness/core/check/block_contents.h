// The contents of blocks in the checked pass: written when a block is handed out, looked at when it
// is given back and, at the level whole, now and then between. On simcuda through its view of the
// memory; on a GPU by copies where nothing runs, else by kernels on the block's own stream. Blocks
// flow in, the first changed word flows out with what it was and whose it seems to be. This file
// checks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/check/lazy_pattern.h"
#include "harness/core/check/pattern_bytes.h"
#include "harness/core/check/shadow_heap.h"
#include "harness/core/check/verify_level.h"
#include "harness/core/replay/kernels.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {

// A word of a block that is not what was written.
struct ChangedWord {
  std::uint64_t event_index = 0;  // of the block's allocation
  std::uint64_t id = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

class BlockContents {
 public:
  // A block with its memory. `marked_bytes` at either end carry the pattern; 0: none.
  struct Block {
    ShadowBlock shadow;
    void* pointer = nullptr;
    cudaStream_t stream = nullptr;
    std::uint64_t marked_bytes = 0;
  };
  enum class Answer : std::uint8_t { Unchanged, Changed, Unmapped, Later, NotLooked };

  BlockContents(const SimcuApi& simcu, VerifyLevel level, MemorySide side);
  ~BlockContents();

  // Writes the pattern; gives the marked_bytes. `allocate_count` says which block it is.
  [[nodiscard]] std::uint64_t write(const Block& block, std::uint64_t allocate_count);
  // Changed: changed() has the first word. Later: a kernel looks when the stream gets there.
  // NotLooked: no kernel more can wait behind the stream's gate.
  [[nodiscard]] Answer check(const Block& block);
  [[nodiscard]] const ChangedWord& changed() const { return changed_; }
  // The block is given back.
  void forget(const Block& block);
  // What a kernel has found by now, if anything.
  [[nodiscard]] bool found_later();
  // Waits for the device, where kernels look.
  void synchronize();

  // A kernel that waits for the host now runs on the stream; all of them have ended.
  void note_gate(std::uint32_t stream);
  void note_synchronize();

  // Blocks are written and looked at by kernels on their stream.
  [[nodiscard]] bool uses_kernels() const { return fault_on_device_ != nullptr; }
  // The caller writes no pattern into a block.
  void leave_unmarked() { ++unmarked_count_; }
  // Blocks whose contents could not be followed: too many kernels waited behind a gate, or the
  // memory was still in use.
  [[nodiscard]] std::uint64_t unmarked_count() const { return unmarked_count_; }
  // Blocks that were too many bytes for the host to fill: only their ends were looked at.
  [[nodiscard]] std::uint64_t edges_only_count() const { return edges_only_count_; }

 private:
  struct FreeHost {
    void operator()(PatternFault* pointer) const;
  };

  [[nodiscard]] std::uint64_t wanted_bytes(const Block& block, std::uint64_t allocate_count);
  [[nodiscard]] bool may_touch(const Block& block);
  [[nodiscard]] bool may_queue(const Block& block);
  [[nodiscard]] bool look(const Block& block, const char* contents, const PatternPart& part);
  void note_change(const Block& block, const PatternChange& change);
  [[nodiscard]] bool is_lazy(const Block& block) const {
    return lazy_ != nullptr && block.marked_bytes == block.shadow.size_bytes;
  }
  [[nodiscard]] Answer check_lazily(const Block& block);

  // Where the host itself can read and write the block; null: by copies, or not mapped any more.
  [[nodiscard]] char* view_of(const Block& block) const;

  SimcuApi simcu_;
  VerifyLevel level_;
  MemorySide side_;
  ChangedWord changed_;
  std::unique_ptr<LazyPattern> lazy_;  // simcuda, level whole
  std::unordered_set<std::uint64_t> touched_pages_;
  std::uint64_t edges_only_count_ = 0;
  std::uint64_t unmarked_count_ = 0;
  // By stream: kernels of ours that may wait behind a gate; nothing where no gate is closed.
  std::vector<std::optional<std::uint64_t>> queued_by_stream_;
  std::unique_ptr<PatternFault, FreeHost> fault_;  // GPU, level whole
  PatternFault* fault_on_device_ = nullptr;
};

}  // namespace allocmark
