// See stream_hazards.h. This file checks.
#include "harness/core/check/stream_hazards.h"

#include <algorithm>
#include <iterator>

namespace allocmark {

void StreamHazards::launch(const Kernel& kernel) {
  if (end_ns_by_stream_.size() <= kernel.stream) end_ns_by_stream_.resize(kernel.stream + 1, 0);
  std::uint64_t& end_ns = end_ns_by_stream_[kernel.stream];
  const std::uint64_t begin_ns = std::max(end_ns, kernel.now_ns);
  end_ns = kernel.duration_ns > UINT64_MAX - begin_ns ? UINT64_MAX : begin_ns + kernel.duration_ns;
}

void StreamHazards::synchronize() {
  std::fill(end_ns_by_stream_.begin(), end_ns_by_stream_.end(), 0);
  segments_.clear();
}

void StreamHazards::end_work(std::uint32_t stream) {
  if (stream < end_ns_by_stream_.size()) end_ns_by_stream_[stream] = 0;
  for (auto& [address, segment] : segments_) {
    std::erase_if(segment.uses, [&](const Use& use) { return use.stream == stream; });
  }
}

void StreamHazards::record(std::uint64_t id, std::uint32_t stream) {
  recorded_streams_by_id_[id].push_back(stream);
}

std::uint64_t StreamHazards::end_of(std::uint32_t stream) const {
  return stream < end_ns_by_stream_.size() ? end_ns_by_stream_[stream] : 0;
}

void StreamHazards::pass(std::uint32_t stream, std::uint64_t point) {
  if (passed_point_by_stream_.size() <= stream) passed_point_by_stream_.resize(stream + 1, 0);
  std::uint64_t& passed_point = passed_point_by_stream_[stream];
  passed_point = std::max(passed_point, point);
}

bool StreamHazards::is_over(const Use& use, std::uint64_t now_ns) const {
  if (use.end_ns <= now_ns) return true;
  return use.point != 0 && use.stream < passed_point_by_stream_.size() &&
         use.point <= passed_point_by_stream_[use.stream];
}

void StreamHazards::deallocate(const ShadowBlock& block, std::uint64_t now_ns,
                               const MakePoint& make_point) {
  std::vector<std::uint32_t> streams{block.stream};
  if (const auto recorded = recorded_streams_by_id_.find(block.id);
      recorded != recorded_streams_by_id_.end()) {
    streams.insert(streams.end(), recorded->second.begin(), recorded->second.end());
    recorded_streams_by_id_.erase(recorded);
  }
  if (block.size_bytes == 0) return;
  std::vector<Use> uses;
  for (const std::uint32_t stream : streams) {
    const std::uint64_t end_ns = end_of(stream);
    if (end_ns <= now_ns) continue;
    uses.push_back({.stream = stream,
                    .end_ns = end_ns,
                    .point = make_point ? make_point(stream) : 0,
                    .block = block});
  }
  if (!uses.empty()) add_uses(block.address, block.address + block.size_bytes, uses);
}

// A segment boundary at `address`, where it lies inside a segment.
void StreamHazards::split(std::uint64_t address) {
  auto at = segments_.upper_bound(address);
  if (at == segments_.begin()) return;
  at = std::prev(at);
  if (at->first == address || at->second.end <= address) return;
  segments_.emplace(address, Segment{.end = at->second.end, .uses = at->second.uses});
  at->second.end = address;
}

void StreamHazards::add_uses(std::uint64_t begin, std::uint64_t end, const std::vector<Use>& uses) {
  split(begin);
  split(end);
  std::uint64_t covered = begin;
  for (auto at = segments_.lower_bound(begin); covered < end;) {
    if (at == segments_.end() || at->first > covered) {
      const std::uint64_t gap_end = at == segments_.end() ? end : std::min(end, at->first);
      segments_.emplace_hint(at, covered, Segment{.end = gap_end, .uses = uses});
      covered = gap_end;
      continue;
    }
    std::vector<Use>& old = at->second.uses;
    for (const Use& use : uses) {
      // A stream's later use ends after its earlier ones.
      std::erase_if(old, [&](const Use& other) { return other.stream == use.stream; });
      old.push_back(use);
    }
    covered = at->second.end;
    ++at;
  }
}

std::optional<BrokenRule> StreamHazards::early_reuse(const ShadowBlock& block,
                                                     std::uint64_t now_ns) {
  if (block.size_bytes == 0) return std::nullopt;
  auto at = segments_.upper_bound(block.address);
  if (at != segments_.begin()) at = std::prev(at);
  while (at != segments_.end() && at->first < block.address + block.size_bytes) {
    if (at->second.end <= block.address) {
      ++at;
      continue;
    }
    std::vector<Use>& uses = at->second.uses;
    std::erase_if(uses, [&](const Use& use) { return is_over(use, now_ns); });
    for (const Use& use : uses) {
      // The new owner's work on the same stream runs after the old work by itself.
      if (use.stream == block.stream) continue;
      return BrokenRule{.rule = HeapRule::NoEarlyReuse,
                        .block = block,
                        .other = use.block,
                        .user_stream = use.stream,
                        .user_point = use.point};
    }
    at = uses.empty() ? segments_.erase(at) : std::next(at);
  }
  return std::nullopt;
}

}  // namespace allocmark
