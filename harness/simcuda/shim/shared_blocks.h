// Blocks of device memory that processes share: what this one gave away, and what it opened. In:
// blocks, and records that travel between processes as handles of CUDA. Out: records and addresses.
// Another process reads the bytes in the giver's file of shared bytes. Each process has a simulated
// device of its own, so what is opened costs it nothing. Not thread safe: the device's lock
// protects it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>

#include "harness/simcuda/core/device.h"
#include "harness/simcuda/shim/memory_contents.h"

namespace simcuda {

// What a handle for other processes says. Handles of another kind, or with changed bytes, have a
// wrong sum.
enum class SharedKind : std::uint16_t { Block = 1, PoolBlock, Event, Pool, Memory };
struct ShareRecord {
  std::uint64_t magic = 0;
  SharedKind kind = SharedKind::Block;
  std::uint16_t pool = 0;  // Pool, PoolBlock: the last bits of the pool's id in that process
  std::int32_t process = 0;
  std::int32_t file = -1;  // in that process
  std::int32_t device = 0;
  std::uint64_t pages_offset_bytes = 0;  // of the block's first page in the file
  std::uint64_t inner_offset_bytes = 0;  // of the block in that page
  std::uint64_t size_bytes = 0;
  std::uint64_t state_offset_bytes = 0;  // of a page that says whether the block lives
  std::uint64_t sum = 0;
};
static_assert(sizeof(ShareRecord) <= CUDA_IPC_HANDLE_SIZE);
static_assert(sizeof(ShareRecord) <= sizeof(cudaMemPoolPtrExportData));

// Fills in what all records have.
[[nodiscard]] ShareRecord sealed(ShareRecord record);
[[nodiscard]] bool is_sealed(const ShareRecord& record, SharedKind kind);

class SharedBlocks {
 public:
  // `contents` and `core` have to outlive this.
  SharedBlocks(int device, MemoryContents& contents, Device& core);
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;

  // The block's record, the same one each time; size 0 where the system does not share memory.
  [[nodiscard]] ShareRecord give(Range block, std::uint64_t asked_bytes, SharedKind kind);
  // The block was freed: nobody opens it any more who has not opened it yet.
  void end(std::uint64_t address);
  // The same of all, and closes what was opened: the context ends.
  void end_all();

  struct Opened {
    cudaError_t error = cudaSuccess;
    std::uint64_t address = 0;
  };
  // The same address each time. Needs a sealed record.
  [[nodiscard]] Opened open(const ShareRecord& record);
  // Once for each open(), or all at once; cudaErrorInvalidValue where nothing was opened there.
  [[nodiscard]] cudaError_t close(std::uint64_t address, bool all);
  // The opened block that holds the address; empty where there is none.
  [[nodiscard]] Range opened_at(std::uint64_t address) const;

 private:
  struct Key {
    std::int32_t process = 0;
    std::int32_t device = 0;
    std::uint64_t state_offset_bytes = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Import {
    Key key;
    Range pages;
    Range block;
    MemoryHandle handle = 0;
    std::uint64_t count = 0;
  };
  [[nodiscard]] Opened import(const ShareRecord& record, int file);

  int device_ = 0;
  MemoryContents& contents_;
  Device& core_;
  std::map<std::uint64_t, ShareRecord> given_;  // by the block's address
  std::map<Key, std::uint64_t> opened_;         // -> address of the block
  std::map<std::uint64_t, Import> imports_;     // by address of the block
};

}  // namespace simcuda
