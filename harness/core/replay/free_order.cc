#include "harness/core/replay/free_order.h"

#include <map>
#include <vector>

namespace allocmark {

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
