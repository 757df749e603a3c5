#include "harness/core/replay/trace_blocks.h"

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

}  // namespace allocmark
