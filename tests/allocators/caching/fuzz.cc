#include "tests/allocators/caching/fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <unordered_map>

#include "allocators/caching/allocator.h"
#include "allocators/caching/config.h"
#include "base/bytes.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/allocators/caching/reference_model.h"

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kDeviceTotal = 640 * kMiB;

Settings settings_of(const std::string& conf, const Rules& rules) {
  const PytorchConfig config = parse_pytorch(conf, rules);
  if (!config.accepted()) throw std::runtime_error("config string " + conf + ": " + config.error);
  return config.settings;
}

std::uint64_t capacity_of(const Program& program) {
  return program.capacity_bytes > 0 ? program.capacity_bytes : kDeviceTotal;
}

// Allocator and model side by side, each on a device of its own.
class Pair {
 public:
  explicit Pair(const Program& program)
      : changes_(program.changes),
        real_device_(kDeviceTotal, capacity_of(program)),
        model_device_(kDeviceTotal, capacity_of(program)),
        real_(std::make_unique<CachingAllocator>(real_device_,
                                                 settings_of(program.conf, *program.rules))),
        model_(model_device_, settings_of(program.conf, *program.rules), std::nullopt) {}

  // The first difference, empty where there is none.
  std::string step(const allocmark::Event& event) {
    std::string difference = apply(event);
    if (difference.empty()) difference = compare_counters();
    if (difference.empty()) difference = compare_blocks();
    return difference;
  }

  std::string end() {
    real_.reset();
    return real_device_.is_clean() ? "" : "the device is not clean after the allocator is gone";
  }

 private:
  std::string apply(const allocmark::Event& event) {
    const auto held = addresses_.find(event.id);
    switch (event.kind) {
      case EventKind::Alloc:
        return allocate(event);
      case EventKind::Free:
        if (held == addresses_.end()) return {};
        if (!real_->deallocate(held->second)) return "a live block is unknown";
        model_.deallocate(held->second);
        addresses_.erase(held);
        return {};
      case EventKind::Record:
        if (held == addresses_.end()) return {};
        if (!real_->record_stream(held->second, event.stream)) return "a live block is unknown";
        model_.record_stream(held->second, event.stream);
        return {};
      case EventKind::Busy:
        real_device_.start_busy(event.stream);
        model_device_.start_busy(event.stream);
        return {};
      case EventKind::Sync:
        real_device_.end_busy();
        model_device_.end_busy();
        return {};
      case EventKind::Trim:
        real_->empty_cache();
        model_.empty_cache();
        return {};
      case EventKind::Mark:
        change(changes_[event.id]);
        return {};
      default:
        return "unknown step";  // private pools are beyond the model
    }
  }

  void change(const Change& change) {
    if (!change.conf)
      return change_limit(change.limit_bytes > 0 ? change.limit_bytes : std::nullopt);
    real_->change_settings(settings_of(*change.conf, *model_.settings.rules));
    model_.settings = settings_of(*change.conf, *model_.settings.rules);
  }

  void change_limit(std::optional<std::uint64_t> limit_bytes) {
    real_->change_limit(limit_bytes);
    const bool whole = !limit_bytes && model_.settings.rules->minor == 9;
    model_.limit = whole ? kDeviceTotal : limit_bytes;
  }

  std::string allocate(const allocmark::Event& event) {
    if (addresses_.contains(event.id)) return {};
    const std::optional<std::uint64_t> address = real_->allocate(event.size_bytes, event.stream);
    const std::optional<std::uint64_t> expected = model_.allocate(event.size_bytes, event.stream);
    if (address != expected) {
      return fmt::format("allocate gives {:#x}, the model {:#x} (0: out of memory)",
                         address.value_or(0), expected.value_or(0));
    }
    if (address) addresses_[event.id] = *address;
    return {};
  }

  std::string compare_counters() const {
    const Counters& counters = real_->counters();
    const ReferenceModel::Figures figures = model_.count();
    struct Compared {
      const char* name;
      const StatArray* ours;
      const std::array<std::int64_t, 2>* expected;
    };
    const Compared all[] = {
        {"allocation", &counters.allocation, &figures.allocation},
        {"allocated_bytes", &counters.allocated_bytes, &figures.allocated_bytes},
        {"active", &counters.active, &figures.active},
        {"active_bytes", &counters.active_bytes, &figures.active_bytes},
        {"requested_bytes", &counters.requested_bytes, &figures.requested_bytes},
        {"segment", &counters.segment, &figures.segment},
        {"reserved_bytes", &counters.reserved_bytes, &figures.reserved_bytes},
        {"inactive_split", &counters.inactive_split, &figures.inactive_split},
        {"inactive_split_bytes", &counters.inactive_split_bytes, &figures.inactive_split_bytes},
    };
    for (const Compared& item : all) {
      const std::int64_t small = item.ours->of(PoolKind::Small).current();
      const std::int64_t large = item.ours->of(PoolKind::Large).current();
      const bool sums = item.ours->all().current() == small + large;
      const bool balances =
          item.ours->all().allocated() - item.ours->all().freed() == item.ours->all().current();
      if (small == (*item.expected)[0] && large == (*item.expected)[1] && sums && balances)
        continue;
      return fmt::format("{} is {} + {}, the model says {} + {}", item.name, small, large,
                         (*item.expected)[0], (*item.expected)[1]);
    }
    const std::array<std::int64_t, 6> ours = {
        counters.num_alloc_retries,
        counters.num_ooms,
        counters.num_device_alloc,
        counters.num_device_free,
        counters.num_sync_all_streams,
        static_cast<std::int64_t>(real_->heap().split_release_count)};
    const std::array<std::int64_t, 6> expected = {model_.retries,       model_.failures,
                                                  model_.device_allocs, model_.device_frees,
                                                  model_.sync_alls,     model_.split_releases};
    if (ours == expected) return {};
    return fmt::format("plain counters {}, the model says {}", fmt::join(ours, "/"),
                       fmt::join(expected, "/"));
  }

  // Same blocks at the same places with the same states; and what holds of every list of blocks.
  std::string compare_blocks() const {
    std::vector<const ReferenceModel::Segment*> expected;
    for (const ReferenceModel::Segment& segment : model_.segments()) expected.push_back(&segment);
    std::ranges::sort(expected, {}, [](const auto* segment) { return segment->base; });
    const std::vector<Block*> heads = real_->segment_heads();
    if (heads.size() != expected.size()) {
      return fmt::format("{} segments, the model has {}", heads.size(), expected.size());
    }
    std::uint64_t mapped_bytes = 0;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      std::string difference = compare_segment(*heads[i], *expected[i]);
      if (!difference.empty()) return difference;
      for (const Block* block = heads[i]; block != nullptr; block = block->next) {
        mapped_bytes += block->mapped ? block->size_bytes : 0;
      }
    }
    if (mapped_bytes != real_->heap().reserved_bytes())
      return "reserved bytes are not the sum of the blocks";
    if (mapped_bytes != real_device_.used_bytes())
      return "reserved bytes are not what the device gave";
    return {};
  }

  static std::string compare_segment(const Block& head, const ReferenceModel::Segment& expected) {
    const Block* block = &head;
    for (const ReferenceModel::Piece& piece : expected.pieces) {
      if (block == nullptr) return fmt::format("segment {:#x} has too few blocks", expected.base);
      const bool same = block->address == piece.address && block->size_bytes == piece.bytes &&
                        block->allocated == piece.owned && block->mapped == piece.mapped &&
                        block->is_unused() == piece.idle() &&
                        block->home->stream == expected.stream &&
                        block->home->pool->is_small() == expected.small;
      if (!same) {
        return fmt::format("block {:#x} of {} bytes, the model has {:#x} of {} bytes",
                           block->address, block->size_bytes, piece.address, piece.bytes);
      }
      if (block->next != nullptr && block->next->prev != block)
        return "neighbours do not know each other";
      if (block->next != nullptr && block->next->address != block->address + block->size_bytes) {
        return "blocks do not tile their segment";
      }
      block = block->next;
    }
    return block == nullptr ? "" : fmt::format("segment {:#x} has too many blocks", expected.base);
  }

  const std::vector<Change>& changes_;
  FakeDevice real_device_;
  FakeDevice model_device_;
  std::unique_ptr<CachingAllocator> real_;
  ReferenceModel model_;
  std::unordered_map<std::uint64_t, std::uint64_t> addresses_;
};

}  // namespace

std::optional<FuzzFailure> run_program(const Program& program) {
  std::size_t step = 0;
  try {
    Pair pair(program);
    for (; step < program.events.size(); ++step) {
      std::string difference = pair.step(program.events[step]);
      if (!difference.empty()) return FuzzFailure{step, std::move(difference)};
    }
    std::string difference = pair.end();
    if (!difference.empty()) return FuzzFailure{step, std::move(difference)};
  } catch (const std::exception& error) {
    return FuzzFailure{step, error.what()};
  }
  return std::nullopt;
}

// Leaves out ever smaller runs of steps as long as the rest still fails.
Program shrink(Program program) {
  const std::optional<FuzzFailure> failure = run_program(program);
  if (!failure) return program;
  program.events.resize(std::min(program.events.size(), failure->step + 1));
  for (std::size_t length = program.events.size() / 2; length > 0; length /= 2) {
    for (std::size_t begin = 0; begin + length <= program.events.size();) {
      Program shorter = program;
      const auto first = shorter.events.begin() + static_cast<std::ptrdiff_t>(begin);
      shorter.events.erase(first, first + static_cast<std::ptrdiff_t>(length));
      if (run_program(shorter)) {
        program = std::move(shorter);
      } else {
        begin += length;
      }
    }
  }
  return program;
}

}  // namespace allocmark::caching
