// The churn program.
#include "harness/churn_source.h"

#include <algorithm>

namespace allocmark {

namespace {

constexpr std::uint64_t kBatchEventCount = 16384;

}  // namespace

ChurnSource::ChurnSource(const ChurnParameters& parameters)
    : parameters_(parameters), random_(parameters.seed) {
  header_.name = "churn";
  header_.generator = "churn";
  header_.seed = parameters.seed;
  batch_.reserve(kBatchEventCount);
  rewind();
}

void ChurnSource::rewind() {
  random_ = Random(parameters_.seed);
  id_by_place_.assign(parameters_.place_count, 0);
  next_id_ = 1;
  made_count_ = 0;
}

std::span<const Event> ChurnSource::next() {
  const std::uint64_t count = std::min(kBatchEventCount, parameters_.event_count - made_count_);
  batch_.clear();
  for (std::uint64_t i = 0; i < count; ++i) batch_.push_back(make_event());
  made_count_ += count;
  return batch_;
}

Event ChurnSource::make_event() {
  const std::uint64_t bits = random_.next();
  std::uint64_t& id = id_by_place_[(bits & 0xFFFFFFFFu) % parameters_.place_count];
  if (id != 0) {
    const Event event{.id = id, .kind = EventKind::Free};
    id = 0;
    return event;
  }
  id = next_id_++;
  const std::uint64_t octave_count = parameters_.size_log2_max - parameters_.size_log2_min;
  const std::uint64_t low_bytes = std::uint64_t{1}
                                  << (parameters_.size_log2_min + (bits >> 32) % octave_count);
  return Event{
      .id = id, .size_bytes = low_bytes + (bits >> 40) % low_bytes, .kind = EventKind::Alloc};
}

}  // namespace allocmark
