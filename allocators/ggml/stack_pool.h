// The pool of virtual memory of llama.cpp's CUDA backend: what a request gets, and when the device
// is asked for more. One pool serves one stream. Requests flow in, addresses flow out; memory comes
// from a Driver. Not thread-safe.
//
// StackPool reserves 32 GiB of addresses at its first request. Blocks lie on each other as they
// came, and go in the reverse order. Where the top has no room, memory for what is missing is
// mapped behind it, in whole units of 2 MiB. Nothing goes back before the pool's end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::ggml {

// A free of a block that others lie on.
enum class FreeOrder : std::uint8_t {
  Strict,  // the next request is an error: llama.cpp ends the program
  Any      // not llama.cpp's: the block keeps its bytes until those on it are free
};

struct StackCounters {
  std::uint64_t live_bytes = 0;    // handed out
  std::uint64_t stack_bytes = 0;   // and those of freed blocks that others lie on
  std::uint64_t mapped_bytes = 0;  // of the device
  std::uint64_t map_count = 0;
};

class StackPool {
 public:
  static constexpr std::uint64_t kAddressBytes = std::uint64_t{32} << 30;
  static constexpr std::uint64_t kUnitBytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kAlignmentBytes = 128;

  // The driver must outlive the pool.
  StackPool(caching::Driver& driver, FreeOrder order) : driver_(driver), order_(order) {}
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  // Gives back all memory, also blocks that are handed out.
  ~StackPool();

  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;  // rounded
    bool is_free = false;          // others lie on it
  };

  // The address; nothing where there is no memory or the addresses are used up, of which llama.cpp
  // ends. Throws UsageError after a free in another order (FreeOrder::Strict). `size_bytes`: 1 or
  // more.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes);
  // False where the address is none that allocate() gave and that was not given back since.
  [[nodiscard]] bool deallocate(std::uint64_t address);

  [[nodiscard]] const StackCounters& counters() const { return counters_; }
  // Mapped, above the top.
  [[nodiscard]] std::uint64_t room_bytes() const {
    return counters_.mapped_bytes - counters_.stack_bytes;
  }
  [[nodiscard]] std::uint64_t address() const { return address_; }            // 0: none is reserved
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }  // the lowest first

 private:
  // False where there is no memory.
  [[nodiscard]] bool map_more(std::uint64_t size_bytes);

  caching::Driver& driver_;
  const FreeOrder order_;
  std::uint64_t address_ = 0;
  std::vector<Block> blocks_;
  struct Mapping {
    std::uint64_t address = 0, size_bytes = 0;
  };
  std::vector<Mapping> mappings_;
  StackCounters counters_;
};

}  // namespace allocmark::ggml
