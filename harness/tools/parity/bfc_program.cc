// See bfc_program.h.
#include "harness/tools/parity/bfc_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "allocators/bfc/bfc.h"
#include "allocators/plugins/bfc_library.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"

namespace allocmark {
namespace {

using bfc::End;
using bfc::HeapOptions;
using bfc::Region;
using bfc::Request;

constexpr std::uint64_t kOptionsSeed = 0x626663;  // apart from the operations' numbers
constexpr std::uint64_t kSourceSeed = 0x736f7572;
constexpr std::size_t kLiveMax = 3000;
constexpr std::uint64_t kMapInterval = 1000;

// From 2^low to 2^high, each power as often as the next.
std::uint64_t log_uniform(Random& random, std::uint64_t low, std::uint64_t high) {
  const std::uint64_t power = std::uint64_t{1} << random.between(low, high - 1);
  return power + random.below(power);
}

bfc::EndPolicy random_policy(Random& random) {
  const auto split = [&] {
    return random.below(2) == 0 ? bfc::Split::Exact : bfc::Split::RetainPadding;
  };
  return {.descending = random.below(2) == 0, .hole = split(), .gap = split()};
}

std::string policy_text(const bfc::EndPolicy& policy) {
  return fmt::format("{}/{}/{}", policy.descending ? "descending" : "ascending",
                     policy.hole == bfc::Split::Exact ? "exact" : "padded",
                     policy.gap == bfc::Split::Exact ? "exact" : "padded");
}

std::string text_of(const HeapOptions& options) {
  std::string text =
      fmt::format("limit {} B, growth {}, collection {}, fraction {}, joins {}, timestamps {}",
                  options.limit_bytes, options.allow_growth, options.garbage_collection,
                  options.fragmentation_fraction, options.joins_regions, options.timestamps);
  if (options.spatial_partitioning) {
    text += fmt::format(", two ends: {} and {}", policy_text(options.lower),
                        policy_text(options.upper));
  }
  return text;
}

// Memory that is numbers. Two with the same seed answer the same calls in the same way.
class NumberSource final : public bfc::Source {
 public:
  NumberSource(std::uint64_t seed, std::uint64_t room_bytes)
      : random_(seed ^ kSourceSeed),
        room_bytes_(room_bytes),
        kept_bytes_(random_.below(4) == 0 ? 0 : 4 * kKiB) {}

  std::optional<Region> take(std::uint64_t alignment_bytes, std::uint64_t size_bytes) override {
    note(size_bytes ^ std::rotl(alignment_bytes, 32));
    const bool is_refused = size_bytes > kept_bytes_ && size_bytes > room_bytes_ - used_bytes_;
    if (is_refused) return std::nullopt;
    used_bytes_ = std::min(room_bytes_, used_bytes_ + size_bytes);
    const Region region{.address = place(alignment_bytes, size_bytes), .size_bytes = size_bytes};
    note(region.address);
    return region;
  }
  void give(const Region& region) override {
    note(~region.address);
    note(region.size_bytes);
    used_bytes_ -= std::min(used_bytes_, region.size_bytes);
  }

  // Of all calls so far, in their order.
  [[nodiscard]] std::uint64_t calls_hash() const { return calls_hash_; }

 private:
  void note(std::uint64_t value) {
    calls_hash_ = (std::rotl(calls_hash_, 7) ^ value) * 0x9E3779B97F4A7C15U;
  }

  // Above or below all others, often right behind the last one above.
  std::uint64_t place(std::uint64_t alignment_bytes, std::uint64_t size_bytes) {
    const std::uint64_t kind = random_.below(8);
    const std::uint64_t room = bfc::rounded(size_bytes) + (kind < 4 ? 0 : random_.below(9) * kMiB);
    // Some devices give more than 256 B of alignment only where they are asked for it.
    const std::uint64_t grain =
        kind == 5 ? bfc::kGrainBytes : std::max(alignment_bytes, bfc::kGrainBytes);
    if (kind < 6) {
      const std::uint64_t address = (top_ + grain - 1) / grain * grain;
      top_ = address + room;
      return address;
    }
    bottom_ = (bottom_ - room) / grain * grain;
    return bottom_;
  }

  Random random_;
  std::uint64_t room_bytes_;
  // So little is never refused, as a rule: TensorFlow 2.21 would ask for ever.
  std::uint64_t kept_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t top_ = (kTiB << 6) + 3 * bfc::kGrainBytes;
  std::uint64_t bottom_ = (kTiB << 6) - 5 * bfc::kGrainBytes;
  std::uint64_t calls_hash_ = 0;
};

AllocmarkBfcCounters counters_of(const bfc::Heap& heap) {
  const bfc::HeapCounters& counters = heap.counters();
  return {.num_allocs = counters.num_allocs,
          .bytes_in_use = counters.bytes_in_use,
          .peak_bytes_in_use = counters.peak_bytes_in_use,
          .largest_alloc_size = counters.largest_alloc_size,
          .pool_bytes = counters.pool_bytes,
          .peak_pool_bytes = counters.peak_pool_bytes};
}

std::string text_of(const AllocmarkBfcCounters& c) {
  return fmt::format(
      "num_allocs={} bytes_in_use={} peak_bytes_in_use={} largest_alloc_size={} pool_bytes={} "
      "peak_pool_bytes={}",
      c.num_allocs, c.bytes_in_use, c.peak_bytes_in_use, c.largest_alloc_size, c.pool_bytes,
      c.peak_pool_bytes);
}
constexpr std::uint64_t kCounterCount = sizeof(AllocmarkBfcCounters) / sizeof(std::int64_t);

bool equal(const AllocmarkBfcCounters& a, const AllocmarkBfcCounters& b) {
  using Values = std::array<std::int64_t, kCounterCount>;
  return std::bit_cast<Values>(a) == std::bit_cast<Values>(b);
}

std::vector<AllocmarkBfcMapped> map_of(const bfc::Heap& heap) {
  const bfc::Chunks& chunks = heap.chunks();
  std::vector<AllocmarkBfcMapped> mapped;
  for (const Region& region : chunks.regions()) {
    for (bfc::Handle at = chunks.find(region.address); at != bfc::kNoChunk;
         at = chunks.at(at).next) {
      const bfc::Chunk& chunk = chunks.at(at);
      mapped.push_back({.address = chunk.address,
                        .size_bytes = chunk.size_bytes,
                        .requested_bytes = chunk.requested_bytes,
                        .freed_at = chunk.in_use() ? 0 : chunk.freed_at,
                        .in_use = chunk.in_use() ? 1 : 0,
                        .bin = chunk.bin});
    }
  }
  return mapped;
}

std::string text_of(const AllocmarkBfcMapped& chunk) {
  return fmt::format("{} B (asked {}) at {:#x}, {}, bin {}, freed at {}", chunk.size_bytes,
                     chunk.requested_bytes, chunk.address, chunk.in_use != 0 ? "in use" : "free",
                     chunk.bin, chunk.freed_at);
}

// Whether a function ends the process, or does not come back; tried in a copy of the process.
bool never_returns(const std::function<void()>& function) {
  constexpr unsigned kSecondsMax = 1;
  const pid_t copy = fork();
  if (copy == 0) {
    close(STDERR_FILENO);
    alarm(kSecondsMax);
    function();
    _exit(0);
  }
  int status = 0;
  waitpid(copy, &status, 0);
  return WIFSIGNALED(status);
}

std::string text_of(std::optional<std::uint64_t> address, const AllocmarkBfcChunk& chunk) {
  if (!address) return "refused";
  return fmt::format("{} B of {} B at {:#x}, number {}", chunk.requested_bytes, chunk.size_bytes,
                     *address, chunk.allocation_id);
}

// Room for the regions: as much as the limit, or less in some programs. Two ends need one region.
std::uint64_t room_of(const PairProgram& program, const HeapOptions& options) {
  Random random(program.seed ^ kSourceSeed);
  const bool is_short = !options.spatial_partitioning && random.below(3) == 0;
  return is_short ? options.limit_bytes / 16 * random.between(4, 15) : options.limit_bytes;
}

class HeapPair {
 public:
  HeapPair(const PairProgram& program, const std::string& plugin_path)
      : options_(bfc_options(program)),
        random_(program.seed),
        their_source_(program.seed, room_of(program, options_)),
        our_source_(program.seed, room_of(program, options_)),
        theirs_(std::in_place, plugin_path, program.rules, options_, their_source_),
        ours_(std::in_place, options_, our_source_),
        size_power_max_(std::bit_width(options_.limit_bytes) - random_.between(1, 8)),
        alignment_power_max_(random_.below(2) == 0 ? 6 : random_.between(8, 21)) {
    result_.setting = text_of(options_);
  }

  PairResult run(std::uint64_t operation_count) {
    while (result_.operation.empty() && !result_.has_ended &&
           result_.operation_count < operation_count) {
      act();
      ++result_.operation_count;
      if (result_.operation.empty() && !result_.has_ended) compare_state();
    }
    finish();
    return std::move(result_);
  }

 private:
  void act() {
    const std::uint64_t kind = random_.below(1000);
    // Programs fill the memory and empty it again.
    const std::uint64_t allocations = result_.operation_count / 1024 % 2 == 0 ? 620 : 380;
    if (options_.timestamps && kind >= 980) return advance();
    if (kind == 979) return clear();
    if (live_.empty() || (kind < allocations && live_.size() < kLiveMax)) return allocate();
    deallocate();
  }

  void allocate() {
    const Request request{
        .size_bytes = log_uniform(random_, 0, size_power_max_),
        .alignment_bytes = std::uint64_t{1} << random_.between(0, alignment_power_max_),
        .freed_before = freed_before(),
        .end = options_.spatial_partitioning && random_.below(2) == 0 ? End::Upper : End::Lower};
    operation_ = fmt::format("request of {} B on {} B, before {}, end {}", request.size_bytes,
                             request.alignment_bytes, request.freed_before,
                             request.end == End::Upper ? "upper" : "lower");
    std::optional<std::uint64_t> our;
    std::optional<std::uint64_t> their;
    if (!both([&] { our = ours_->allocate(request); }, [&] { their = theirs_->allocate(request); }))
      return;
    const AllocmarkBfcChunk their_chunk = their ? theirs_->chunk_of(*their) : AllocmarkBfcChunk{};
    AllocmarkBfcChunk our_chunk{};
    if (our) {
      const bfc::Chunk& chunk = ours_->chunk_of(*our);
      our_chunk = {.size_bytes = chunk.size_bytes,
                   .requested_bytes = chunk.requested_bytes,
                   .allocation_id = chunk.allocation_id};
    }
    std::string theirs = text_of(their, their_chunk);
    std::string ours = text_of(our, our_chunk);
    if (theirs != ours) return differs(std::move(theirs), std::move(ours));
    if (our) live_.push_back(*our);
    ++result_.counts[our ? "blocks" : "refusals"];
  }

  std::uint64_t freed_before() {
    if (!options_.timestamps || free_count_ == 0 || random_.below(3) != 0) return 0;
    return random_.between(1, free_count_);
  }

  void deallocate() {
    const std::size_t index = random_.below(live_.size());
    const std::uint64_t address = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    operation_ = fmt::format("free of {:#x}", address);
    if (both([&] { ours_->deallocate(address); }, [&] { theirs_->deallocate(address); }))
      ++free_count_;
  }

  // Ours first: where it finds that the original ends the process here, or hangs, that is tried in
  // a copy.
  bool both(const std::function<void()>& ours, const std::function<void()>& theirs) {
    const std::uint64_t endless_count = ours_->endless_count();
    std::string end;
    try {
      ours();
      if (ours_->endless_count() > endless_count) end = "it asks for memory for ever";
    } catch (const EnvironmentError& error) {
      end = error.what();
    }
    if (end.empty()) {
      theirs();
      return true;
    }
    result_.has_ended = true;
    if (!never_returns(theirs)) differs("the process goes on", end);
    return false;
  }

  void advance() {
    const std::uint64_t count = random_.below(free_count_ + 2);
    operation_ = fmt::format("safe frontier {}", count);
    theirs_->set_safe_frontier(count);
    ours_->set_safe_frontier(count);
  }

  void clear() {
    operation_ = "clear";
    theirs_->clear_peaks();
    ours_->clear_peaks();
  }

  void compare_state() {
    if (result_.operation_count % kMapInterval == 0) compare_maps();
    result_.counts["counters"] += kCounterCount;
    const AllocmarkBfcCounters their = theirs_->counters();
    const AllocmarkBfcCounters our = counters_of(*ours_);
    if (!equal(their, our)) return differs(text_of(their), text_of(our));
    if (their_source_.calls_hash() != our_source_.calls_hash())
      differs("other calls of the device", "these calls");
  }

  void compare_maps() {
    const std::vector<AllocmarkBfcMapped> their = theirs_->map();
    const std::vector<AllocmarkBfcMapped> our = map_of(*ours_);
    result_.counts["chunks"] += our.size();
    for (std::size_t index = 0; index < std::max(their.size(), our.size()); ++index) {
      const std::string theirs = index < their.size() ? text_of(their[index]) : "no chunk";
      const std::string ours = index < our.size() ? text_of(our[index]) : "no chunk";
      if (theirs != ours) return differs(theirs, ours);
    }
  }

  void finish() {
    result_.counts["regions"] = ours_->region_count();
    result_.counts["collected"] = ours_->collected_count();
    if (!result_.operation.empty() || result_.has_ended) return;
    operation_ = "end";
    theirs_.reset();
    ours_.reset();
    if (their_source_.calls_hash() != our_source_.calls_hash())
      differs("other regions given back", "these regions");
  }

  void differs(std::string theirs, std::string ours) {
    result_.differs(operation_, std::move(theirs), std::move(ours));
  }

  HeapOptions options_;
  Random random_;
  NumberSource their_source_;
  NumberSource our_source_;
  std::optional<BfcLibrary> theirs_;
  std::optional<bfc::Heap> ours_;
  std::uint64_t size_power_max_;
  std::uint64_t alignment_power_max_;
  std::vector<std::uint64_t> live_;
  std::uint64_t free_count_ = 0;
  std::string operation_;
  PairResult result_;
};

}  // namespace

HeapOptions bfc_options(const PairProgram& program) {
  Random random(program.seed ^ kOptionsSeed);
  HeapOptions options = bfc::rules_of(program.rules);
  options.allow_growth = random.below(2) == 0;
  options.garbage_collection = random.below(2) == 0;
  // The original fills 8 B of an index for each 256 B of a region that it takes.
  const bool is_large = !options.garbage_collection && random.below(6) == 0;
  options.limit_bytes = log_uniform(random, 20, is_large ? 36 : 31);
  if (random.below(2) == 0)
    options.limit_bytes = (options.limit_bytes + 2 * kMiB) / (2 * kMiB) * 2 * kMiB;
  options.fragmentation_fraction = random.below(2) == 0 ? 0 : random.unit() * random.unit() / 2;
  options.joins_regions = random.below(2) == 0;
  // With both, TensorFlow may look for a chunk in a region that is gone, and ends the process.
  options.timestamps = !options.garbage_collection && random.below(3) == 0;
  const bool has_two_ends = options.aligns && random.below(2) == 0;
  options.spatial_partitioning = has_two_ends;
  if (has_two_ends) options.allow_growth = false;
  if (has_two_ends && random.below(2) == 0) return options;  // XLA's own policies
  options.lower = options.aligns ? random_policy(random) : bfc::EndPolicy{};
  options.upper = options.aligns ? random_policy(random) : bfc::EndPolicy{};
  return options;
}

PairResult compare_bfc(const PairProgram& program, const std::string& plugin_path) {
  return HeapPair(program, plugin_path).run(program.operation_count);
}

}  // namespace allocmark
