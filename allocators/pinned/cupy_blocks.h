// CuPy's PinnedMemoryPool, as cupy/cuda/pinned_memory.pyx has it: requests in steps of 512 bytes,
// each from a free block of just that size, else pinned by cudaHostAlloc. A block that a copy uses
// is used again where an event says that the copy and all noted before it are done, which the next
// request looks at. Requests, uses and frees flow in, addresses flow out.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "allocators/host_caching/host_driver.h"

namespace allocmark {

// Not thread-safe. The driver must outlive it.
class CupyBlocks {
 public:
  explicit CupyBlocks(host_caching::HostDriver& driver) : driver_(driver) {}
  // Unpins everything, blocks in use too.
  ~CupyBlocks();
  CupyBlocks(const CupyBlocks&) = delete;
  CupyBlocks& operator=(const CupyBlocks&) = delete;

  // The block is the caller's until free(). 0 where no bytes were asked, or where the driver
  // refuses even when the free blocks have gone back.
  [[nodiscard]] host_caching::Address allocate(std::uint64_t size_bytes);
  // A copy on the stream uses the block, beside the program.
  void use(host_caching::Address address, host_caching::Stream stream);
  // 0 is ignored. Never blocks.
  void free(host_caching::Address address);
  // free_all_blocks: unpins what is free.
  void free_all();

  [[nodiscard]] std::uint64_t pin_count() const { return pin_count_; }
  // In blocks that the program or a copy holds.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }

 private:
  struct Watched {
    host_caching::Event event = 0;
    host_caching::Address address = 0;
  };
  struct Block {
    std::uint64_t size_bytes = 0;
    std::uint64_t holder_count = 0;  // the program, and events of copies
  };
  void take_passed();
  [[nodiscard]] host_caching::Address pin(std::uint64_t size_bytes);
  void let_go(host_caching::Address address);

  host_caching::HostDriver& driver_;
  std::uint64_t pin_count_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::unordered_map<host_caching::Address, Block> blocks_{};
  std::unordered_map<std::uint64_t, std::vector<host_caching::Address>> free_{};  // by size
  std::deque<Watched> watched_{};  // as they were noted
};

}  // namespace allocmark
