// The device of a self-check: answers as a snapshot's history says. Before each operation it is
// told what the recorded allocator got from the device, and gave back, in that operation. Asked for
// more, it gives addresses that no device has, and counts.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark {

// PyTorch keeps no history with backend:cudaMallocAsync.
class RecordedDriver final : public caching::PoollessDriver {
 public:
  struct Piece {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
  };
  // What happened to the device in one operation.
  struct Operation {
    std::vector<Piece> segments{};     // that cudaMalloc gave
    std::vector<Piece> mappings{};     // of expandable memory
    std::uint64_t released_bytes = 0;  // given back before any of these
    bool failed = false;               // the request got no memory
    std::uint64_t entry_index = 0;     // events up to here have passed
  };
  void begin(Operation operation);
  // From here on, the device no longer waits for memory that the history gives back in this
  // operation: the replay has another heap than the recorded allocator had.
  void stop_waiting() { expected_release_bytes_ = 0; }
  // While a heap is taken over: every mapping succeeds, and the next reservation begins here.
  void begin_seeding(std::uint64_t base) {
    seeding_ = true;
    seed_base_ = base;
  }
  void know_segment(Piece segment) { sizes_[segment.address] = segment.size_bytes; }
  void end_seeding() { seeding_ = false; }
  // The event that is recorded next passes at this entry of the history.
  void expect_event(std::uint64_t entry_index) { next_event_passes_ = entry_index; }

  // Addresses of memory that went back since the last call.
  [[nodiscard]] std::vector<std::uint64_t> take_freed() { return std::exchange(freed_, {}); }

  // Times that the replay asked for memory where the history has none.
  [[nodiscard]] std::uint64_t surprise_count() const { return surprise_count_; }

  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, caching::Stream stream) override;
  void free(std::uint64_t address) override;
  caching::DeviceMemory memory() override { return {0, kTotalBytes}; }
  std::uint64_t device_total_bytes() override { return kTotalBytes; }
  caching::Event create_event() override { return ++event_count_; }
  void destroy_event(caching::Event) override {}
  void record_event(caching::Event event, caching::Stream) override {
    passes_[event] = next_event_passes_;
  }
  bool event_done(caching::Event event) override;
  void wait_for_event(caching::Event) override {}
  void wait_for_stream(caching::Stream) override {}
  void wait_for_device() override {}
  std::uint64_t reserve_address(std::uint64_t size_bytes) override;
  void free_address(std::uint64_t, std::uint64_t) override {}
  std::optional<caching::PageHandle> create_page(std::uint64_t size_bytes) override;
  void release_page(caching::PageHandle) override {}
  void map_page(std::uint64_t, std::uint64_t, caching::PageHandle) override {}
  void unmap_page(std::uint64_t address, std::uint64_t size_bytes) override {
    released_bytes_ += size_bytes;
    freed_.push_back(address);
  }
  void allow_access(std::uint64_t, std::uint64_t) override {}

 private:
  // The history does not tell the device's size; a reservation is 9/8 of it and need only be large.
  static constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 40;

  [[nodiscard]] bool must_release_first() const {
    return released_bytes_ < expected_release_bytes_;
  }
  std::uint64_t invent_address(std::uint64_t size_bytes);

  Operation operation_;
  std::vector<std::uint64_t> freed_;
  std::size_t segment_at_ = 0;
  std::uint64_t mappable_bytes_ = 0;
  std::uint64_t expected_release_bytes_ = 0;
  std::uint64_t released_bytes_ = 0;
  bool seeding_ = false;
  std::uint64_t seed_base_ = 0;
  std::uint64_t event_count_ = 0;
  std::uint64_t page_count_ = 0;
  std::uint64_t surprise_count_ = 0;
  std::uint64_t invented_next_ = std::uint64_t{1} << 52;  // no device has such addresses
  std::uint64_t next_event_passes_ = 0;
  std::unordered_map<caching::Event, std::uint64_t> passes_;
  std::unordered_map<std::uint64_t, std::uint64_t> sizes_;
};

}  // namespace allocmark
