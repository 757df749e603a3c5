// The blocks of a history with their owners: what was asked, with which stack, from when to when.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "harness/tools/why/frame_rules.h"
#include "harness/tools/why/owners.h"
#include "workloads/import/snapshot_history.h"

namespace allocmark {

// Entries are counted from 1 here, so that 0 is before the history.
struct HeldBlock {
  std::uint64_t size_bytes = 0;  // as asked
  std::uint32_t begin = 0;
  std::uint32_t end = 0;  // beyond the last entry where it was never given back
  std::uint32_t stack = kNoStack;
  Owner owner = Owner::Unknown;

  [[nodiscard]] bool lives_at(std::uint64_t moment) const {
    return begin <= moment && moment < end;
  }
};

class HeldBlocks {
 public:
  explicit HeldBlocks(const DeviceHistory& history);

  [[nodiscard]] const std::vector<HeldBlock>& blocks() const { return blocks_; }
  [[nodiscard]] bool has_stacks() const { return has_stacks_; }
  // Live bytes after each entry; the first is before the history.
  [[nodiscard]] const std::vector<std::uint64_t>& live_bytes() const { return live_bytes_; }
  // Names the owner of each block, as seen at a moment when so much more was asked for.
  void classify(std::uint64_t moment, std::uint64_t wanted_bytes);
  // What a request with this stack would have been.
  [[nodiscard]] Owner owner_of(const HeldBlock& block, std::uint64_t moment) const;

 private:
  void collect(const DeviceHistory& history);
  void find_phases();
  [[nodiscard]] std::uint64_t last_low(std::uint64_t moment, std::uint64_t wanted_bytes) const;
  [[nodiscard]] StackKind kind(const HeldBlock& block) const { return kinds_[block.stack]; }

  std::vector<HeldBlock> blocks_;  // in the order of `begin`
  std::vector<StackKind> kinds_;   // by stack
  std::vector<std::uint64_t> live_bytes_;
  std::vector<std::uint64_t> backward_ends_;   // requests that no backward pass makes
  std::vector<std::uint64_t> optimizer_ends_;  // that no step of an optimizer makes
  std::vector<std::uint64_t> optimizer_steps_;
  std::unordered_set<std::uint64_t> weight_sizes_;
  std::uint64_t first_forward_ = ~std::uint64_t{0};
  std::uint64_t low_ = 0;
  bool has_stacks_ = false;
};

}  // namespace allocmark
