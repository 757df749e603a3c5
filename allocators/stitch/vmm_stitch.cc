// Blocks, and who may use their memory next; see vmm_stitch.h.
#include "allocators/stitch/vmm_stitch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/cuda/streams.h"
#include "allocators/stitch/small_heap.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

void read_chunk(ConfReader& reader, const ConfPair& pair, stitch::RangesOptions& options) {
  const std::uint64_t chunk_mb = reader.number(pair, {.lowest = 2, .highest = 512});
  if ((chunk_mb & (chunk_mb - 1)) != 0) reader.fail(pair, "a power of two from 2 to 512");
  options.chunk_bytes = chunk_mb * kMiB;
}

ConfFormat<stitch::RangesOptions> conf_format() {
  return {.keys = {{"chunk_mb", read_chunk},
                   number_key("mapped_percent_max", &stitch::RangesOptions::mapped_percent_max,
                              {.lowest = 100, .highest = 10000}),
                   word_key("other_streams", &stitch::RangesOptions::takes_from_others_first,
                            {"when_short", "first"})}};
}

class VmmStitchBackend final : public Backend {
 public:
  // On the current device, which must stay the current one of every thread that calls. `device`,
  // where it is not null, is asked in place of an own one and has to outlive this.
  explicit VmmStitchBackend(const stitch::RangesOptions& options, caching::Driver* device)
      : driver_(device != nullptr ? *device : own_driver_.emplace(nullptr)),
        ranges_(driver_, options),
        small_bytes_max_(std::min(kMiB, options.chunk_bytes / 2)) {}

  // Waits for the device and gives back everything, live blocks too.
  ~VmmStitchBackend() override {
    try {
      driver_.wait_for_device();
      for (const Pending& pending : pending_) {
        for (const caching::Event event : pending.events) driver_.destroy_event(event);
      }
    } catch (const std::exception&) {
      // The context is gone, and the events with it.
    }
  }

  // The caller owns the block, which is usable on `stream` at once, and gives it back with
  // deallocate, on any thread. Blocks the host while the driver maps memory, and where memory is
  // short for the streams that record_stream named.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    // Beyond any device, and near 2^64 rounding would wrap.
    if (size_bytes > kTiB * 256) return kOutOfMemory;
    const std::lock_guard lock(mutex_);
    if (!pending_.empty()) release_done_pending();
    Block block{.range = {}, .size_bytes = 0, .stream = number_of(stream), .other_streams = {}};
    const std::uint64_t grain_bytes =
        size_bytes <= small_bytes_max_ ? stitch::SmallHeap::kGrainBytes : ranges_.chunk_bytes();
    block.size_bytes = (size_bytes + grain_bytes - 1) / grain_bytes * grain_bytes;
    std::optional<std::uint64_t> address = try_allocate(block);
    if (!address && !pending_.empty()) {
      ++retry_count_;
      wait_for_pending();
      address = try_allocate(block);
    }
    if (!address) return kOutOfMemory;
    void* const pointer = reinterpret_cast<void*>(*address);
    allocated_bytes_ += block.size_bytes;
    live_.emplace(pointer, std::move(block));
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  // Never blocks.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = find(pointer);
    // May throw, and the block is then still live.
    std::vector<caching::Event> events = record_events(found->second);
    const Block block = std::move(found->second);
    live_.erase(found);
    allocated_bytes_ -= block.size_bytes;
    if (events.empty()) {
      release(block);
      return;
    }
    pending_bytes_ += block.size_bytes;
    pending_.push_back({.block = block, .events = std::move(events)});
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    Block& block = find(pointer)->second;
    const caching::Stream number = number_of(stream);
    std::vector<caching::Stream>& others = block.other_streams;
    if (number != block.stream && std::find(others.begin(), others.end(), number) == others.end()) {
      others.push_back(number);
    }
  }

  // Waits for the device, unmaps all that is unused and gives its memory back.
  void trim() override {
    const std::lock_guard lock(mutex_);
    wait_for_pending();
    ranges_.trim();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats;
    stats.allocated_bytes = allocated_bytes_;
    stats.active_bytes = allocated_bytes_ + pending_bytes_;
    stats.reserved_bytes = ranges_.reserved_bytes();
    std::uint64_t other_bytes = ranges_.free_bytes_of_others(number_of(stream));
    // Every free chunk of the stream can be part of one range.
    std::uint64_t largest_bytes = ranges_.free_bytes(number_of(stream));
    for (const auto& [owner, heap] : small_heaps_) {
      if (owner == number_of(stream)) {
        largest_bytes = std::max(largest_bytes, heap.free_bytes_largest());
      } else {
        other_bytes += heap.free_bytes();
      }
    }
    stats.free_other_streams_bytes = other_bytes;
    stats.free_largest_bytes = largest_bytes;
    stats.device_allocate_count = ranges_.counts().create_count;
    stats.device_free_count = ranges_.counts().release_count;
    stats.retry_count = retry_count_;
    return stats;
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    const stitch::RangesCounts& counts = ranges_.counts();
    return {named_counter("chunks_created", counts.create_count),
            named_counter("chunks_released", counts.release_count),
            named_counter("chunks_taken_from_other_streams", counts.taken_count),
            named_counter("mapped_bytes", ranges_.mapped_bytes()),
            named_counter("shortages", counts.shortage_count),
            named_counter("views", ranges_.view_count()),
            named_counter("views_dropped", counts.drop_count),
            named_counter("views_reused", counts.reuse_count),
            named_counter("views_stitched", counts.stitch_count)};
  }

 private:
  struct Block {
    stitch::Range range;           // view null: a piece of a slab
    std::uint64_t order = 0;       // of that piece
    std::uint64_t size_bytes = 0;  // rounded
    caching::Stream stream = 0;
    std::vector<caching::Stream> other_streams;  // that have used it
  };
  // Given back while other streams were at work with it.
  struct Pending {
    Block block;
    std::vector<caching::Event> events;
  };

  [[nodiscard]] std::optional<std::uint64_t> try_allocate(Block& block) {
    if (block.size_bytes <= small_bytes_max_) return take_small(block);
    const std::optional<stitch::Range> range = ranges_.take(block.size_bytes, block.stream);
    if (!range) return std::nullopt;
    block.range = *range;
    return range->address();
  }

  [[nodiscard]] std::optional<std::uint64_t> take_small(Block& block) {
    stitch::SmallHeap& heap = small_heaps_[block.stream];
    std::optional<std::uint64_t> order = heap.take(block.size_bytes);
    if (!order) {
      const std::optional<stitch::Range> slab = ranges_.take(ranges_.chunk_bytes(), block.stream);
      if (!slab) return std::nullopt;
      slabs_.emplace(slab->order(), *slab);
      heap.add_slab(slab->order(), ranges_.chunk_bytes());
      order = heap.take(block.size_bytes);
    }
    block.order = *order;
    const auto& [slab_order, slab] = *std::prev(slabs_.upper_bound(*order));
    return slab.address() + (*order - slab_order);
  }

  void release(const Block& block) {
    if (block.range.view != nullptr) {
      ranges_.give(block.range, block.stream);
      return;
    }
    const std::optional<std::uint64_t> slab = small_heaps_[block.stream].give(block.order);
    if (!slab) return;
    const auto found = slabs_.find(*slab);
    ranges_.give(found->second, block.stream);
    slabs_.erase(found);
  }

  void release_done_pending() {
    for (auto at = pending_.begin(); at != pending_.end();) {
      const bool done =
          std::all_of(at->events.begin(), at->events.end(),
                      [this](caching::Event event) { return driver_.event_done(event); });
      if (!done) {
        ++at;
        continue;
      }
      release_pending(at);
      at = pending_.erase(at);
    }
  }

  void wait_for_pending() {
    while (!pending_.empty()) {
      for (const caching::Event event : pending_.front().events) driver_.wait_for_event(event);
      release_pending(pending_.begin());
      pending_.pop_front();
    }
  }

  void release_pending(std::deque<Pending>::iterator at) {
    for (const caching::Event event : at->events) driver_.destroy_event(event);
    pending_bytes_ -= at->block.size_bytes;
    release(at->block);
  }

  [[nodiscard]] std::vector<caching::Event> record_events(const Block& block) {
    std::vector<caching::Event> events;
    try {
      for (const caching::Stream stream : block.other_streams) {
        events.push_back(driver_.create_event());
        driver_.record_event(events.back(), stream);
      }
    } catch (...) {
      for (const caching::Event event : events) driver_.destroy_event(event);
      throw;
    }
    return events;
  }

  [[nodiscard]] std::unordered_map<void*, Block>::iterator find(void* pointer) {
    const auto found = live_.find(pointer);
    if (found == live_.end()) {
      throw EnvironmentError(
          {.what = fmt::format("invalid device pointer: {}", pointer),
           .where = "vmm_stitch backend",
           .wanted = "a pointer that allocate returned and that was not given back since"});
    }
    return found;
  }

  mutable std::mutex mutex_;  // guards everything below
  std::optional<CudaDriver> own_driver_;
  caching::Driver& driver_;
  stitch::Ranges ranges_;
  std::uint64_t small_bytes_max_;
  std::map<caching::Stream, stitch::SmallHeap> small_heaps_;
  std::map<std::uint64_t, stitch::Range> slabs_;  // by order
  std::unordered_map<void*, Block> live_;
  std::deque<Pending> pending_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t retry_count_ = 0;
};

std::unique_ptr<Backend> make(stitch::RangesOptions ranges, const BackendOptions& options) {
  ranges.limit_bytes = options.memory_limit_bytes;
  return std::make_unique<VmmStitchBackend>(ranges, options.device);
}

}  // namespace

ConfResult<stitch::RangesOptions> read_vmm_stitch_conf(std::string_view text) {
  return conf_format()(text);
}

BackendEntry vmm_stitch_entry() {
  return {.name = "vmm_stitch",
          .summary = "our own: requests are stitched from scattered physical chunks by mapping",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .honours_memory_limit = true,
                           .alignment_bytes = 512},
          .conf_keys = conf_format().key_names(),
          .check_conf = conf_checker(read_vmm_stitch_conf),
          .make = conf_maker(read_vmm_stitch_conf, make)};
}

}  // namespace allocmark
