// Blocks of a step as lives in a cycle, their packing, and what is still to come of it.
#include "allocators/planned/plan.h"

#include <algorithm>
#include <map>

#include "allocators/packing/packing.h"
#include "base/divided_up.h"

namespace allocmark::planned {
namespace {

// Of two blocks, for each stream: about half a second.
constexpr std::uint64_t kComparisons = 250'000'000;
// How many states of `later` are kept for a stream.
constexpr std::size_t kLaterCount = 64;
// How far from the next ordinal a request of the same size is looked for.
constexpr std::size_t kNearby = 16;

// In ticks of a step; `end` is beyond the step where the block ends in the next one. 0, 0: no
// place.
struct Life {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] bool known() const { return end > 0; }
};

using Ordinals = std::map<std::uint64_t, std::vector<const StepRequest*>>;

Ordinals by_stream(const Step& step) {
  Ordinals ordinals;
  for (const StepRequest& request : step.requests) ordinals[request.stream].push_back(&request);
  return ordinals;
}

// When the request of this ordinal ends, by what its like of the step before did.
Life life_of(const StepRequest& request, const StepRequest* like, std::uint64_t cycle) {
  if (request.end > 0) return {.begin = request.begin, .end = request.end};
  const bool tells = like != nullptr && like->size_bytes == request.size_bytes && like->end == 0 &&
                     like->end_next > 0;
  // One that lives a whole step meets itself.
  if (!tells || like->end_next >= request.begin) return {};
  return {.begin = request.begin, .end = cycle + like->end_next};
}

// The tick at which the fewest bytes live that have a place: where a cycle is cut, a block that
// lives across has its place to itself all the time.
std::uint64_t quietest_tick(const std::vector<StepRequest>& requests,
                            const std::vector<Life>& lives, std::uint64_t cycle) {
  std::vector<std::int64_t> changes(cycle + 1, 0);
  const auto add = [&](std::uint64_t begin, std::uint64_t end, std::uint64_t size_bytes) {
    changes[begin] += static_cast<std::int64_t>(size_bytes);
    changes[end] -= static_cast<std::int64_t>(size_bytes);
  };
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (!lives[i].known()) continue;
    add(lives[i].begin, std::min(lives[i].end, cycle), requests[i].size_bytes);
    if (lives[i].end > cycle) add(0, lives[i].end - cycle, requests[i].size_bytes);
  }
  std::uint64_t quietest = 0;
  std::int64_t live_bytes = changes[0];
  std::int64_t least_bytes = live_bytes;
  for (std::uint64_t tick = 1; tick < cycle; ++tick) {
    live_bytes += changes[tick];
    if (live_bytes >= least_bytes) continue;
    least_bytes = live_bytes;
    quietest = tick;
  }
  return quietest;
}

BlockLife turned(const Life& life, std::uint64_t size_bytes, std::uint64_t cut,
                 std::uint64_t cycle) {
  const std::uint64_t begin = (life.begin + cycle - cut) % cycle;
  const std::uint64_t end = begin + life.end - life.begin;
  if (end > cycle) return {.begin = 0, .end = cycle, .size_bytes = size_bytes};
  return {.begin = begin, .end = end, .size_bytes = size_bytes};
}

// Adds a range to ranges that do not touch.
void join(std::map<std::uint64_t, std::uint64_t>& ranges, ByteRange range) {
  auto at = ranges.upper_bound(range.begin);
  if (at != ranges.begin() && std::prev(at)->second >= range.begin) --at;
  while (at != ranges.end() && at->first <= range.end) {
    range.begin = std::min(range.begin, at->first);
    range.end = std::max(range.end, at->second);
    at = ranges.erase(at);
  }
  ranges[range.begin] = range.end;
}

void fill_later(StreamPlan* plan) {
  plan->stride = std::max<std::size_t>(divided_up(plan->requests.size(), kLaterCount), 1);
  // One more than there are: behind the last request nothing comes.
  plan->later.resize(plan->requests.size() / plan->stride + 2);
  std::map<std::uint64_t, std::uint64_t> ranges;
  for (std::size_t i = plan->requests.size(); i-- > 0;) {
    const PlannedRequest& request = plan->requests[i];
    if (request.offset) join(ranges, {*request.offset, *request.offset + request.size_bytes});
    if (i % plan->stride != 0) continue;
    std::vector<ByteRange>& later = plan->later[i / plan->stride];
    for (const auto& [begin, end] : ranges) later.push_back({.begin = begin, .end = end});
  }
}

// Packs what has a life into a part that begins at `begin`.
StreamPlan plan_stream(std::uint64_t stream, const std::vector<BlockLife>& lives,
                       std::uint64_t begin) {
  StreamPlan plan{.stream = stream, .part = {.begin = begin, .end = begin}};
  std::vector<BlockLife> placed;
  for (const BlockLife& life : lives) {
    if (life.end > 0) placed.push_back(life);
  }
  const BlockPacking packing = pack_quickly(placed, kComparisons);
  plan.part.end = begin + packing.height_bytes;
  std::size_t number = 0;
  for (const BlockLife& life : lives) {
    PlannedRequest request{.size_bytes = life.size_bytes};
    if (life.end > 0) request.offset = begin + packing.offsets[number++];
    plan.requests.push_back(request);
  }
  fill_later(&plan);
  return plan;
}

}  // namespace

Plan make_plan(const Step* before, const Step& base) {
  const std::uint64_t cycle = base.tick_count + 1;
  const Ordinals likes = before == nullptr ? Ordinals{} : by_stream(*before);
  std::map<std::uint64_t, std::size_t> counts;
  std::vector<Life> lives;
  for (const StepRequest& request : base.requests) {
    const std::size_t ordinal = counts[request.stream]++;
    const auto found = likes.find(request.stream);
    const bool has_like = found != likes.end() && ordinal < found->second.size();
    lives.push_back(life_of(request, has_like ? found->second[ordinal] : nullptr, cycle));
  }
  const std::uint64_t cut = quietest_tick(base.requests, lives, cycle);
  std::map<std::uint64_t, std::vector<BlockLife>> blocks;
  Plan plan{.request_count = base.requests.size()};
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const StepRequest& request = base.requests[i];
    blocks[request.stream].push_back(lives[i].known()
                                         ? turned(lives[i], request.size_bytes, cut, cycle)
                                         : BlockLife{.size_bytes = request.size_bytes});
    plan.placed_count += lives[i].known() ? 1 : 0;
  }
  for (const auto& [stream, of_stream] : blocks) {
    plan.streams.push_back(plan_stream(stream, of_stream, plan.size_bytes));
    plan.size_bytes = plan.streams.back().part.end;
  }
  return plan;
}

const PlannedRequest* Cursor::advance(std::uint64_t size_bytes) {
  const std::vector<PlannedRequest>& requests = plan_->requests;
  const auto is_it = [&](std::size_t ordinal) {
    return ordinal < requests.size() && requests[ordinal].size_bytes == size_bytes;
  };
  for (std::size_t step = 0; step <= kNearby; ++step) {
    for (const bool back : {false, true}) {
      if (back && step > next_) continue;
      const std::size_t ordinal = back ? next_ - step : next_ + step;
      if (!is_it(ordinal)) continue;
      next_ = ordinal + 1;
      return &requests[ordinal];
    }
  }
  if (next_ >= requests.size()) return nullptr;
  const PlannedRequest& next = requests[next_++];
  return next.size_bytes >= size_bytes ? &next : nullptr;
}

const std::vector<ByteRange>& Cursor::later() const {
  return plan_->later[std::min(next_ / plan_->stride, plan_->later.size() - 1)];
}

}  // namespace allocmark::planned
