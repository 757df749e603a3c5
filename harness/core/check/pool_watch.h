// What the private pools of a trace hold during the checked pass: looked at when requests begin and
// cease to go to a pool, around each empty_cache, and at the end. Between those moments only frees
// change what a pool has, so none of them has more stranded. Nothing here is timed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/check/timeline.h"
#include "workloads/trace/event.h"

namespace allocmark {

// What a pool has of the device.
struct PoolBytes {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;  // with blocks that another stream still uses
  [[nodiscard]] std::uint64_t stranded_bytes() const { return reserved_bytes - live_bytes; }
};

// By pool; 0 is the memory of no private pool.
[[nodiscard]] std::map<std::uint64_t, PoolBytes> bytes_by_pool(const Backend& backend);

class PoolWatch {
 public:
  // A timeline also gets what pools have where its spans end, and captures; null = none.
  explicit PoolWatch(const Backend& backend, Timeline* timeline = nullptr)
      : backend_(&backend), timeline_(timeline) {}

  // Around every step of the trace, in order.
  void before(const Event& event);
  void after(const Event& event);
  // A request on that stream got no memory.
  void note_failure(std::uint32_t stream);

  // results/FAILURES.md, "Private pools"; with what is held now.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> counters();

 private:
  struct Look {
    std::uint64_t reserved_bytes = 0;  // of all memory
    PoolBytes pools{};                 // of all private pools
    std::map<std::uint64_t, PoolBytes> by_pool{};
  };
  // Calls of empty_cache with no request between them.
  struct Return {
    Look before{};
    Look after{};
    [[nodiscard]] std::uint64_t bytes() const {
      const bool less = after.reserved_bytes < before.reserved_bytes;
      return less ? before.reserved_bytes - after.reserved_bytes : 0;
    }
  };

  // Without pools that nobody uses any more: what they have can go back.
  [[nodiscard]] Look look() const;
  void note(const Look& look);
  void tell(const Look& look);
  void end_return();
  void end_capture(std::uint32_t stream);

  struct Capture {
    std::uint64_t begin_event_index = 0;
    bool failed = false;
  };

  void note_step(const Event& event);

  const Backend* backend_;
  Timeline* timeline_;
  std::uint64_t event_index_ = 0;                        // of the step under way
  std::map<std::uint64_t, std::uint64_t> use_counts_{};  // of pools that are used
  std::uint64_t reserved_bytes_peak_ = 0;
  Look most_stranded_{};
  std::optional<Return> open_{};
  Return most_returned_{};
  std::map<std::uint32_t, Capture> captures_{};  // by the stream under capture
  std::int64_t capture_count_ = 0;
  std::int64_t failed_capture_count_ = 0;
};

}  // namespace allocmark
