// A machine that only counts: what would be pinned, without a page of it. Requests flow in;
// addresses, as of one large area, flow out. Events pass when the caller says so.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "allocators/host_caching/host_driver.h"

namespace allocmark::host_caching {

class CountingDriver final : public HostDriver {
 public:
  // Refuses what would make more than `room_bytes` pinned at once.
  explicit CountingDriver(std::uint64_t room_bytes = std::numeric_limits<std::uint64_t>::max())
      : room_bytes_(room_bytes) {}

  [[nodiscard]] Address pin(std::uint64_t size_bytes, PinKind kind,
                            std::uint64_t thread_count) override;
  // The address and the kind must be those of a pin() that is not given back; else it asserts.
  void unpin(Address address, PinKind kind) override;
  [[nodiscard]] Event record_event(Stream stream) override;
  [[nodiscard]] bool event_done(Event event) override;
  void destroy_event(Event event) override;

  // Until release(), events that are recorded on the stream do not pass.
  void hold(Stream stream) { held_.insert(stream); }
  // What was recorded there has passed.
  void release(Stream stream);

  [[nodiscard]] std::uint64_t pinned_bytes() const { return pinned_bytes_; }
  [[nodiscard]] std::size_t pinned_count() const { return pinned_.size(); }
  [[nodiscard]] std::uint64_t pin_calls() const { return pin_calls_; }
  [[nodiscard]] std::uint64_t unpin_calls() const { return unpin_calls_; }
  [[nodiscard]] std::size_t event_count() const { return waits_for_.size(); }

 private:
  struct Pinned {
    std::uint64_t size_bytes = 0;
    PinKind kind = PinKind::HostAlloc;
  };
  std::uint64_t room_bytes_;
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t pin_calls_ = 0;
  std::uint64_t unpin_calls_ = 0;
  Address next_address_ = std::uint64_t{1} << 40;
  Event next_event_ = 1;
  std::map<Address, Pinned> pinned_{};
  std::set<Stream> held_{};
  std::map<Event, Stream> waits_for_{};  // every event that is not destroyed
  std::set<Event> blocked_{};            // of these, those that have not passed
};

}  // namespace allocmark::host_caching
