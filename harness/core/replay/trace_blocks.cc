#include "harness/core/replay/trace_blocks.h"

#include <map>
#include <vector>

namespace allocmark {

std::optional<TraceBlocks> blocks_of(PreparedTrace& trace, std::size_t count_max) {
  if (trace.facts().allocate_count > count_max) return std::nullopt;
  TraceBlocks blocks;
  std::vector<std::size_t> block_of;  // by slot
  std::uint64_t now = 0;
  trace.for_each_batch([&](const TraceBatch& batch) {
    block_of.resize(batch.slot_count);
    for (std::size_t i = 0; i < batch.steps.size(); ++i) {
      const ReplayStep& step = batch.steps[i];
      ++now;
      if (step.failed_before()) continue;
      if (step.kind == EventKind::Alloc) {
        block_of[step.slot] = blocks.lives.size();
        blocks.lives.push_back({.begin = now, .end = 0, .size_bytes = step.size_bytes});
        blocks.ids.push_back(batch.events[i].id);
      } else if (step.kind == EventKind::Free) {
        blocks.lives[block_of[step.slot]].end = now;
      }
    }
    return true;
  });
  for (BlockLife& block : blocks.lives) {
    if (block.end == 0) block.end = now + 1;
  }
  return blocks;
}

std::optional<UnorderedFree> first_unordered_free(PreparedTrace& trace) {
  std::optional<UnorderedFree> found;
  std::map<std::uint32_t, std::vector<std::uint64_t>> stacks;  // block ids, by stream
  std::uint64_t event_index = 0;
  trace.for_each_batch([&](const TraceBatch& batch) {
    for (std::size_t i = 0; i < batch.steps.size() && !found; ++i, ++event_index) {
      const ReplayStep& step = batch.steps[i];
      if (step.size_bytes == 0) continue;
      const std::uint64_t id = batch.events[i].id;
      if (step.kind == EventKind::Alloc) {
        stacks[step.stream].push_back(id);
      } else if (step.kind == EventKind::Free) {
        std::vector<std::uint64_t>& stack = stacks[step.stream];
        if (stack.back() != id) {
          found = {.event_index = event_index, .block_id = id, .above_block_id = stack.back()};
        } else {
          stack.pop_back();
        }
      }
    }
    return !found.has_value();
  });
  return found;
}

}  // namespace allocmark
