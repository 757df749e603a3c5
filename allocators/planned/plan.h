// Where the requests of a step go when they come as they did before. The last two profiled steps
// flow in; an offset for each request flows out, by its stream and its ordinal on that stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocators/planned/profile.h"

namespace allocmark::planned {

// Sizes and offsets are multiples of it, as those of PyTorch.
inline constexpr std::uint64_t kPlanUnitBytes = 512;

// From `begin` to before `end`.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct PlannedRequest {
  std::uint64_t size_bytes = 0;
  // Nothing for one that the plan leaves out: nobody knows when it ends.
  std::optional<std::uint64_t> offset = std::nullopt;
};

// Each stream has a part of the reservation for itself, so that the order on it is all that a place
// needs to be taken again.
struct StreamPlan {
  std::uint64_t stream = 0;
  ByteRange part = {};
  std::vector<PlannedRequest> requests = {};
  // By ordinal divided by `stride`: what requests from there on will take in this step. Ranges that
  // do not touch, in order.
  std::size_t stride = 1;
  std::vector<std::vector<ByteRange>> later = {};
};

struct Plan {
  std::vector<StreamPlan> streams = {};
  std::uint64_t size_bytes = 0;     // of the reservation
  std::uint64_t placed_count = 0;   // requests of a step that have a place
  std::uint64_t request_count = 0;  // of a step
};

// Sizes are rounded already. `before` is the step before `base`: it tells when blocks end that
// outlive a step. Null: those have no place. The effort is counted, so that a plan is the same on
// every machine.
[[nodiscard]] Plan make_plan(const Step* before, const Step& base);

// A request that comes now on this stream, as the plan knows it.
class Cursor {
 public:
  explicit Cursor(const StreamPlan& plan) : plan_(&plan) {}
  void restart() { next_ = 0; }
  // Moves on. The request of the plan that it is taken for: the next one of this size among a few
  // nearby, else the next one where its place is large enough. Null where there is none.
  [[nodiscard]] const PlannedRequest* advance(std::uint64_t size_bytes);
  // What the rest of the step will take.
  [[nodiscard]] const std::vector<ByteRange>& later() const;

 private:
  const StreamPlan* plan_;
  std::size_t next_ = 0;
};

}  // namespace allocmark::planned
