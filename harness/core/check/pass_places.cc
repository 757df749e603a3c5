#include "harness/core/check/pass_places.h"

namespace allocmark {

bool PassPlaces::run(const TraceBatch& batch) {
  if (blocks_.size() < batch.slot_count) blocks_.resize(batch.slot_count);
  for (std::size_t i = 0; i < batch.steps.size(); ++i, ++event_count_) {
    const ReplayStep& step = batch.steps[i];
    if (step.kind == EventKind::Free && blocks_[step.slot]) {
      heap_.deallocate(*blocks_[step.slot]);
      blocks_[step.slot].reset();
    }
    if (step.kind != EventKind::Alloc) continue;
    if (request_count_ == places_.size()) return false;
    void* const place = places_[request_count_++];
    if (place == nullptr) continue;
    const ShadowBlock block{.event_index = event_count_,
                            .id = batch.events[i].id,
                            .address = reinterpret_cast<std::uintptr_t>(place),
                            .size_bytes = step.size_bytes,
                            .stream = step.stream};
    blocks_[step.slot] = block;
    if (const auto rule = heap_.allocate(block)) {
      broken_ = rule->text();
      return false;
    }
  }
  return true;
}

}  // namespace allocmark
