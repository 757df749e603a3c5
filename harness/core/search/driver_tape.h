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
#include <unordered_map>
#include <vector>

#include "allocators/cuda/driver.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {

// In front of a device. First all calls go through and are written down; after make_again() the
// calls that were made are answered from the tape, and those behind them go through.
class DriverTape final : public caching::Driver {
 public:
  static constexpr std::size_t kCallCountMax = std::size_t{1} << 20;  // 40 MiB

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

  void check_pending_error() override;
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, caching::Stream stream) override;
  void free(std::uint64_t address) override;
  caching::DeviceMemory memory() override;
  std::uint64_t device_total_bytes() override;
  caching::Event create_event() override;
  void destroy_event(caching::Event event) override;
  void record_event(caching::Event event, caching::Stream stream) override;
  bool event_done(caching::Event event) override;
  void wait_for_event(caching::Event event) override;
  void wait_for_stream(caching::Stream stream) override;
  void wait_for_device() override;
  std::uint64_t reserve_address(std::uint64_t size_bytes) override;
  void free_address(std::uint64_t address, std::uint64_t size_bytes) override;
  std::optional<caching::PageHandle> create_page(std::uint64_t size_bytes) override;
  void release_page(caching::PageHandle page) override;
  void map_page(std::uint64_t address, std::uint64_t size_bytes, caching::PageHandle page) override;
  void unmap_page(std::uint64_t address, std::uint64_t size_bytes) override;
  void allow_access(std::uint64_t address, std::uint64_t size_bytes) override;
  // Of a stream-ordered pool: they go through, and the tape is not whole.
  void prepare_pool() override;
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes,
                                             caching::Stream stream) override;
  void pool_free(std::uint64_t address, caching::Stream stream) override;
  void trim_pool() override;
  caching::PoolUsage pool_usage() override;
  caching::Stream create_stream() override;
  void destroy_stream(caching::Stream stream) override;
  void make_stream_wait(caching::Stream stream, caching::Event event) override;

 private:
  enum class Kind : std::uint8_t {
    CheckPendingError,
    Allocate,
    Free,
    Memory,
    DeviceTotalBytes,
    CreateEvent,
    DestroyEvent,
    RecordEvent,
    EventDone,
    WaitForEvent,
    WaitForStream,
    WaitForDevice,
    ReserveAddress,
    FreeAddress,
    CreatePage,
    ReleasePage,
    MapPage,
    UnmapPage,
    AllowAccess
  };
  struct Call {
    Kind kind = {};
    bool is_given = true;                  // or done; false: memory is out, or not done
    std::array<std::uint64_t, 3> words{};  // that are asked, and behind them those of the answer
    std::uint64_t took_ns = 0;
  };

  Call ask(Call call);
  static void make(caching::Driver& device, Call& call);
  [[nodiscard]] static bool gives_handle(Kind kind);
  // The word that is the handle of an event or page, from an earlier call; null where none is.
  [[nodiscard]] static std::uint64_t* handle_of(Call& call);
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
