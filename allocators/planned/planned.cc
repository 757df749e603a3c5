// The backend: profile, plan, reservation and fallback; see planned.h.
#include "allocators/planned/planned.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocators/backend/stream_uses.h"
#include "allocators/caching/caching.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"
#include "allocators/planned/plan.h"
#include "allocators/planned/profile.h"
#include "allocators/planned/space.h"
#include "base/bytes.h"
#include "base/divided_up.h"

namespace allocmark {
namespace {

using planned::ByteRange;
using planned::Cursor;
using planned::Plan;
using planned::PlannedRequest;
using planned::StreamPlan;

struct PlannedConf {
  // A model is made before the first step, which recordings mark. The first step makes what later
  // ones keep, as an optimizer's state; the second is like them.
  std::uint64_t profile_steps = 3;
  bool expandable_segments = false;  // of the caching allocator
};

caching::Settings settings_of(const PlannedConf& conf) {
  caching::Settings settings;
  settings.expandable_segments = conf.expandable_segments;
  return settings;
}

// Of requests after the plan was made.
struct PlanCounters {
  std::uint64_t hit_count = 0;       // served at their place
  std::uint64_t unplaced_count = 0;  // the plan knew that it has no place for them
  std::uint64_t miss_count = 0;      // it did not know them, or their place was in use
  std::uint64_t hole_count = 0;      // misses that were served in the reservation
  std::uint64_t refused_count = 0;   // times that there was no room for the reservation
  std::uint64_t reserved_bytes_peak = 0;
};

class PlannedBackend final : public Backend {
 public:
  PlannedBackend(const PlannedConf& conf, std::uint64_t memory_limit_bytes)
      : profile_steps_(conf.profile_steps),
        limit_bytes_(memory_limit_bytes),
        fallback_(settings_of(conf), memory_limit_bytes) {}
  // Gives back all memory, live blocks too; cudaFree waits for the device's work.
  ~PlannedBackend() override { give_reservation(); }

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate, on any thread. At its place it costs no device call, else what
  // it costs the caching allocator.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) {
      return kOutOfMemory;
    }
    const std::lock_guard lock(mutex_);
    const std::uint64_t rounded_bytes = rounded_up(size_bytes, planned::kPlanUnitBytes);
    if (plan_) {
      if (const auto offset = place(rounded_bytes, number_of(stream))) {
        return {.pointer = reinterpret_cast<void*>(address_ + *offset),
                .status = AllocateStatus::Ok};
      }
    }
    const AllocateResult result = fallback_.allocate(size_bytes, stream);
    if (plan_) note_peak();
    if (!plan_ && result.status == AllocateStatus::Ok) {
      profile_.note_allocate(address_of(result.pointer), rounded_bytes, number_of(stream));
    }
    return result;
  }

  // Blocks the host until the streams are done that record_stream named for a block of the plan.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    if (!is_reserved(pointer)) {
      if (!plan_) profile_.note_free(address_of(pointer));
      return fallback_.deallocate(pointer, size_bytes, stream);
    }
    if (!space_.has(address_of(pointer) - address_)) throw_invalid_pointer("planned backend");
    wait_for_streams(uses_.take(pointer));
    (void)space_.give(address_of(pointer) - address_);
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    if (!is_reserved(pointer)) return fallback_.record_stream(pointer, stream);
    if (!space_.has(address_of(pointer) - address_)) throw_invalid_pointer("planned backend");
    uses_.add(pointer, stream);
  }

  // The caching allocator's empty_cache, and the reservation where nothing in it is in use; the
  // next step takes it again.
  void trim() override {
    const std::lock_guard lock(mutex_);
    fallback_.trim();
    if (space_.taken().empty()) give_reservation();
  }

  // The plan is made at the end of the profiled steps, which takes up to half a second a stream.
  // What the caching allocator holds and nobody uses goes back to the device before the
  // reservation.
  void begin_step() override {
    const std::lock_guard lock(mutex_);
    for (Cursor& cursor : cursors_) cursor.restart();
    if (!plan_) {
      profile_.begin_step();
      if (profile_.whole_count() < profile_steps_) return;
      const planned::Step* const before =
          profile_steps_ > 1 ? &profile_.step(profile_steps_ - 2) : nullptr;
      plan_ = planned::make_plan(before, profile_.step(profile_steps_ - 1));
      profile_ = {};
      for (const StreamPlan& plan : plan_->streams) cursors_.emplace_back(plan);
    }
    if (address_ == 0 && plan_->size_bytes > 0) reserve();
    note_peak();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    return with_plan(fallback_.stats(stream));
  }
  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return with_plan(fallback_.totals());
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    return {named_counter("plan_bytes", plan_ ? plan_->size_bytes : 0),
            named_counter("plan_requests", plan_ ? plan_->request_count : 0),
            named_counter("plan_placed", plan_ ? plan_->placed_count : 0),
            named_counter("plan_hits", counters_.hit_count),
            named_counter("plan_misses", counters_.miss_count),
            named_counter("plan_misses_in_holes", counters_.hole_count),
            named_counter("plan_unplaced", counters_.unplaced_count),
            named_counter("plan_refusals", counters_.refused_count),
            named_counter("planned_reserved_bytes_peak", counters_.reserved_bytes_peak)};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const override {
    const std::lock_guard lock(mutex_);
    std::vector<MemorySegment> segments = fallback_.segments();
    if (address_ == 0) return segments;
    segments.push_back(reservation_segment());
    std::ranges::sort(segments, {}, &MemorySegment::address);
    return segments;
  }

  [[nodiscard]] std::string warning() const override {
    const std::lock_guard lock(mutex_);
    if (!plan_) {
      return fmt::format("no plan was made: the trace ends within the {} steps that are profiled",
                         profile_steps_);
    }
    if (counters_.refused_count == 0) return {};
    return fmt::format(
        "in {} steps the plan was refused: there was no room for its reservation of {} beside what "
        "is live; caching served all of them",
        counters_.refused_count, format_bytes(rounded_up(plan_->size_bytes, kPageBytes)));
  }

  [[nodiscard]] std::string last_failure_text() const override {
    const std::lock_guard lock(mutex_);
    return fallback_.last_failure_text();
  }

 private:
  static std::uint64_t address_of(const void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }
  [[nodiscard]] bool is_reserved(const void* pointer) const {
    return address_ != 0 && address_of(pointer) - address_ < reserved_bytes_;
  }

  // The offset of a block in the reservation; nothing where the caching allocator is to serve it.
  std::optional<std::uint64_t> place(std::uint64_t size_bytes, std::uint64_t stream) {
    const auto found = std::ranges::find(plan_->streams, stream, &StreamPlan::stream);
    if (found == plan_->streams.end()) {
      ++counters_.miss_count;
      return std::nullopt;
    }
    Cursor& cursor = cursors_[static_cast<std::size_t>(found - plan_->streams.begin())];
    const PlannedRequest* const request = cursor.advance(size_bytes);
    if (request != nullptr && !request->offset) {
      ++counters_.unplaced_count;
      return std::nullopt;
    }
    if (request != nullptr && address_ != 0 &&
        space_.take({.begin = *request->offset, .end = *request->offset + size_bytes})) {
      ++counters_.hit_count;
      return request->offset;
    }
    ++counters_.miss_count;
    if (address_ == 0) return std::nullopt;
    const auto hole = space_.take_hole(size_bytes, found->part, cursor.later());
    if (hole) ++counters_.hole_count;
    return hole;
  }

  void reserve() {
    fallback_.trim();
    const std::uint64_t size_bytes = rounded_up(plan_->size_bytes, kPageBytes);
    const std::uint64_t held_bytes = fallback_.totals().reserved_bytes.value_or(0);
    const bool fits = limit_bytes_ == 0 || held_bytes + size_bytes <= limit_bytes_;
    const auto address = fits ? take_device_memory(size_bytes) : std::nullopt;
    if (!address) {
      ++counters_.refused_count;
      return;
    }
    address_ = *address;
    reserved_bytes_ = size_bytes;
    ++take_count_;
    if (limit_bytes_ != 0) fallback_.change_limit(limit_bytes_ - size_bytes);
  }

  void give_reservation() {
    if (address_ == 0) return;
    give_device_memory(address_);
    address_ = reserved_bytes_ = 0;
    ++give_count_;
    if (limit_bytes_ != 0) fallback_.change_limit(limit_bytes_);
  }

  void note_peak() {
    const std::uint64_t now_bytes = fallback_.totals().reserved_bytes.value_or(0) + reserved_bytes_;
    counters_.reserved_bytes_peak = std::max(counters_.reserved_bytes_peak, now_bytes);
  }

  // Free memory of the reservation counts as none that a request could have: it is for others.
  [[nodiscard]] MemoryStats with_plan(MemoryStats stats) const {
    const auto add = [](std::optional<std::uint64_t>& to, std::uint64_t value) {
      to = to.value_or(0) + value;
    };
    add(stats.allocated_bytes, space_.taken_bytes());
    add(stats.active_bytes, space_.taken_bytes());
    add(stats.reserved_bytes, reserved_bytes_);
    add(stats.device_allocate_count, take_count_);
    add(stats.device_free_count, give_count_);
    stats.limit_bytes = limit_bytes_ == 0 ? stats.limit_bytes : std::optional(limit_bytes_);
    return stats;
  }

  [[nodiscard]] MemorySegment reservation_segment() const {
    MemorySegment segment{.address = address_,
                          .size_bytes = reserved_bytes_,
                          .is_large = true,
                          .allocated_bytes = space_.taken_bytes()};
    std::uint64_t at = 0;
    const auto add = [&](std::uint64_t end, MemoryBlockState state) {
      if (end > at) {
        segment.blocks.push_back(
            {.address = address_ + at, .size_bytes = end - at, .state = state});
      }
      at = end;
    };
    for (const auto& [begin, end] : space_.taken()) {
      add(begin, MemoryBlockState::Free);
      add(end, MemoryBlockState::Allocated);
    }
    add(reserved_bytes_, MemoryBlockState::Free);
    return segment;
  }

  // A device gives whole pages.
  static constexpr std::uint64_t kPageBytes = 2 * kMiB;

  mutable std::mutex mutex_;  // guards everything below
  std::uint64_t profile_steps_;
  std::uint64_t limit_bytes_;  // of all; 0: none
  CachingBackend fallback_;
  planned::Profile profile_;
  std::optional<Plan> plan_;
  std::vector<Cursor> cursors_;  // of plan_->streams, in their order
  std::uint64_t address_ = 0;    // of the reservation; 0: there is none
  std::uint64_t reserved_bytes_ = 0;
  planned::Space space_;  // offsets in it
  StreamUses uses_;
  PlanCounters counters_;
  std::uint64_t take_count_ = 0, give_count_ = 0;
};

std::unique_ptr<Backend> make(const PlannedConf& conf, const BackendOptions& options) {
  return std::make_unique<PlannedBackend>(conf, options.memory_limit_bytes);
}

}  // namespace

BackendEntry planned_entry() {
  const ConfFormat<PlannedConf> format{
      .keys = {
          number_key("profile_steps", &PlannedConf::profile_steps, {.lowest = 1, .highest = 1000}),
          boolean_key("expandable_segments", &PlannedConf::expandable_segments)}};
  return {.name = "planned",
          .summary = "our own: a plan of the first steps for those that follow, then caching",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .honours_memory_limit = true,
                           .needs_steps = true},
          .conf_keys = format.key_names(),
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make)};
}

}  // namespace allocmark
