#include "harness/tools/why/why.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "allocators/caching/config.h"
#include "allocators/caching/sizes.h"
#include "allocators/conf/conf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/recorded/releases.h"
#include "harness/core/search/advice.h"
#include "harness/tools/why/frame_rules.h"

namespace allocmark {
namespace {

using caching::BlockState;
using caching::PoolKind;
using caching::SegmentInfo;

constexpr double kSafeShare = 0.95;  // a setting that reserves more of the card is no safe advice

bool is_usable(const OomPicture& oom, const SegmentInfo& segment, caching::Stream stream) {
  const bool small = caching::is_small(oom.size_bytes);
  return segment.stream == stream && (segment.kind == PoolKind::Small) == small;
}

OomShares share_out(const MemorySnapshot& snapshot, const OomPicture& oom) {
  OomShares shares;
  const caching::Stream stream = snapshot.streams[oom.stream];
  for (const auto& [pool, segments] : oom.pools) {
    PoolShare share{.pool = pool};
    for (const SegmentInfo& segment : segments) {
      share.reserved_bytes += segment.total_bytes;
      share.live_bytes += segment.allocated_bytes;
      share.free_bytes += segment.total_bytes - segment.active_bytes;
      shares.reserved_bytes += segment.total_bytes;
      shares.live_bytes += segment.allocated_bytes;
      shares.waiting_bytes += segment.active_bytes - segment.allocated_bytes;
      for (const caching::BlockInfo& block : segment.blocks) {
        if (block.state == BlockState::ActiveAllocated)
          shares.live_requested_bytes += block.requested_bytes;
        if (block.state != BlockState::Inactive) continue;
        if (pool != oom.pool) {
          (pool == 0 ? shares.common_pool_bytes : shares.other_pool_bytes) += block.size_bytes;
        } else if (is_usable(oom, segment, stream)) {
          shares.usable_bytes += block.size_bytes;
          shares.usable_largest_bytes = std::max(shares.usable_largest_bytes, block.size_bytes);
          ++shares.usable_count;
        } else if (segment.stream != stream) {
          shares.other_stream_bytes += block.size_bytes;
        } else {
          shares.other_class_bytes += block.size_bytes;
        }
      }
    }
    if (pool != 0 && share.reserved_bytes > 0) shares.pools.push_back(share);
  }
  std::ranges::stable_sort(shares.pools, std::greater<>(), &PoolShare::free_bytes);
  return shares;
}

std::vector<BlockRun> runs_of(const SegmentInfo& segment) {
  std::vector<BlockRun> runs;
  for (const caching::BlockInfo& block : segment.blocks) {
    if (runs.empty() || runs.back().state != block.state) runs.push_back({.state = block.state});
    runs.back().size_bytes += block.size_bytes;
  }
  return runs;
}

std::vector<HeldSegment> held_segments(const MemorySnapshot& snapshot, const OomPicture& oom) {
  std::vector<HeldSegment> held;
  for (const auto& [pool, segments] : oom.pools) {
    for (const SegmentInfo& segment : segments) {
      HeldSegment entry{.size_bytes = segment.total_bytes,
                        .free_bytes = segment.total_bytes - segment.active_bytes};
      entry.usable = pool == oom.pool && is_usable(oom, segment, snapshot.streams[oom.stream]);
      std::uint64_t largest_address = 0;
      for (const caching::BlockInfo& block : segment.blocks) {
        if (block.state == BlockState::Inactive) continue;
        ++entry.block_count;
        if (block.size_bytes <= entry.block_bytes) continue;
        entry.block_bytes = block.size_bytes;
        largest_address = block.address;
      }
      if (entry.free_bytes == 0 || entry.block_count == 0) continue;
      const auto stack = oom.stacks.find(largest_address);
      if (stack != oom.stacks.end()) entry.holder = own_frames(snapshot, stack->second);
      entry.runs = runs_of(segment);
      held.push_back(std::move(entry));
    }
  }
  std::ranges::stable_sort(held, std::greater<>(), &HeldSegment::free_bytes);
  if (held.size() > kHeldCountMax) held.resize(kHeldCountMax);
  return held;
}

// The device had a segment for the request that failed, so it did not refuse it.
void find_limit(Why& why) {
  if (!why.check.last_oom) return;
  const OomPicture& oom = *why.check.last_oom;
  if (oom.device_free_bytes < caching::segment_size(oom.size_bytes, why.recorded.settings)) return;
  const double fraction = why.recorded.settings.per_process_memory_fraction;
  why.limit =
      fmt::format("while {} were free on the device: {}", format_bytes(oom.device_free_bytes),
                  fraction < 1 ? fmt::format("per_process_memory_fraction:{:g}, the limit "
                                             "of the process, refused it",
                                             fraction)
                               : "a limit refused it, of the process (a memory fraction "
                                 "that the program set) or outside PyTorch");
}

// The device's free bytes tell its size where it was the device that had no more; else a limit of
// the process lies between what was held and what was refused.
void find_capacity(Why& why, const WhyOptions& options) {
  if (options.memory_bytes) {
    why.capacity_bytes = why.capacity_bytes_max = *options.memory_bytes;
    why.capacity_source = "as given";
    return;
  }
  if (!why.check.last_oom) {
    why.capacity_source = "no request failed, so the card's size is not known";
    return;
  }
  const OomPicture& oom = *why.check.last_oom;
  const std::uint64_t segment_bytes = caching::segment_size(oom.size_bytes, why.recorded.settings);
  const std::uint64_t device_bytes = why.shares->reserved_bytes + oom.device_free_bytes;
  if (oom.device_free_bytes < segment_bytes && device_bytes >= why.check.reserved_bytes_peak) {
    why.capacity_bytes = why.capacity_bytes_max = device_bytes;
    why.capacity_source =
        fmt::format("{} reserved and {} free on the device when it failed",
                    format_bytes(why.shares->reserved_bytes), format_bytes(oom.device_free_bytes));
    return;
  }
  const double fraction = why.recorded.settings.per_process_memory_fraction;
  if (fraction < 1 && device_bytes >= why.check.reserved_bytes_peak) {
    // The fraction is a setting, which others do not have: they get what the device had.
    why.capacity_bytes = why.capacity_bytes_max = device_bytes;
    why.capacity_source = fmt::format(
        "{} reserved and {} free on the device when it failed; per_process_memory_fraction:{:g} "
        "stopped it below {}",
        format_bytes(why.shares->reserved_bytes), format_bytes(oom.device_free_bytes), fraction,
        format_bytes(why.check.refused_bytes_min));
    return;
  }
  why.capacity_bytes = why.check.reserved_bytes_peak;
  why.capacity_bytes_max = why.check.refused_bytes_min;
  why.capacity_source =
      fmt::format("the most that was ever reserved; a limit of the process stopped it below {}",
                  format_bytes(why.check.refused_bytes_min));
}

// The recorded settings with a fraction that comes, of this capacity, to a limit as the recording
// shows it: at least what was reserved, and below what was refused. The fraction was one of the
// card's total, which a snapshot does not have.
caching::Settings with_recorded_limit(const Why& why) {
  caching::Settings settings = why.recorded.settings;
  if (settings.per_process_memory_fraction >= 1 || why.capacity_bytes > kTiB) return settings;
  const auto total = static_cast<double>(why.capacity_bytes);
  const std::uint64_t high_bytes =
      std::max(why.check.refused_bytes_min, why.check.reserved_bytes_peak + 1) - 1;
  const double limit = std::clamp(settings.per_process_memory_fraction * total,
                                  static_cast<double>(why.check.reserved_bytes_peak),
                                  static_cast<double>(high_bytes));
  settings.per_process_memory_fraction = std::min(1.0, limit / total);
  return settings;
}

void try_settings(Why& why, const DeviceHistory& history, std::vector<std::string> confs,
                  bool memory_given) {
  if (std::ranges::find(confs, why.recorded.conf) == confs.end())
    confs.insert(confs.begin(), why.recorded.conf);
  std::vector<caching::Settings> settings;
  for (const std::string& conf : confs) {
    const caching::StrictConfig config = caching::parse_strict(conf, *why.recorded.settings.rules);
    if (config.error && conf != why.recorded.conf)
      throw UsageError(
          told_conf_error(*config.error, "--conf", conf, why.recorded.settings.rules->allocator()));
    settings.push_back(conf != why.recorded.conf ? config.settings
                       : memory_given            ? why.recorded.settings
                                                 : with_recorded_limit(why));
  }
  std::vector<WhatIf> results = replay_on_card(history, why.check, settings, why.capacity_bytes);
  for (std::size_t i = 0; i < confs.size(); ++i) {
    WhatIf& result = results[i];
    result.conf = confs[i];
    // With the card as it was, what was recorded counts.
    if (confs[i] == why.recorded.conf && !memory_given)
      result.failed_count = std::max(result.failed_count, why.check.oom_count);
    why.settings.push_back(std::move(result));
  }
}

// Its reserved peak leaves too little of the card.
bool is_narrow(const Why& why, const WhatIf& entry) {
  if (why.capacity_bytes >= kNoLimit) return false;
  const double safe_bytes = kSafeShare * static_cast<double>(why.capacity_bytes);
  return static_cast<double>(entry.reserved_bytes_peak) > safe_bytes;
}

// Places in the order of 'advise'.
std::vector<std::size_t> cost_order(const std::vector<WhatIf>& settings) {
  std::vector<SettingFacts> facts;
  for (const WhatIf& entry : settings) {
    constexpr double kCallNs = 1e5;  // that differ by a call differ
    facts.push_back({.conf = entry.conf,
                     .driver_ns_per_step = entry.simulated
                                               ? entry.simulated->driver_ns_per_step
                                               : kCallNs * static_cast<double>(entry.call_count),
                     .least_bytes = entry.reserved_bytes_peak});
  }
  return ranked_by_cost(facts);
}

void note_dangers(Why& why, std::vector<std::string> confs) {
  confs.insert(confs.begin(), why.recorded.conf);
  const std::vector<std::string> notes =
      danger_notes(confs, *why.recorded.settings.rules, why.release_given);
  why.notes.insert(why.notes.end(), notes.begin(), notes.end());
}

std::uint64_t live_peak(const DeviceHistory& history) {
  std::uint64_t live_bytes = 0, peak_bytes = 0;
  for (const EarlierBlock& block : history.earlier_blocks())
    live_bytes += block.pending ? 0 : block.requested_bytes;
  for (std::uint64_t i = 0; i < history.size(); ++i) {
    const SnapshotEntry& entry = history[i];
    peak_bytes = std::max(peak_bytes, live_bytes);
    if (entry.action == SnapshotAction::Alloc) live_bytes += entry.size_bytes;
    // A history that does not hold together may give back more than it had.
    if (entry.action == SnapshotAction::FreeRequested)
      live_bytes -= std::min(live_bytes, entry.size_bytes);
    if (entry.action == SnapshotAction::Oom)
      peak_bytes = std::max(peak_bytes, live_bytes + entry.size_bytes);
  }
  return std::max(peak_bytes, live_bytes);
}

}  // namespace

void rank_settings(Why* why) {
  std::vector<WhatIf> ranked;
  for (const std::size_t place : cost_order(why->settings)) ranked.push_back(why->settings[place]);
  std::ranges::stable_sort(ranked, {}, [&](const WhatIf& entry) {
    return std::tuple(entry.failed_count_max(), is_narrow(*why, entry));
  });
  why->settings = std::move(ranked);
}

Why explain_snapshot(const std::string& path, const WhyOptions& options) {
  Why why;
  why.snapshot = std::make_unique<const MemorySnapshot>(read_memory_snapshot(path));
  const MemorySnapshot& snapshot = *why.snapshot;
  const std::size_t device = snapshot.main_device();
  if (snapshot.entry_count(device) == 0) throw_without_history(snapshot);
  why.history = std::make_unique<const DeviceHistory>(snapshot, device);
  const DeviceHistory& history = *why.history;
  why.notes = history.notes();
  why.pool_alloc_count = history.facts().pool_alloc_count;
  auto [recorded, check] = recognise(history, snapshot.settings, options.release);
  why.recorded = std::move(recorded);
  why.check = std::move(check);
  why.release_given = options.release != nullptr;
  note_dangers(why, options.confs);
  if (why.check.last_oom) {
    why.shares = share_out(snapshot, *why.check.last_oom);
    why.held = held_segments(snapshot, *why.check.last_oom);
    // All that is known of each block is not needed any more.
    why.check.last_oom->pools = {};
    why.check.last_oom->stacks = {};
  }
  why.owners = find_owners(
      history, why.check.last_oom ? std::optional(why.check.last_oom->entry_index) : std::nullopt);
  why.live_bytes_peak = live_peak(history);
  find_capacity(why, options);
  if (!options.memory_bytes) find_limit(why);
  // What the self-check had; the replays on other threads would take new memory beside it.
  malloc_trim(0);
  try_settings(
      why, history,
      options.confs.empty() ? candidate_confs(*why.recorded.settings.rules) : options.confs,
      options.memory_bytes.has_value());
  rank_settings(&why);
  return why;
}

}  // namespace allocmark
