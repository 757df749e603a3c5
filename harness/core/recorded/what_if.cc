#include "harness/core/recorded/what_if.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "allocators/caching/config.h"
#include "harness/core/recorded/card_driver.h"
#include "harness/core/recorded/in_parallel.h"
#include "harness/core/recorded/late_streams.h"
#include "harness/core/recorded/pooled_allocator.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/import/snapshot_restores.h"

namespace allocmark {
namespace {

constexpr std::array kAllAddresses = {CardDriver::Addresses::H200, CardDriver::Addresses::Up,
                                      CardDriver::Addresses::Down};

constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

// What all replays need and none changes: it takes a walk over the whole history each.
struct Facts {
  Facts(const DeviceHistory& of, const SelfCheck& known)
      : history(of),
        late(of.late_frees(), known.frees_waited),
        earlier_blocks(of.earlier_blocks()),
        pools(entry_pools(of, known.pools)),
        restores(find_restores(of, known.pools)) {
    number_blocks();
  }
  void number_blocks();
  [[nodiscard]] std::uint32_t pool_of(std::uint64_t index) const {
    return pools.empty() ? 0 : pools[index];
  }

  const DeviceHistory& history;
  LateStreams late;
  const std::vector<EarlierBlock>& earlier_blocks;
  std::vector<std::uint16_t> pools;  // by entry; empty: all of the common one
  Restores restores;
  // Blocks have small numbers in place of their addresses, given again when a block is gone: those
  // of earlier_blocks their places there, those of entries the numbers here.
  std::vector<std::uint32_t> slots;
  std::uint32_t slot_count = 0;
};

void Facts::number_blocks() {
  std::unordered_map<std::uint64_t, std::uint32_t> live;  // by recorded address
  std::vector<std::uint32_t> spare;
  for (const EarlierBlock& block : earlier_blocks) live[block.address] = slot_count++;
  slots.reserve(history.size());
  history.snapshot().for_each_entry(history.device(), [&](const SnapshotEntry& entry) {
    std::uint32_t slot = kNoSlot;
    if (entry.action == SnapshotAction::Alloc) {
      const auto [found, is_new] = live.try_emplace(entry.address, slot_count);
      if (is_new && !spare.empty()) {
        found->second = spare.back();
        spare.pop_back();
      }
      slot = found->second;
      slot_count = std::max(slot_count, slot + 1);
    } else if (entry.action == SnapshotAction::FreeRequested) {
      if (const auto found = live.find(entry.address); found != live.end()) {
        slot = found->second;
        spare.push_back(slot);
        live.erase(found);
      }
    }
    slots.push_back(slot);
  });
}

class CardReplay {
 public:
  CardReplay(const Facts& facts, const caching::Settings& settings, std::uint64_t capacity_bytes,
             CardDriver::Addresses addresses)
      : facts_(facts),
        history_(facts.history),
        card_(capacity_bytes, addresses),
        allocator_(card_, settings, limit_of(settings, capacity_bytes)),
        live_(facts.slot_count) {}

  [[nodiscard]] WhatIf run();

 private:
  // Garbage collection needs a limit; everything else needs none but the card's.
  [[nodiscard]] static std::uint64_t limit_of(const caching::Settings& settings,
                                              std::uint64_t capacity_bytes) {
    return settings.garbage_collection_threshold > 0 && capacity_bytes < kNoLimit ? capacity_bytes
                                                                                  : 0;
  }
  [[nodiscard]] std::optional<std::uint64_t> ask(std::uint32_t pool, std::uint64_t size_bytes,
                                                 std::uint64_t stream, std::uint64_t index);
  void add(const SnapshotEntry& entry, std::uint64_t index);
  void give_back(std::uint64_t index);
  void settle(std::optional<std::uint32_t> asking, bool by_program);
  [[nodiscard]] std::optional<std::uint32_t> next_asking(std::uint64_t index) const;

  const Facts& facts_;
  const DeviceHistory& history_;
  CardDriver card_;
  PooledAllocator allocator_;
  std::vector<std::uint64_t> live_;    // addresses by slot; 0: its request failed, or there is none
  std::uint64_t operation_begin_ = 0;  // first entry after the last request or free
  std::set<std::uint32_t> released_pools_;  // since the last request or free
  WhatIf result_;
};

std::optional<std::uint64_t> CardReplay::ask(std::uint32_t pool, std::uint64_t size_bytes,
                                             std::uint64_t stream, std::uint64_t index) {
  if (size_bytes == 0) return std::nullopt;
  const auto address = allocator_.allocate(pool, size_bytes, stream);
  if (address) return address;
  if (result_.failed_count++ == 0) {
    result_.first_failed_entry = index;
    result_.first_failed_bytes = size_bytes;
  }
  return std::nullopt;
}

void CardReplay::give_back(std::uint64_t index) {
  const std::uint32_t slot = facts_.slots[index];
  if (slot == kNoSlot || live_[slot] == 0) return;
  const std::uint64_t address = live_[slot];
  live_[slot] = 0;
  if (const LateStreams::Late* late = facts_.late.find(index)) {
    card_.expect_event(late->completed_index);
    static_cast<void>(allocator_.get().record_stream(address, LateStreams::handle(late->stream)));
  }
  static_cast<void>(allocator_.get().deallocate(address));
}

// Pools that gave memory back before this request, or for nobody's: their use has ended, unless the
// request is for them. What the program emptied is emptied here: all, or some pools alone. A
// request of a private pool comes after an empty_cache, too: a capture gives nothing back.
void CardReplay::settle(std::optional<std::uint32_t> asking, bool by_program) {
  if (released_pools_.empty()) return;
  const bool common = released_pools_.contains(0);
  const bool emptied = by_program || asking.value_or(0) != 0;
  for (const std::uint32_t pool : released_pools_) {
    if (pool == 0 || pool == asking) continue;
    allocator_.end_use(pool);
    if (emptied && !common) allocator_.empty_pool(pool);
  }
  if (emptied && common) allocator_.get().empty_cache();
  released_pools_.clear();
}

void CardReplay::add(const SnapshotEntry& entry, std::uint64_t index) {
  const std::uint32_t pool = facts_.pool_of(index);
  const std::uint64_t stream = history_.snapshot().streams[entry.stream];
  // Blocks that became free while a request failed were not looked at again.
  card_.move_to(entry.action == SnapshotAction::Oom ? operation_begin_ : index);
  if (is_request(entry.action)) operation_begin_ = index + 1;
  switch (entry.action) {
    case SnapshotAction::Alloc:
      settle(pool, false);
      // Of a pool that is put back only what stays is asked for again.
      if (const bool* const stays = facts_.restores.find(index); stays != nullptr && !*stays)
        return;
      if (const auto address = ask(pool, entry.size_bytes, stream, index))
        live_[facts_.slots[index]] = *address;
      return;
    case SnapshotAction::Oom:
      settle(pool, false);
      // Its owner never had it; where it is served, what follows is the program after a failure.
      if (const auto address = ask(pool, entry.size_bytes, stream, index))
        static_cast<void>(allocator_.get().deallocate(*address));
      return;
    case SnapshotAction::FreeRequested:
      return give_back(index);
    case SnapshotAction::SegmentFree:
    case SnapshotAction::SegmentUnmap:
      released_pools_.insert(pool);
      if (history_.is_empty_cache(index + 1)) settle(next_asking(index + 1), true);
      return;
    default:
      return;
  }
}

// The pool of the next request; nothing where a free comes first, or the end.
std::optional<std::uint32_t> CardReplay::next_asking(std::uint64_t index) const {
  while (index < history_.size() && !is_request(history_[index].action)) ++index;
  if (index == history_.size() || history_[index].action == SnapshotAction::FreeRequested)
    return std::nullopt;
  return facts_.pool_of(index);
}

WhatIf CardReplay::run() {
  for (std::size_t i = 0; i < facts_.earlier_blocks.size(); ++i) {
    const EarlierBlock& block = facts_.earlier_blocks[i];
    if (block.pending) continue;
    const std::uint64_t stream = history_.snapshot().streams[block.stream];
    if (const auto address = ask(block.pool, block.requested_bytes, stream, 0)) live_[i] = *address;
  }
  std::uint64_t index = 0;
  history_.snapshot().for_each_entry(history_.device(),
                                     [&](const SnapshotEntry& entry) { add(entry, index++); });
  result_.reserved_bytes_peak = card_.used_bytes_peak();
  result_.call_count = card_.call_count();
  return result_;
}

void keep_worse(WhatIf& worst, const WhatIf& result) {
  if (result.failed_count > worst.failed_count) {
    worst.failed_count = result.failed_count;
    worst.first_failed_entry = result.first_failed_entry;
    worst.first_failed_bytes = result.first_failed_bytes;
  }
  worst.reserved_bytes_peak = std::max(worst.reserved_bytes_peak, result.reserved_bytes_peak);
  worst.call_count = std::max(worst.call_count, result.call_count);
}

// As many as there are processors, unless so many blocks are live that their memory is too much.
std::size_t thread_count_max(const Facts& facts) {
  constexpr std::size_t kBytesMax = std::size_t{384} << 20;
  constexpr std::size_t kBlockBytes = 180;  // of a live block, in one replay
  const std::size_t replay_bytes = kBlockBytes * std::max<std::size_t>(facts.slot_count, 1);
  return std::clamp<std::size_t>(kBytesMax / replay_bytes, 1,
                                 std::max(std::thread::hardware_concurrency(), 1U));
}

// In which the card's segments may come. Where blocks of one size are told apart by their order,
// addresses only say which blocks of a segment are neighbours: one is as good as all.
std::span<const CardDriver::Addresses> orders_of_addresses(const caching::Settings& settings) {
  const bool by_address =
      settings.expandable_segments || settings.rules->tie_break == caching::TieBreak::Address;
  return std::span(kAllAddresses).first(by_address ? kAllAddresses.size() : 1);
}

}  // namespace

std::vector<WhatIf> replay_on_card(const DeviceHistory& history, const SelfCheck& known,
                                   std::span<const caching::Settings> settings,
                                   std::uint64_t capacity_bytes) {
  const Facts facts(history, known);
  struct Replay {
    std::size_t setting = 0;
    CardDriver::Addresses addresses = {};
    WhatIf result = {};
  };
  std::vector<Replay> replays;
  for (std::size_t setting = 0; setting < settings.size(); ++setting) {
    for (const CardDriver::Addresses addresses : orders_of_addresses(settings[setting]))
      replays.push_back({.setting = setting, .addresses = addresses});
  }
  for_each_in_parallel(replays.size(), thread_count_max(facts), [&](std::size_t i) {
    Replay& one = replays[i];
    one.result = CardReplay(facts, settings[one.setting], capacity_bytes, one.addresses).run();
  });
  std::vector<WhatIf> worst(settings.size());
  for (const Replay& one : replays) keep_worse(worst[one.setting], one.result);
  return worst;
}

std::vector<std::string> candidate_confs(const caching::Rules& release) {
  std::vector<std::string> confs{"",
                                 "expandable_segments:True",
                                 "max_split_size_mb:64",
                                 "max_split_size_mb:128",
                                 "max_split_size_mb:256",
                                 "max_split_size_mb:512",
                                 "roundup_power2_divisions:4",
                                 "max_split_size_mb:128,roundup_power2_divisions:8",
                                 "expandable_segments:True,roundup_power2_divisions:8",
                                 "large_segment_size_mb:64"};
  std::erase_if(confs, [&](const std::string& conf) {
    return caching::parse_strict(conf, release).error.has_value();
  });
  return confs;
}

}  // namespace allocmark
