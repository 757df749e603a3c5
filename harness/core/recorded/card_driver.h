// A card with so much memory and nothing else on it, for asking what another setting would have
// done: segments and pages succeed while they fit. Events pass where the history says. Checks;
// times nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "allocators/cuda/driver.h"
#include "harness/simcuda/core/device.h"

namespace allocmark {

class CardDriver final : public caching::PoollessDriver {
 public:
  // Where new segments lie: as on an H200, or each above or below the one before.
  enum class Addresses : std::uint8_t { H200, Up, Down };

  explicit CardDriver(std::uint64_t capacity_bytes, Addresses addresses = Addresses::H200)
      : capacity_bytes_(capacity_bytes), addresses_(addresses) {}

  void move_to(std::uint64_t entry_index) { entry_index_ = entry_index; }
  void expect_event(std::uint64_t entry_index) { next_event_passes_ = entry_index; }
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::uint64_t used_bytes_peak() const { return used_bytes_peak_; }
  [[nodiscard]] std::uint64_t call_count() const { return call_count_; }

  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, caching::Stream) override {
    if (!take(size_bytes)) return std::nullopt;
    std::uint64_t address = 0;
    if (addresses_ == Addresses::H200) {
      const simcuda::AllocationOutcome outcome = device_.allocate(size_bytes);
      if (outcome.status == simcuda::Status::Ok) address = outcome.address;
    }
    if (address == 0) address = invent_address(size_bytes);
    sizes_[address] = size_bytes;
    return address;
  }
  void free(std::uint64_t address) override {
    ++call_count_;
    if (address < kInventedFirst) static_cast<void>(device_.deallocate(address, 0));
    used_bytes_ -= sizes_[address];
    sizes_.erase(address);
  }
  caching::DeviceMemory memory() override {
    return {capacity_bytes_ - used_bytes_, capacity_bytes_};
  }
  std::uint64_t device_total_bytes() override { return std::min(capacity_bytes_, kReserveMax); }
  caching::Event create_event() override { return ++event_count_; }
  void destroy_event(caching::Event) override {}
  void record_event(caching::Event event, caching::Stream) override {
    passes_[event] = next_event_passes_;
  }
  bool event_done(caching::Event event) override { return passes_[event] < entry_index_; }
  void wait_for_event(caching::Event) override {}
  void wait_for_stream(caching::Stream) override {}
  void wait_for_device() override {}
  std::uint64_t reserve_address(std::uint64_t size_bytes) override {
    const simcuda::AllocationOutcome outcome = device_.virtual_memory().reserve(size_bytes, 0);
    return outcome.status == simcuda::Status::Ok ? outcome.address : invent_address(size_bytes);
  }
  void free_address(std::uint64_t address, std::uint64_t size_bytes) override {
    if (address < kInventedFirst)
      static_cast<void>(device_.virtual_memory().free_reservation(address, size_bytes));
  }
  std::optional<caching::PageHandle> create_page(std::uint64_t size_bytes) override {
    if (!take(size_bytes)) return std::nullopt;
    pages_[++page_count_] = size_bytes;
    return page_count_;
  }
  void release_page(caching::PageHandle page) override {
    ++call_count_;
    used_bytes_ -= pages_[page];
    pages_.erase(page);
  }
  void map_page(std::uint64_t, std::uint64_t, caching::PageHandle) override {}
  void unmap_page(std::uint64_t, std::uint64_t) override {}
  void allow_access(std::uint64_t, std::uint64_t) override {}

 private:
  static constexpr std::uint64_t kReserveMax = std::uint64_t{1} << 40;

  static constexpr std::uint64_t kInventedFirst = std::uint64_t{1} << 52;

  std::uint64_t invent_address(std::uint64_t size_bytes) {
    constexpr std::uint64_t kUnit = std::uint64_t{1} << 21;
    const std::uint64_t rounded_bytes = (size_bytes + kUnit - 1) / kUnit * kUnit;
    if (addresses_ == Addresses::Down) return lowest_address_ -= rounded_bytes;
    const std::uint64_t address = next_address_;
    next_address_ += rounded_bytes;
    return address;
  }

  bool take(std::uint64_t size_bytes) {
    ++call_count_;
    if (size_bytes > capacity_bytes_ - used_bytes_) return false;
    used_bytes_ += size_bytes;
    used_bytes_peak_ = std::max(used_bytes_peak_, used_bytes_);
    return true;
  }

  std::uint64_t capacity_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t used_bytes_peak_ = 0;
  std::uint64_t call_count_ = 0;
  std::uint64_t event_count_ = 0;
  std::uint64_t page_count_ = 0;
  std::uint64_t entry_index_ = 0;
  std::uint64_t next_event_passes_ = 0;
  Addresses addresses_;
  std::uint64_t next_address_ = kInventedFirst;
  std::uint64_t lowest_address_ = std::uint64_t{1} << 60;
  simcuda::Device device_{simcuda::h200_config(simcuda::StartState::Kernel)};
  std::unordered_map<caching::Event, std::uint64_t> passes_;
  std::unordered_map<std::uint64_t, std::uint64_t> sizes_;
  std::unordered_map<caching::PageHandle, std::uint64_t> pages_;
};

}  // namespace allocmark
