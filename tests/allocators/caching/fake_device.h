// A device of a few gigabytes that exists only in numbers: deterministic addresses (lowest that
// fits), a capacity, streams that are busy or not, and failures on demand. Counts what is out, so
// that leaks show.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::caching {

// The failure that fail_call plans.
class FakeFailure : public std::runtime_error {
 public:
  FakeFailure() : std::runtime_error("planned failure") {}
};

// A call that no correct allocator makes: freeing what is not there, mapping twice.
class FakeMisuse : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class FakeDevice final : public Driver {
 public:
  FakeDevice(std::uint64_t total_bytes, std::uint64_t capacity_bytes)
      : total_bytes_(total_bytes), capacity_bytes_(capacity_bytes) {}

  void start_busy(Stream stream) { busy_.insert(stream); }
  void end_busy() {
    busy_.clear();
    pending_.clear();
  }
  // The nth call from now on throws (1 is the next); 0 is none.
  void fail_call(std::uint64_t nth) { fail_in_ = nth; }
  [[nodiscard]] std::uint64_t call_count() const { return call_count_; }

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  // Nothing taken from the device is still out.
  [[nodiscard]] bool is_clean() const {
    return used_bytes_ == 0 && segments_.empty() && reservations_.empty() && pages_.empty() &&
           mappings_.empty() && events_.empty();
  }

  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream) override {
    count();
    if (used_bytes_ + size_bytes > capacity_bytes_) return std::nullopt;
    used_bytes_ += size_bytes;
    return place(segments_, kSegmentBase, size_bytes);
  }
  void free(std::uint64_t address) override {
    count();
    used_bytes_ -= take(segments_, address, "free of what is no segment");
  }
  DeviceMemory memory() override {
    return count(), DeviceMemory{capacity_bytes_ - used_bytes_, total_bytes_};
  }
  std::uint64_t device_total_bytes() override { return total_bytes_; }

  Event create_event() override {
    count();
    events_.insert(++event_count_);
    return event_count_;
  }
  void destroy_event(Event event) override {
    count();
    require(events_.erase(event) == 1, "destruction of what is no event");
  }
  void record_event(Event event, Stream stream) override {
    count();
    pending_.erase(event);
    if (busy_.contains(stream)) pending_.insert(event);
  }
  bool event_done(Event event) override { return count(), !pending_.contains(event); }
  void wait_for_event(Event event) override {
    count();
    pending_.erase(event);
  }
  void wait_for_stream(Stream stream) override { count(), stream_waits.push_back(stream); }
  void wait_for_device() override { count(), ++device_wait_count; }

  std::uint64_t reserve_address(std::uint64_t size_bytes) override {
    count();
    return place(reservations_, kReservationBase, size_bytes);
  }
  void free_address(std::uint64_t address, std::uint64_t) override {
    count();
    static_cast<void>(take(reservations_, address, "free of what is no reservation"));
  }
  std::optional<PageHandle> create_page(std::uint64_t size_bytes) override {
    count();
    if (used_bytes_ + size_bytes > capacity_bytes_) return std::nullopt;
    used_bytes_ += size_bytes;
    pages_[++page_count_] = {.size_bytes = size_bytes};
    return page_count_;
  }
  void release_page(PageHandle page) override {
    count();
    require(pages_.contains(page) && !pages_[page].is_released, "release of what is no page");
    pages_[page].is_released = true;
    drop_unused(page);
  }
  void map_page(std::uint64_t address, std::uint64_t, PageHandle page) override {
    count();
    require(mappings_.emplace(address, page).second, "mapping over a mapping");
    ++pages_[page].mapping_count;
  }
  void unmap_page(std::uint64_t address, std::uint64_t) override {
    count();
    const PageHandle page = take(mappings_, address, "unmapping of what is not mapped");
    --pages_[page].mapping_count;
    drop_unused(page);
  }
  void allow_access(std::uint64_t, std::uint64_t) override { count(); }

  void prepare_pool() override { count(); }
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes, Stream stream) override {
    return allocate(size_bytes, stream);
  }
  void pool_free(std::uint64_t address, Stream) override { free(address); }
  void trim_pool() override { count(); }
  PoolUsage pool_usage() override { return {used_bytes_, used_bytes_, used_bytes_, used_bytes_}; }
  Stream create_stream() override { return count(), kOwnStream; }
  void destroy_stream(Stream) override { count(); }
  void make_stream_wait(Stream, Event) override { count(); }

  std::vector<Stream> stream_waits{};  // in order
  std::uint64_t device_wait_count = 0;

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // start -> bytes
  static constexpr std::uint64_t kSegmentBase = 0x7f0000000000;
  static constexpr std::uint64_t kReservationBase = 0x300000000;
  static constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;
  static constexpr Stream kOwnStream = 999;

  void count() {
    ++call_count_;
    if (fail_in_ > 0 && --fail_in_ == 0) throw FakeFailure();
  }

  // A mapping keeps the memory of a page whose handle was released.
  void drop_unused(PageHandle page) {
    if (!pages_[page].is_released || pages_[page].mapping_count > 0) return;
    used_bytes_ -= pages_[page].size_bytes;
    pages_.erase(page);
  }

  static void require(bool condition, const char* text) {
    if (!condition) throw FakeMisuse(text);
  }

  static std::uint64_t place(Ranges& ranges, std::uint64_t base, std::uint64_t size_bytes) {
    const std::uint64_t taken_bytes = (size_bytes + kGranularity - 1) / kGranularity * kGranularity;
    std::uint64_t address = base;
    for (const auto& [start, bytes] : ranges) {
      if (start - address >= taken_bytes) break;
      address = start + (bytes + kGranularity - 1) / kGranularity * kGranularity;
    }
    ranges.emplace(address, size_bytes);
    return address;
  }

  static std::uint64_t take(Ranges& ranges, std::uint64_t start, const char* text) {
    const auto found = ranges.find(start);
    require(found != ranges.end(), text);
    const std::uint64_t bytes = found->second;
    ranges.erase(found);
    return bytes;
  }

  std::uint64_t total_bytes_;
  std::uint64_t capacity_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t fail_in_ = 0;
  std::uint64_t call_count_ = 0;
  std::uint64_t event_count_ = 0;
  std::uint64_t page_count_ = 0;
  Ranges segments_;
  Ranges reservations_;
  struct Page {
    std::uint64_t size_bytes = 0;
    std::uint64_t mapping_count = 0;
    bool is_released = false;
  };
  std::map<PageHandle, Page> pages_;
  Ranges mappings_;  // start -> page
  std::set<Stream> busy_;
  std::set<Event> pending_;
  std::set<Event> events_;
};

}  // namespace allocmark::caching
