// A device that answers as a golden says: the next segment comes from the recorded address. Events
// complete when the trace says so. Used by parity.cc, where no other device is given.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "allocators/cuda/driver.h"
#include "harness/tools/parity/golden.h"
#include "harness/tools/parity/parity.h"

namespace allocmark::caching {

// The allocator asked the device at a moment when PyTorch's did not: there is no answer.
class ParityDivergence : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ParityDriver final : public ParityDevice {
 public:
  explicit ParityDriver(const Golden& golden) : golden_(golden) {}

  // The answer recorded for the allocation that comes now: where the device is asked for memory, it
  // is this answer's segment that is given.
  void expect(const GoldenAnswer& answer) override { answer_ = answer; }
  void refuse_next() override { refuse_next_ = true; }
  void expect_pool_reserved(std::uint64_t bytes, std::uint64_t bytes_peak) override;
  void start_busy(Stream stream) override { busy_.insert(stream); }
  void end_busy() override;

  // Throws ParityDivergence, as reserve_address does.
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream stream) override;
  // cudaFree waits for everything that runs.
  void free(std::uint64_t address) override {
    live_.erase(address);
    end_busy();
  }
  DeviceMemory memory() override { return {0, golden_.device_total_bytes}; }
  std::uint64_t device_total_bytes() override { return golden_.device_total_bytes; }
  Event create_event() override { return ++event_count_; }
  void destroy_event(Event) override {}
  void record_event(Event event, Stream stream) override;
  bool event_done(Event event) override { return !pending_.contains(event); }
  void wait_for_event(Event event) override;
  void wait_for_stream(Stream stream) override;
  void wait_for_device() override { end_busy(); }
  std::uint64_t reserve_address(std::uint64_t size_bytes) override { return answer(size_bytes); }
  void free_address(std::uint64_t address, std::uint64_t) override { live_.erase(address); }
  std::optional<PageHandle> create_page(std::uint64_t size_bytes) override;
  void release_page(PageHandle) override {}
  void map_page(std::uint64_t, std::uint64_t, PageHandle) override {}
  void unmap_page(std::uint64_t, std::uint64_t) override {}
  void allow_access(std::uint64_t, std::uint64_t) override {}
  void prepare_pool() override {}
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes, Stream stream) override;
  void pool_free(std::uint64_t address, Stream stream) override;
  void trim_pool() override {}
  PoolUsage pool_usage() override { return usage_; }
  Stream create_stream() override { return kUnifier; }
  void destroy_stream(Stream) override {}
  void make_stream_wait(Stream, Event) override {}

 private:
  static constexpr Stream kUnifier = ~Stream{0};

  std::uint64_t answer(std::uint64_t size_bytes);

  const Golden& golden_;
  GoldenAnswer answer_;
  bool refuse_next_ = false;
  std::uint64_t event_count_ = 0;
  std::uint64_t page_count_ = 0;
  std::map<std::uint64_t, std::uint64_t> live_;  // segments given out, address -> bytes
  std::set<Stream> busy_;
  std::map<Event, Stream> pending_;
  PoolUsage usage_;
  std::uint64_t pool_next_ = std::uint64_t{1} << 40;  // places in the pool are not compared
  std::unordered_map<std::uint64_t, std::uint64_t> pool_sizes_;
};

}  // namespace allocmark::caching
