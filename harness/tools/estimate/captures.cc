#include "harness/tools/estimate/captures.h"

#include <algorithm>
#include <span>
#include <unordered_set>

#include "base/bytes.h"

namespace allocmark {

std::uint64_t graphs_own_bytes(const CaptureFacts& captures) {
  const auto requests = static_cast<double>(captures.request_count);
  return static_cast<std::uint64_t>(requests * kNodesPerRequest) * kNodeBytes;
}

std::uint64_t vllm_rule_bytes(const CaptureFacts& captures) {
  if (captures.graph_count == 0) return 0;
  return captures.first_bytes + std::max(captures.second_bytes, kMiB) * (captures.graph_count - 1);
}

std::uint64_t pool_count_of(EventSource& events) {
  std::unordered_set<std::uint64_t> pools;
  for (std::span<const Event> batch = events.next(); !batch.empty(); batch = events.next()) {
    for (const Event& event : batch) {
      if (event.kind == EventKind::PoolBegin || event.kind == EventKind::PoolCreate) {
        pools.insert(event.id);
      }
    }
  }
  return pools.size();
}

bool CaptureMeter::begins_at(const ReplayStep& step) const {
  return step.kind == EventKind::PoolBegin && step.size_bytes == 0 && !pool_;
}

bool CaptureMeter::ends_at(const ReplayStep& step) const {
  return step.kind == EventKind::PoolEnd && pool_ == step.slot;
}

void CaptureMeter::begin(const ReplayStep& step, std::uint64_t used_bytes) {
  pool_ = step.slot;
  before_bytes_ = used_bytes;
}

void CaptureMeter::end(std::uint64_t used_bytes) {
  const std::uint64_t taken_bytes = used_bytes - std::min(used_bytes, before_bytes_);
  ++facts_.graph_count;
  facts_.bytes += taken_bytes;
  if (facts_.graph_count == 1) facts_.first_bytes = taken_bytes;
  if (facts_.graph_count == 2) facts_.second_bytes = taken_bytes;
  pool_.reset();
}

void CaptureMeter::count(const ReplayStep& step) {
  if (pool_ && step.kind == EventKind::Alloc) ++facts_.request_count;
}

}  // namespace allocmark
