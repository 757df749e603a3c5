// A machine with a clock that charges what pinning takes on a host, as simcuda does
// (harness/simcuda/core/pinning_costs.h). Nothing is pinned here.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_driver.h"

namespace allocmark {

// A machine that only counts, with time: the host's clock goes on while it pins and works, and
// events pass when the device has done what their streams had.
class TimedHost final : public host_caching::HostDriver {
 public:
  explicit TimedHost(std::uint32_t stream_count) : stream_ends_ns_(stream_count) {}

  [[nodiscard]] host_caching::Address pin(std::uint64_t size_bytes, host_caching::PinKind kind,
                                          std::uint64_t thread_count) override;
  void unpin(host_caching::Address address, host_caching::PinKind kind) override;
  [[nodiscard]] host_caching::Event record_event(host_caching::Stream stream) override;
  [[nodiscard]] bool event_done(host_caching::Event event) override;
  void destroy_event(host_caching::Event event) override;

  void work(std::uint64_t duration_ns) { now_ns_ += duration_ns; }
  void launch(std::uint32_t stream, std::uint64_t duration_ns);
  // A kernel that ends with the next synchronize().
  void launch_gated(std::uint32_t stream) { gated_.push_back(stream); }
  void synchronize();
  // Waits for what the stream has now.
  void wait_for(std::uint32_t stream);

  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  [[nodiscard]] std::uint64_t pinning_ns() const { return pinning_ns_; }  // unpinning too
  [[nodiscard]] std::uint64_t pinned_bytes() const { return counting_.pinned_bytes(); }
  [[nodiscard]] std::uint64_t pin_calls() const { return counting_.pin_calls(); }
  [[nodiscard]] std::uint64_t unpin_calls() const { return counting_.unpin_calls(); }

 private:
  void charge(std::uint64_t took_ns);

  host_caching::CountingDriver counting_;
  std::vector<std::uint64_t> stream_ends_ns_;
  std::vector<std::uint32_t> gated_;  // streams with a kernel that does not end by itself
  std::map<host_caching::Event, std::uint64_t> ends_ns_;  // of events that are not destroyed
  std::map<host_caching::Address, std::uint64_t> sizes_bytes_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t pinning_ns_ = 0;
};

}  // namespace allocmark
