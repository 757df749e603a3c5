// See ring_steps.h.
#include "workloads/model/ring_steps.h"

#include "workloads/model/collectives.h"

namespace allocmark {

RingPair contiguous_pair(Tape& tape, const Ring& ring, const Tensor& key, const Tensor& value) {
  const std::uint64_t size_bytes = ring.pair_bytes(ring.width) / 2;
  const auto contiguous = [&](const Tensor& input, bool is_apart) {
    return is_apart ? input : tape.activation(size_bytes);
  };
  Tensor own_key = contiguous(key, ring.key_apart);
  return {.key = std::move(own_key), .value = contiguous(value, ring.value_apart)};
}

void RingExchange::begin(Tensor sent, std::uint64_t size_bytes) {
  if (gathers_ && has_sent_) return;
  has_sent_ = true;
  const std::uint64_t all_bytes = gathers_ ? ranks_ * size_bytes : size_bytes;
  Tensor incoming = tape_->allocate(all_bytes, TensorKind::Communication);
  tape_->communicate(all_bytes, kGatherStream, RankGroup::Context);
  buffer_ = std::move(incoming);
  sent_ = std::move(sent);
}

}  // namespace allocmark
