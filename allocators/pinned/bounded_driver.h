// The CUDA runtime as a machine that pins memory, within a budget. Requests flow in, addresses flow
// out, and counts of both ways.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "allocators/host_caching/cuda_host_driver.h"
#include "allocators/host_caching/host_driver.h"
#include "allocators/pinned/pin_budget.h"

namespace allocmark {

// Not thread-safe. What is pinned is given back by its owner, before this ends.
class BoundedDriver final : public host_caching::HostDriver {
 public:
  // `limit_bytes` as PinBudget has it.
  explicit BoundedDriver(std::uint64_t limit_bytes) : budget_(limit_bytes) {}

  [[nodiscard]] host_caching::Address pin(std::uint64_t size_bytes, host_caching::PinKind kind,
                                          std::uint64_t thread_count) override;
  void unpin(host_caching::Address address, host_caching::PinKind kind) override;
  [[nodiscard]] host_caching::Event record_event(host_caching::Stream stream) override {
    return cuda_.record_event(stream);
  }
  [[nodiscard]] bool event_done(host_caching::Event event) override {
    return cuda_.event_done(event);
  }
  void destroy_event(host_caching::Event event) override { cuda_.destroy_event(event); }

  [[nodiscard]] std::uint64_t pinned_bytes() const { return budget_.held_bytes(); }
  [[nodiscard]] std::uint64_t pin_count() const { return pin_count_; }
  [[nodiscard]] std::uint64_t unpin_count() const { return unpin_count_; }

 private:
  host_caching::CudaHostDriver cuda_;
  PinBudget budget_;
  std::unordered_map<host_caching::Address, std::uint64_t> sizes_bytes_{};
  std::uint64_t pin_count_ = 0;
  std::uint64_t unpin_count_ = 0;
};

}  // namespace allocmark
