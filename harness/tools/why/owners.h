// Who held the memory when a request failed, or at the peak where none did: weights, gradients,
// optimizer state, activations and so on, by stack and by module. It follows from the history
// alone: from the stacks that were recorded, and from how long blocks lived. What neither tells is
// 'unknown'. Sizes are as the program asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/import/snapshot_history.h"

namespace allocmark {

// In this order owners are drawn on top of each other.
enum class Owner : std::uint8_t {
  Weights,
  OptimizerState,
  Gradients,
  KvCache,
  KeptForward,  // made in a forward pass, and there after an optimizer's next step
  Activations,
  Inputs,
  Scratch,
  OwnCode,
  Before,  // no stack, and there before the recording
  Kept,    // no stacks at all: lived through the last low of the memory in use
  Recent,  // no stacks at all: made since then
  Unknown,
};
inline constexpr std::size_t kOwnerCount = 13;

[[nodiscard]] std::string_view to_string(Owner owner);
// Why a block counts as such, for people.
[[nodiscard]] std::string_view reason_of(Owner owner, bool has_stacks);

struct OwnerShare {
  Owner owner = Owner::Unknown;
  std::uint64_t bytes = 0;
  std::uint64_t block_count = 0;
};

// Blocks with one stack, module or size.
struct OwnerGroup {
  Owner owner = Owner::Unknown;
  std::string name{};            // of the stack or the module; empty: `size_bytes`
  std::uint64_t size_bytes = 0;  // of each block
  std::uint64_t bytes = 0;
  std::uint64_t block_count = 0;
};

// Frames by the bytes that were asked for under them.
struct FlameNode {
  std::string name{};
  Owner owner = Owner::Unknown;  // who has most of the bytes
  std::uint64_t bytes = 0;
  std::vector<FlameNode> children{};  // the largest first
};

struct Owners {
  bool at_failure = false;
  std::uint64_t entry_index = 0;
  bool has_stacks = false;
  std::uint64_t live_bytes = 0;  // the sum of `shares`
  std::uint64_t block_count = 0;
  std::vector<OwnerShare> shares{};     // the largest first
  std::vector<OwnerGroup> stacks{};     // the largest first, at most kOwnerGroupsMax
  std::vector<OwnerGroup> modules{};    // of forward passes
  std::vector<OwnerGroup> sizes{};      // of blocks without a stack
  std::optional<OwnerGroup> request{};  // the one that failed
  FlameNode flame{};
  std::vector<std::uint64_t> moments{};  // entries: the fullest of each part of the history
  std::vector<std::pair<Owner, std::vector<std::uint64_t>>> over_time{};  // bytes at each moment
};

inline constexpr std::size_t kOwnerGroupsMax = 40;

// `failure`: the entry of the request that failed.
[[nodiscard]] Owners find_owners(const DeviceHistory& history,
                                 std::optional<std::uint64_t> failure);

}  // namespace allocmark
