// What an allocator asked of its device in a pass, and the same calls made again without the
// allocator. An allocator is a function of its requests and of the device's answers: as long as the
// device answers a second pass as it did the first, the allocator would ask for the same. So a
// second pass needs the calls alone, and they are few where a cache serves most requests. Where an
// answer differs, the allocator is run after all: with the answers so far, and from there on with
// the device. Calls and their modelled times flow in; the same of the next pass flow out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocators/cuda/driver.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {

// In front of a device. First all calls go through and are written down; after make_again() the
// calls that were made are answered from the tape, and those behind them go through.
class DriverTape final : public caching::Driver {
 public:
  static constexpr std::size_t kCallCountMax = std::size_t{1} << 20;  // 48 MiB

  // `clock` is the calling thread's; both have to outlive this.
  DriverTape(caching::Driver& device, const SimcuThreadClock& clock,
             std::size_t call_count_max = kCallCountMax)
      : device_(device), real_clock_(clock), call_count_max_(call_count_max) {}

  // Whether all calls are on the tape, and any. Not those of a stream-ordered pool, which a cache
  // of its own does not spare, nor those that failed.
  [[nodiscard]] bool is_whole() const { return is_whole_ && !calls_.empty(); }
  [[nodiscard]] std::size_t call_count() const { return calls_.size(); }

  // Makes the calls [made_count(), end) on another device, or on the same one at another time.
  // False where one was answered otherwise, which is then on the tape, or failed.
  [[nodiscard]] bool make_again(caching::Driver& device, std::size_t end);
  [[nodiscard]] std::size_t made_count() const { return made_count_; }
  // What a call took, the last time it was made.
  [[nodiscard]] std::uint64_t took_ns(std::size_t call) const { return calls_[call].took_ns; }

  // From here on the allocator asks again, from its beginning: calls that were made again are
  // answered from the tape, at the times that they took, and the others by the device.
  void answer_from_tape(caching::Driver& device);
  // Time in calls so far, of the tape's or the device's.
  [[nodiscard]] const SimcuThreadClock& clock() const { return clock_; }

  void check_pending_error() override { ask<&caching::Driver::check_pending_error>(); }
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, caching::Stream stream) override {
    return given(ask<&caching::Driver::allocate>(size_bytes, stream), 2);
  }
  void free(std::uint64_t address) override { ask<&caching::Driver::free>(address); }
  caching::DeviceMemory memory() override {
    const Call call = ask<&caching::Driver::memory>();
    return {.free_bytes = call.words[0], .total_bytes = call.words[1]};
  }
  std::uint64_t device_total_bytes() override {
    return ask<&caching::Driver::device_total_bytes>().words[0];
  }
  caching::Event create_event() override {
    return ask<&caching::Driver::create_event, Handle::Given>().words[0];
  }
  void destroy_event(caching::Event event) override {
    ask<&caching::Driver::destroy_event, Handle::First>(event);
  }
  void record_event(caching::Event event, caching::Stream stream) override {
    ask<&caching::Driver::record_event, Handle::First>(event, stream);
  }
  bool event_done(caching::Event event) override {
    return ask<&caching::Driver::event_done, Handle::First>(event).is_given;
  }
  void wait_for_event(caching::Event event) override {
    ask<&caching::Driver::wait_for_event, Handle::First>(event);
  }
  void wait_for_stream(caching::Stream stream) override {
    ask<&caching::Driver::wait_for_stream>(stream);
  }
  void wait_for_device() override { ask<&caching::Driver::wait_for_device>(); }
  std::uint64_t reserve_address(std::uint64_t size_bytes) override {
    return ask<&caching::Driver::reserve_address>(size_bytes).words[1];
  }
  void free_address(std::uint64_t address, std::uint64_t size_bytes) override {
    ask<&caching::Driver::free_address>(address, size_bytes);
  }
  std::optional<caching::PageHandle> create_page(std::uint64_t size_bytes) override {
    return given(ask<&caching::Driver::create_page, Handle::Given>(size_bytes), 1);
  }
  void release_page(caching::PageHandle page) override {
    ask<&caching::Driver::release_page, Handle::First>(page);
  }
  void map_page(std::uint64_t address, std::uint64_t size_bytes,
                caching::PageHandle page) override {
    ask<&caching::Driver::map_page, Handle::Third>(address, size_bytes, page);
  }
  void unmap_page(std::uint64_t address, std::uint64_t size_bytes) override {
    ask<&caching::Driver::unmap_page>(address, size_bytes);
  }
  void allow_access(std::uint64_t address, std::uint64_t size_bytes) override {
    ask<&caching::Driver::allow_access>(address, size_bytes);
  }
  // Of a stream-ordered pool: they go through, and the tape is not whole.
  void prepare_pool() override { untaped().prepare_pool(); }
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes,
                                             caching::Stream stream) override {
    return untaped().pool_allocate(size_bytes, stream);
  }
  void pool_free(std::uint64_t address, caching::Stream stream) override {
    untaped().pool_free(address, stream);
  }
  void trim_pool() override { untaped().trim_pool(); }
  caching::PoolUsage pool_usage() override { return untaped().pool_usage(); }
  caching::Stream create_stream() override { return untaped().create_stream(); }
  void destroy_stream(caching::Stream stream) override { untaped().destroy_stream(stream); }
  void make_stream_wait(caching::Stream stream, caching::Event event) override {
    untaped().make_stream_wait(stream, event);
  }

 private:
  // Where a call has the handle of an event or page: one of its words, from an earlier call, or the
  // answer.
  enum class Handle : std::uint8_t { None, First, Third, Given };
  struct Call {
    void (*make)(caching::Driver& device, Call& call) = nullptr;  // asks, and takes the answer
    std::array<std::uint64_t, 3> words{};  // that are asked, and behind them those of the answer
    std::uint64_t took_ns = 0;
    Handle handle = Handle::None;
    std::uint8_t asked_count = 0;  // of the words
    bool is_given = true;          // or done; false: memory is out, or not done
  };

  // The method of the device, with these words.
  template <auto kMethod, Handle kHandle = Handle::None, typename... Words>
  Call ask(Words... words) {
    constexpr auto make = [](caching::Driver& device, Call& call) {
      [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
        if constexpr (std::is_void_v<
                          std::invoke_result_t<decltype(kMethod), caching::Driver&, Words...>>) {
          (device.*kMethod)(call.words[kAt]...);
        } else {
          take((device.*kMethod)(call.words[kAt]...), call);
        }
      }
      (std::index_sequence_for<Words...>{});
    };
    return tape(
        {.make = make, .words = {words...}, .handle = kHandle, .asked_count = sizeof...(Words)});
  }
  static void take(bool is_done, Call& call) { call.is_given = is_done; }
  static void take(std::uint64_t word, Call& call) { call.words[call.asked_count] = word; }
  static void take(std::optional<std::uint64_t> word, Call& call) {
    call.is_given = word.has_value();
    call.words[call.asked_count] = word.value_or(0);
  }
  static void take(caching::DeviceMemory memory, Call& call) {
    call.words = {memory.free_bytes, memory.total_bytes};
  }
  static std::optional<std::uint64_t> given(const Call& call, std::size_t at) {
    return call.is_given ? std::optional(call.words[at]) : std::nullopt;
  }

  // As the tape or the device answers, and on the tape where it is new.
  Call tape(Call call);
  [[nodiscard]] caching::Driver& untaped();

  caching::Driver& device_;
  caching::Driver* answering_ = nullptr;  // since answer_from_tape()
  const SimcuThreadClock& real_clock_;
  SimcuThreadClock clock_{};
  std::size_t call_count_max_;
  bool is_whole_ = true;
  std::vector<Call> calls_;
  std::size_t made_count_ = 0;      // made again
  std::size_t answered_count_ = 0;  // from the tape, since then
  // Events and pages of the first time -> of the second.
  std::unordered_map<std::uint64_t, std::uint64_t> handles_;
};

}  // namespace allocmark
