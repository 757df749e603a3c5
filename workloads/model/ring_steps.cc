// See ring_steps.h.
#include "workloads/model/ring_steps.h"

#include "workloads/model/collectives.h"

namespace allocmark {

RingNumbers packed_ring(const Ring& ring) {
  const RingShape& shape = ring.shape;
  const std::uint64_t flags = (shape.gathers ? 1u : 0u) | (ring.query_apart ? 2u : 0u) |
                              (ring.key_apart ? 4u : 0u) | (ring.value_apart ? 8u : 0u);
  return {shape.batch,
          shape.token_count,
          shape.head_count,
          shape.head_width,
          shape.repeats,
          shape.ranks << 32 | shape.rank,
          ring.width << 8 | flags};
}

Ring unpacked_ring(const RingNumbers& numbers) {
  const std::uint64_t flags = numbers[6] & 0xff;
  return {.shape = {.ranks = numbers[5] >> 32,
                    .rank = numbers[5] & 0xffff'ffff,
                    .gathers = (flags & 1) != 0,
                    .batch = numbers[0],
                    .token_count = numbers[1],
                    .head_count = numbers[2],
                    .head_width = numbers[3],
                    .repeats = numbers[4]},
          .width = numbers[6] >> 8,
          .query_apart = (flags & 2) != 0,
          .key_apart = (flags & 4) != 0,
          .value_apart = (flags & 8) != 0};
}

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
