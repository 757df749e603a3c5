#include "harness/tools/why/owners.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>

#include "harness/tools/why/frame_rules.h"
#include "harness/tools/why/held_blocks.h"

namespace allocmark {
namespace {

constexpr std::size_t kMomentCount = 240;
constexpr double kFlameShareMin = 0.002;  // smaller nodes are left out

struct OwnerWords {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<OwnerWords, kOwnerCount> kOwnerWords = {{
    {"weights", "asked for where modules are made, moved, loaded or gathered"},
    {"optimizer state", "asked for in an optimizer's step, and kept after it"},
    {"gradients", "asked for in a backward pass and kept after it, or as large as a weight"},
    {"key-value cache", "asked for in a cache of keys and values"},
    {"kept from forward passes",
     "asked for in a forward pass, and there after the optimizer's step: caches, work space of "
     "libraries, or tensors that the program keeps"},
    {"activations", "asked for in a forward pass"},
    {"inputs", "asked for where data is loaded"},
    {"work space", "asked for in a backward pass or an optimizer's step, not kept after it"},
    {"the program's own code", "its stack has no module, optimizer or loader"},
    {"from before the recording", "no stack; there when the history begins"},
    {"kept from earlier", "no stack; lived through the last low of the memory in use"},
    {"of the last step", "no stack; asked for after the last low of the memory in use"},
    {"unknown",
     "no stack, as in PyTorch's backward pass, and neither lifetime nor size tells more"},
}};

template <typename Group>
void sort_groups(std::vector<Group>* groups) {
  std::ranges::stable_sort(*groups, std::greater<>(), &Group::bytes);
}

// Blocks that are live at the moment, grouped by what `key` says; an empty name is left out.
class Grouping {
 public:
  void add(Owner owner, const std::string& name, std::uint64_t size_bytes, std::uint64_t bytes) {
    OwnerGroup& group = groups_[{owner, name, size_bytes}];
    group.owner = owner;
    group.name = name;
    group.size_bytes = size_bytes;
    group.bytes += bytes;
    ++group.block_count;
  }
  [[nodiscard]] std::vector<OwnerGroup> largest() const {
    std::vector<OwnerGroup> groups;
    for (const auto& [key, group] : groups_) groups.push_back(group);
    sort_groups(&groups);
    if (groups.size() > kOwnerGroupsMax) groups.resize(kOwnerGroupsMax);
    return groups;
  }

 private:
  std::map<std::tuple<Owner, std::string, std::uint64_t>, OwnerGroup> groups_;
};

// The tree of frames while it grows.
struct FlameTree {
  std::array<std::uint64_t, kOwnerCount> bytes_of{};
  std::map<std::string, FlameTree> children{};

  void add(Owner owner, std::uint64_t bytes) { bytes_of[static_cast<std::size_t>(owner)] += bytes; }
};

FlameNode flame_node(const std::string& name, const FlameTree& tree, std::uint64_t bytes_min) {
  FlameNode node{.name = name};
  for (const std::uint64_t bytes : tree.bytes_of) node.bytes += bytes;
  const auto most = std::ranges::max_element(tree.bytes_of);
  node.owner = static_cast<Owner>(most - tree.bytes_of.begin());
  for (const auto& [child_name, child] : tree.children) {
    FlameNode made = flame_node(child_name, child, bytes_min);
    if (made.bytes >= bytes_min) node.children.push_back(std::move(made));
  }
  sort_groups(&node.children);
  return node;
}

void add_shares(const HeldBlocks& held, std::uint64_t moment, Owners* owners) {
  std::array<OwnerShare, kOwnerCount> shares{};
  for (const HeldBlock& block : held.blocks()) {
    if (!block.lives_at(moment)) continue;
    OwnerShare& share = shares[static_cast<std::size_t>(block.owner)];
    share.owner = block.owner;
    share.bytes += block.size_bytes;
    ++share.block_count;
    owners->live_bytes += block.size_bytes;
    ++owners->block_count;
  }
  for (const OwnerShare& share : shares)
    if (share.block_count > 0) owners->shares.push_back(share);
  sort_groups(&owners->shares);
}

void add_groups(const MemorySnapshot& snapshot, const HeldBlocks& held, std::uint64_t moment,
                Owners* owners) {
  struct Words {
    std::string stack;
    std::string module;
    std::vector<std::string> frames;
  };
  std::map<std::uint32_t, Words> words;  // by stack
  Grouping stacks, modules, sizes;
  FlameTree flame;
  for (const HeldBlock& block : held.blocks()) {
    if (!block.lives_at(moment)) continue;
    flame.add(block.owner, block.size_bytes);
    if (block.stack == kNoStack) {
      sizes.add(block.owner, "", block.size_bytes, block.size_bytes);
      flame.children["no stack: " + std::string(to_string(block.owner))].add(block.owner,
                                                                             block.size_bytes);
      continue;
    }
    const auto [found, is_new] = words.try_emplace(block.stack);
    if (is_new) {
      found->second = {.stack = stack_words(snapshot, block.stack),
                       .module = module_words(snapshot, block.stack),
                       .frames = {}};
      for (const std::uint32_t frame : drawn_frames(snapshot, block.stack))
        found->second.frames.push_back(frame_words(snapshot, frame));
    }
    stacks.add(block.owner, found->second.stack, 0, block.size_bytes);
    if (!found->second.module.empty())
      modules.add(block.owner, found->second.module, 0, block.size_bytes);
    FlameTree* at = &flame;
    for (const std::string& frame : found->second.frames) {
      at = &at->children[frame];
      at->add(block.owner, block.size_bytes);
    }
  }
  owners->stacks = stacks.largest();
  owners->modules = modules.largest();
  owners->sizes = sizes.largest();
  owners->flame = flame_node(
      "all", flame,
      static_cast<std::uint64_t>(kFlameShareMin * static_cast<double>(owners->live_bytes)));
}

// The fullest moment of each part of the history, and what was live then.
void add_over_time(const HeldBlocks& held, Owners* owners) {
  const std::vector<std::uint64_t>& live_bytes = held.live_bytes();
  const std::size_t part_count = std::min(kMomentCount, live_bytes.size());
  for (std::size_t part = 0; part < part_count; ++part) {
    const auto begin =
        live_bytes.begin() + static_cast<std::ptrdiff_t>(live_bytes.size() * part / part_count);
    const auto end = live_bytes.begin() +
                     static_cast<std::ptrdiff_t>(live_bytes.size() * (part + 1) / part_count);
    owners->moments.push_back(
        static_cast<std::uint64_t>(std::max_element(begin, end) - live_bytes.begin()));
  }
  std::array<std::vector<std::uint64_t>, kOwnerCount> changes;
  for (std::vector<std::uint64_t>& of : changes) of.resize(part_count + 1);
  const auto first_from = [&](std::uint64_t entry) {
    return static_cast<std::size_t>(std::ranges::lower_bound(owners->moments, entry) -
                                    owners->moments.begin());
  };
  for (const HeldBlock& block : held.blocks()) {
    std::vector<std::uint64_t>& of = changes[static_cast<std::size_t>(block.owner)];
    of[first_from(block.begin)] += block.size_bytes;
    of[first_from(block.end)] -= block.size_bytes;  // unsigned: sums come out right
  }
  for (std::size_t owner = 0; owner < kOwnerCount; ++owner) {
    std::vector<std::uint64_t>& of = changes[owner];
    for (std::size_t i = 1; i < of.size(); ++i) of[i] += of[i - 1];
    of.pop_back();
    if (std::ranges::any_of(of, [](std::uint64_t bytes) { return bytes > 0; }))
      owners->over_time.emplace_back(static_cast<Owner>(owner), std::move(of));
  }
}

}  // namespace

std::string_view to_string(Owner owner) {
  return kOwnerWords[static_cast<std::size_t>(owner)].name;
}

std::string_view reason_of(Owner owner, bool has_stacks) {
  if (owner == Owner::Unknown && !has_stacks)
    return "no stack, and the memory in use hardly ever fell, so its lifetime does not tell";
  return kOwnerWords[static_cast<std::size_t>(owner)].reason;
}

Owners find_owners(const DeviceHistory& history, std::optional<std::uint64_t> failure) {
  HeldBlocks held(history);
  const auto peak = std::ranges::max_element(held.live_bytes());
  // Entries count from 1: a request that failed at entry i saw what was live after the one before.
  const std::uint64_t moment =
      failure.value_or(static_cast<std::uint64_t>(peak - held.live_bytes().begin()));
  held.classify(moment, failure ? std::uint64_t{history[*failure].size_bytes} : 0);
  Owners owners{.at_failure = failure.has_value(),
                .entry_index = failure || moment == 0 ? moment : moment - 1,
                .has_stacks = held.has_stacks()};
  add_shares(held, moment, &owners);
  add_groups(history.snapshot(), held, moment, &owners);
  add_over_time(held, &owners);
  if (failure) {
    const SnapshotEntry& entry = history[*failure];
    const HeldBlock block{.size_bytes = entry.size_bytes,
                          .begin = static_cast<std::uint32_t>(moment),
                          .end = static_cast<std::uint32_t>(moment) + 1,
                          .stack = entry.stack};
    owners.request = OwnerGroup{.owner = held.owner_of(block, moment),
                                .name = stack_words(history.snapshot(), entry.stack),
                                .size_bytes = entry.size_bytes,
                                .bytes = entry.size_bytes,
                                .block_count = 1};
  }
  return owners;
}

}  // namespace allocmark
