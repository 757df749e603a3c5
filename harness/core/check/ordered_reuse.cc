// See ordered_reuse.h. This file checks.
#include "harness/core/check/ordered_reuse.h"

#include <fmt/format.h>

#include <algorithm>

namespace allocmark {

namespace {

SimcuBlock described(const ShadowBlock& block) {
  return {.pointer = reinterpret_cast<const void*>(block.address),
          .size_bytes = block.size_bytes,
          .id = block.id,
          .request = block.event_index};
}

}  // namespace

OrderedReuse::OrderedReuse(const SimcuApi& simcu, std::span<const cudaStream_t> streams)
    : simcu_(simcu), streams_(streams) {
  (void)simcu_.order_begin();
}

OrderedReuse::~OrderedReuse() { simcu_.order_end(); }

std::optional<std::string> OrderedReuse::take(const ShadowBlock& block) {
  if (block.size_bytes == 0) return std::nullopt;
  SimcuUnorderedUse former{};
  const SimcuBlock taken = described(block);
  if (simcu_.order_take(&taken, streams_[block.stream], &former) == 0) return std::nullopt;
  return text(block, former);
}

void OrderedReuse::record(std::uint64_t id, std::uint32_t stream) {
  recorded_streams_by_id_[id].push_back(stream);
}

void OrderedReuse::give_back(const ShadowBlock& block) {
  used_on_.assign(1, streams_[block.stream]);
  if (const auto recorded = recorded_streams_by_id_.find(block.id);
      recorded != recorded_streams_by_id_.end()) {
    for (const std::uint32_t stream : recorded->second) {
      if (std::ranges::find(used_on_, streams_[stream]) == used_on_.end()) {
        used_on_.push_back(streams_[stream]);
      }
    }
    recorded_streams_by_id_.erase(recorded);
  }
  if (block.size_bytes == 0) return;
  const SimcuBlock given = described(block);
  simcu_.order_give_back(&given, used_on_.data(), static_cast<std::uint32_t>(used_on_.size()));
}

std::string OrderedReuse::stream_name(void* stream) const {
  const auto found = std::ranges::find(streams_, static_cast<cudaStream_t>(stream));
  if (found == streams_.end()) return "a stream of the allocator";
  return fmt::format("stream {}", found - streams_.begin());
}

std::string OrderedReuse::text(const ShadowBlock& block, const SimcuUnorderedUse& former) const {
  const std::string user = stream_name(former.stream);
  const std::string next = fmt::format("stream {}", block.stream);
  std::string text = fmt::format("event {}: block {} ({}, {} bytes) was handed ", block.event_index,
                                 block.id, next, block.size_bytes);
  if (former.missing == SIMCU_MISSING_ALLOCATION) {
    return text + fmt::format("memory that the driver allocated on {}, which {} does not follow",
                              user, next);
  }
  text += fmt::format(
      "memory of block {} (event {}, {} bytes), whose use on {} is not ordered before {}: ",
      former.id, former.request, former.size_bytes, user, next);
  switch (former.missing) {
    case SIMCU_MISSING_LATER_EVENT:
      return text + fmt::format("the last event on {} was recorded before the free", user);
    case SIMCU_MISSING_RIGHT_EVENT:
      return text + fmt::format(
                        "after the free events were recorded on other streams only, "
                        "not on {}",
                        user);
    case SIMCU_MISSING_WAIT:
      return text + fmt::format(
                        "an event was recorded on {}, but neither the host nor {} waited "
                        "for it",
                        user, next);
    default:
      return text + "no event was recorded after the free, and nothing waited";
  }
}

}  // namespace allocmark
