// RMM's pool_memory_resource: which block a request gets, and when the pool grows. Requests flow
// in, addresses flow out; memory comes from a Driver. Not thread-safe.
//
// Requests are rounded up to 256 B. Each stream has a list of free blocks that join with their
// neighbours in the same memory of the device. A request takes the smallest block that fits, the
// lowest of equals: of its own list, then of another one, whose stream it waits for. If no list has
// one, the other lists join its own, one after the other, until a block fits. At last the pool
// grows: by its own size, or by half of what a maximum leaves it; half as much where the device
// refuses, down to the request.
//
// Since 26.10 (rmm 2470) a request that a maximum refuses first gives memory of the device back
// that is free as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::rmm {

struct PoolOptions {
  std::uint64_t initial_bytes = 0;                        // a multiple of 256
  std::optional<std::uint64_t> bytes_max = std::nullopt;  // a multiple of 256; nothing: no maximum
  bool reclaims = false;                                  // since 26.10
};

struct PoolCounters {
  std::uint64_t used_bytes = 0;     // handed out, rounded
  std::uint64_t pool_bytes = 0;     // of the device
  std::uint64_t take_count = 0;     // times that memory came from the device
  std::uint64_t give_count = 0;     // and went back
  std::uint64_t refusal_count = 0;  // times that the device refused
  std::uint64_t wait_count = 0;     // of a stream for another one
};

class Pool {
 public:
  // The driver must outlive it.
  Pool(caching::Driver& driver, const PoolOptions& options) : driver_(driver), options_(options) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  // Waits for the device and gives back all memory, also blocks that are handed out.
  ~Pool();

  // Takes the initial size, for the default stream. False where the device has it not.
  [[nodiscard]] bool open();
  // Nothing where there is no memory. Blocks the host only where the device's own calls do.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream);
  // With the size that was asked for, as RMM's callers say it. False where the address is none that
  // allocate() gave and that was not given back since.
  [[nodiscard]] bool deallocate(std::uint64_t address, caching::Stream stream);

  [[nodiscard]] const PoolCounters& counters() const { return counters_; }
  // Of the stream's own list; 0: it has none.
  [[nodiscard]] std::uint64_t free_bytes_largest(caching::Stream stream) const;
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream stream) const;

 private:
  struct Block {
    std::uint64_t size_bytes = 0;
    bool is_head = false;  // begins where memory of the device does, and joins nothing before it
  };
  using Blocks = std::map<std::uint64_t, Block>;  // by address
  struct StreamBlocks {
    caching::Stream stream = 0;
    caching::Event event = 0;  // after the last free
    Blocks free{};
    bool is_listed = false;  // has a list, if an empty one
  };

  [[nodiscard]] StreamBlocks& of(caching::Stream stream);
  [[nodiscard]] std::optional<std::uint64_t> take_best(std::uint64_t size_bytes, Blocks* blocks);
  [[nodiscard]] std::optional<std::uint64_t> take_of_others(std::uint64_t size_bytes,
                                                            StreamBlocks* own, bool joins);
  [[nodiscard]] std::optional<std::uint64_t> grow(std::uint64_t size_bytes, StreamBlocks* own);
  [[nodiscard]] std::uint64_t growth_for(std::uint64_t size_bytes) const;
  [[nodiscard]] bool take_from_device(std::uint64_t try_bytes, std::uint64_t least_bytes,
                                      Blocks* blocks);
  void reclaim(std::uint64_t size_bytes);
  [[nodiscard]] Blocks* list_with_whole(std::uint64_t address, std::uint64_t size_bytes);
  void wait(const StreamBlocks& own, const StreamBlocks& other);
  static void insert(std::uint64_t address, Block block, Blocks* blocks);

  caching::Driver& driver_;
  const PoolOptions options_;
  std::vector<StreamBlocks> streams_;                // in the order of their first call
  std::map<std::uint64_t, std::uint64_t> upstream_;  // size in bytes of the device's, by address
  std::map<std::uint64_t, std::uint64_t> used_;      // size in bytes, by address
  PoolCounters counters_;
};

}  // namespace allocmark::rmm
