#include "tests/caching/fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "allocators/caching/allocator.h"
#include "allocators/caching/config.h"
#include "allocators/caching/snapshot.h"
#include "base/random.h"
#include "tests/caching/fake_device.h"
#include "tests/caching/reference_model.h"

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kDeviceTotal = 640 * kMiB;

const std::vector<std::string>& confs() {
  static const std::vector<std::string> kConfs = {
      "",
      "max_split_size_mb:20",
      "max_split_size_mb:32,max_non_split_rounding_mb:40",
      "garbage_collection_threshold:0.5",
      "max_split_size_mb:24,garbage_collection_threshold:0.3",
      "roundup_power2_divisions:4",
      "roundup_power2_divisions:[1:2,4:8,>:16],max_split_size_mb:64",
      "expandable_segments:True",
      "expandable_segments:True,garbage_collection_threshold:0.4",
      "expandable_segments:True,max_split_size_mb:24",
      "large_segment_size_mb:33,max_split_size_mb:40",
      "large_segment_size_mb:48,expandable_segments:True,roundup_power2_divisions:8",
      "expandable_segments:True,large_segment_size_mb:11,max_split_size_mb:16,garbage_collection_"
      "threshold:0.7"};
  return kConfs;
}

std::uint64_t random_size(Random& random) {
  switch (random.below(8)) {
    case 0:
      return random.between(1, 600);
    case 1:
    case 2:
      return random.between(1, kMiB);
    case 3:
      return 512 * random.between(1, 16);
    case 4:
      return random.between(kMiB, 10 * kMiB);
    case 5:
      return kMiB * random.between(1, 24);
    case 6:
      return std::uint64_t{1} << random.between(9, 25);
    default:
      return random.between(8 * kMiB, 70 * kMiB);
  }
}

Settings settings_of(const std::string& conf) {
  const PytorchConfig config = parse_pytorch(conf);
  if (!config.accepted()) throw std::runtime_error("config string " + conf + ": " + config.error);
  return config.settings;
}

// Allocator and model side by side, each on a device of its own.
class Pair {
 public:
  explicit Pair(const FuzzProgram& program)
      : real_device_(kDeviceTotal, program.capacity_bytes),
        model_device_(kDeviceTotal, program.capacity_bytes),
        real_(std::make_unique<CachingAllocator>(real_device_, settings_of(program.conf))),
        model_(model_device_, settings_of(program.conf), std::nullopt) {}

  // The first difference, empty where there is none.
  std::string step(const FuzzStep& step) {
    std::string difference = apply(step);
    if (difference.empty()) difference = compare_counters();
    if (difference.empty()) difference = compare_blocks();
    return difference;
  }

  std::string end() {
    real_.reset();
    return real_device_.is_clean() ? "" : "the device is not clean after the allocator is gone";
  }

 private:
  std::string apply(const FuzzStep& step) {
    const auto held = addresses_.find(step.id);
    switch (step.kind) {
      case FuzzKind::Alloc:
        return allocate(step);
      case FuzzKind::Free:
        if (held == addresses_.end()) return {};
        if (!real_->deallocate(held->second)) return "a live block is unknown";
        model_.deallocate(held->second);
        addresses_.erase(held);
        return {};
      case FuzzKind::Record:
        if (held == addresses_.end()) return {};
        if (!real_->record_stream(held->second, step.stream)) return "a live block is unknown";
        model_.record_stream(held->second, step.stream);
        return {};
      case FuzzKind::Busy:
        real_device_.start_busy(step.stream);
        model_device_.start_busy(step.stream);
        return {};
      case FuzzKind::Sync:
        real_device_.end_busy();
        model_device_.end_busy();
        return {};
      case FuzzKind::EmptyCache:
        real_->empty_cache();
        model_.empty_cache();
        return {};
      case FuzzKind::Configure:
        real_->change_settings(settings_of(step.conf));
        model_.settings = settings_of(step.conf);
        return {};
      case FuzzKind::Limit:
        model_.limit = step.size_bytes > 0 ? std::optional(step.size_bytes) : std::nullopt;
        real_->change_limit(model_.limit);
        return {};
    }
    return "unknown step";
  }

  std::string allocate(const FuzzStep& step) {
    if (addresses_.contains(step.id)) return {};
    const std::optional<std::uint64_t> address = real_->allocate(step.size_bytes, step.stream);
    const std::optional<std::uint64_t> expected = model_.allocate(step.size_bytes, step.stream);
    if (address != expected) {
      return fmt::format("allocate gives {:#x}, the model {:#x} (0: out of memory)",
                         address.value_or(0), expected.value_or(0));
    }
    if (address) addresses_[step.id] = *address;
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

  FakeDevice real_device_;
  FakeDevice model_device_;
  std::unique_ptr<CachingAllocator> real_;
  ReferenceModel model_;
  std::unordered_map<std::uint64_t, std::uint64_t> addresses_;
};

}  // namespace

FuzzProgram make_program(std::uint64_t seed, std::size_t step_count) {
  Random random(seed);
  FuzzProgram program{.conf = confs()[random.below(confs().size())], .steps = {}};
  program.capacity_bytes = random.between(100, 640) * kMiB;
  const std::uint64_t streams = random.between(1, 3);
  // Mostly small heaps, which reach more different states; now and then one that fills several
  // chunks of a set.
  const std::uint64_t live_max =
      random.below(16) == 0 ? random.between(200, 600) : random.between(4, 60);
  const bool reconfigures = random.below(4) == 0;
  std::vector<std::uint64_t> live;
  std::uint64_t id = 0;
  if (random.below(2) == 0) {
    program.steps.push_back(
        {.kind = FuzzKind::Limit, .size_bytes = random.between(60, 400) * kMiB});
  }
  while (program.steps.size() < step_count) {
    const std::uint64_t kind = random.below(1000);
    const std::uint64_t stream = random.below(streams);
    if (kind < 3) {
      program.steps.push_back({.kind = FuzzKind::EmptyCache});
    } else if (kind < 10) {
      program.steps.push_back({.kind = FuzzKind::Busy, .stream = stream});
    } else if (kind < 20) {
      program.steps.push_back({.kind = FuzzKind::Sync});
    } else if (kind < 22 && reconfigures) {
      program.steps.push_back(
          {.kind = FuzzKind::Configure, .conf = confs()[random.below(confs().size())]});
    } else if (kind < 24 && reconfigures) {
      const std::uint64_t limit = random.below(3) == 0 ? 0 : random.between(60, 400) * kMiB;
      program.steps.push_back({.kind = FuzzKind::Limit, .size_bytes = limit});
    } else if (kind < 80 && !live.empty()) {
      program.steps.push_back(
          {.kind = FuzzKind::Record, .id = live[random.below(live.size())], .stream = stream});
    } else if (live.size() < live_max && (live.empty() || random.below(100) < 55)) {
      program.steps.push_back({.kind = FuzzKind::Alloc,
                               .id = ++id,
                               .size_bytes = random_size(random),
                               .stream = stream});
      live.push_back(id);
    } else {
      std::swap(live[random.below(live.size())], live.back());
      program.steps.push_back({.kind = FuzzKind::Free, .id = live.back()});
      live.pop_back();
    }
  }
  return program;
}

std::optional<FuzzFailure> run_program(const FuzzProgram& program) {
  std::size_t step = 0;
  try {
    Pair pair(program);
    for (; step < program.steps.size(); ++step) {
      std::string difference = pair.step(program.steps[step]);
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
FuzzProgram shrink(FuzzProgram program) {
  const std::optional<FuzzFailure> failure = run_program(program);
  if (!failure) return program;
  program.steps.resize(std::min(program.steps.size(), failure->step + 1));
  for (std::size_t length = program.steps.size() / 2; length > 0; length /= 2) {
    for (std::size_t begin = 0; begin + length <= program.steps.size();) {
      FuzzProgram shorter = program;
      const auto first = shorter.steps.begin() + static_cast<std::ptrdiff_t>(begin);
      shorter.steps.erase(first, first + static_cast<std::ptrdiff_t>(length));
      if (run_program(shorter)) {
        program = std::move(shorter);
      } else {
        begin += length;
      }
    }
  }
  return program;
}

std::string to_trace(const FuzzProgram& program) {
  const auto with_blanks = [](std::string conf) {
    std::ranges::replace(conf, ',', ' ');
    return conf;
  };
  std::string text = "op,id,size,stream\n";
  text += fmt::format("mark,capacity {},0,0\nmark,conf {},0,0\n", program.capacity_bytes,
                      with_blanks(program.conf));
  for (const FuzzStep& step : program.steps) {
    switch (step.kind) {
      case FuzzKind::Alloc:
        text += fmt::format("alloc,{},{},{}\n", step.id, step.size_bytes, step.stream);
        break;
      case FuzzKind::Free:
        text += fmt::format("free,{},0,0\n", step.id);
        break;
      case FuzzKind::Record:
        text += fmt::format("record,{},0,{}\n", step.id, step.stream);
        break;
      case FuzzKind::Busy:
        text += fmt::format("busy,0,0,{}\n", step.stream);
        break;
      case FuzzKind::Sync:
        text += "sync,0,0,0\n";
        break;
      case FuzzKind::EmptyCache:
        text += "empty_cache,0,0,0\n";
        break;
      case FuzzKind::Configure:
        text += fmt::format("mark,conf {},0,0\n", with_blanks(step.conf));
        break;
      case FuzzKind::Limit:
        text += fmt::format("mark,limit {},0,0\n", step.size_bytes);
        break;
    }
  }
  return text;
}

FuzzProgram program_from_trace(const std::string& text) {
  FuzzProgram program{.conf = {}, .capacity_bytes = kDeviceTotal, .steps = {}};
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the header
  bool configured = false;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::array<std::string, 4> field;
    for (std::string& item : field) std::getline(fields, item, ',');
    const std::string label = field[1].substr(0, field[1].find(' '));
    if (field[0] == "mark") {
      std::string value = label.size() < field[1].size() ? field[1].substr(label.size() + 1) : "";
      if (label == "capacity") program.capacity_bytes = std::stoull(value);
      if (label == "limit")
        program.steps.push_back({.kind = FuzzKind::Limit, .size_bytes = std::stoull(value)});
      if (label != "conf") continue;
      std::ranges::replace(value, ' ', ',');
      if (configured) program.steps.push_back({.kind = FuzzKind::Configure, .conf = value});
      if (!configured) program.conf = value;
      configured = true;
      continue;
    }
    static const std::unordered_map<std::string, FuzzKind> kKinds = {
        {"alloc", FuzzKind::Alloc},   {"free", FuzzKind::Free},
        {"record", FuzzKind::Record}, {"busy", FuzzKind::Busy},
        {"sync", FuzzKind::Sync},     {"empty_cache", FuzzKind::EmptyCache}};
    program.steps.push_back({.kind = kKinds.at(field[0]),
                             .id = std::stoull(field[1]),
                             .size_bytes = std::stoull(field[2]),
                             .stream = std::stoull(field[3])});
  }
  return program;
}

}  // namespace allocmark::caching
