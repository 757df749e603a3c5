// XLA's allocator of virtual memory: what a request gets, and when its memory goes back. Requests
// flow in, addresses flow out; memory comes from a Driver. Not thread-safe.
//
// Each request gets physical memory and addresses of its own, in whole pages of 2 MiB. A freed
// block keeps both until its stream is there, and longer: it goes back only where a request finds
// no memory. Until then the oldest freed block of the same page count serves a request at once.
// A request that finds none and no memory, or no budget, makes XLA give back all blocks whose
// streams are there. Then it waits for the oldest blocks, until 1.1 times the request is back.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::xla {

// Memory is taken in units of it.
inline constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

struct PagesCounters {
  std::uint64_t used_bytes = 0;     // handed out, in whole pages
  std::uint64_t held_bytes = 0;     // of the device, with freed blocks
  std::uint64_t create_count = 0;   // blocks taken from the device
  std::uint64_t release_count = 0;  // blocks given back
  std::uint64_t reuse_count = 0;    // requests that a freed block served
  std::uint64_t reclaim_count = 0;  // requests that found no memory at first
  std::uint64_t wait_count = 0;     // of them, those that waited for the device
};

class Pages {
 public:
  // The driver must outlive it. `budget_bytes`: the most that it holds.
  Pages(caching::Driver& driver, std::uint64_t budget_bytes)
      : driver_(driver), budget_bytes_(budget_bytes) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  // Waits for the device and gives back all memory, also blocks that are handed out.
  ~Pages();

  // The address of whole pages, usable on `stream` from this point of its order on; nothing where
  // there is no memory. May block the host.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream);
  // `streams`: where work may still use the block. False where the address is none that allocate()
  // gave and that was not given back since. Does not block the host.
  [[nodiscard]] bool deallocate(std::uint64_t address, const std::vector<caching::Stream>& streams);
  // Waits for all freed blocks and gives them back, which XLA does where a request fails alone.
  void clear();

  [[nodiscard]] const PagesCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_bytes_; }
  // Of a freed block; 0: there is none.
  [[nodiscard]] std::uint64_t free_bytes_largest() const;
  struct Held {
    std::uint64_t address = 0, size_bytes = 0;
    bool used = false;
  };
  // Handed out and freed, by address.
  [[nodiscard]] std::vector<Held> held() const;

 private:
  struct Block {
    std::uint64_t address = 0, size_bytes = 0;
    caching::PageHandle page = 0;
  };
  struct Use {
    caching::Stream stream = 0;
    caching::Event event = 0;
  };
  struct Freed {
    Block block;
    std::vector<Use> uses;
  };

  [[nodiscard]] std::optional<std::uint64_t> reuse(std::uint64_t size_bytes,
                                                   caching::Stream stream);
  [[nodiscard]] std::optional<std::uint64_t> create(std::uint64_t size_bytes);
  [[nodiscard]] Block map_new(caching::PageHandle page, std::uint64_t size_bytes);
  void release_done();
  void wait_for(std::uint64_t size_bytes);
  [[nodiscard]] bool is_done(const Freed& freed);
  void release(Freed& freed);
  void unmap(const Block& block);
  [[nodiscard]] caching::Event take_event();

  caching::Driver& driver_;
  const std::uint64_t budget_bytes_;
  std::unordered_map<std::uint64_t, Block> used_;  // by address
  std::deque<Freed> freed_;                        // the oldest first
  std::vector<caching::Event> spare_events_;
  PagesCounters counters_;
};

}  // namespace allocmark::xla
