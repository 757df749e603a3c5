// An allocator as one rank sees it: counts what is asked for and live, and keeps the circumstances
// of the first request that fails.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "allocators/backend/forwarding_backend.h"

namespace allocmark {

class WatchedBackend final : public ForwardingBackend {
 public:
  // `on_first_failure` gets the size that was asked for.
  WatchedBackend(Backend& inner, std::function<void(std::uint64_t)> on_first_failure)
      : ForwardingBackend(inner), on_first_failure_(std::move(on_first_failure)) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const AllocateResult result = ForwardingBackend::allocate(size_bytes, stream);
    if (result.status == AllocateStatus::Ok) {
      live_bytes_ += size_bytes;
      live_bytes_peak_ = std::max(live_bytes_peak_, live_bytes_);
    } else if (!has_failed_) {
      has_failed_ = true;
      on_first_failure_(size_bytes);
    }
    return result;
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    ForwardingBackend::deallocate(pointer, size_bytes, stream);
    live_bytes_ -= size_bytes;
  }

  [[nodiscard]] std::uint64_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] std::uint64_t live_bytes_peak() const { return live_bytes_peak_; }

 private:
  std::function<void(std::uint64_t)> on_first_failure_;
  std::uint64_t live_bytes_ = 0, live_bytes_peak_ = 0;
  bool has_failed_ = false;
};

}  // namespace allocmark
