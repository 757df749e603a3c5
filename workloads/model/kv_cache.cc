#include "workloads/model/kv_cache.h"

namespace allocmark {

Tensor KvCache::make(Ops& ops, std::uint64_t token_count) {
  const TransformerSetup& setup = ops.setup();
  return ops.pool().make(token_count * setup.model.kv_width() * setup.narrow_bytes,
                         TensorKind::KvCache);
}

void KvCache::reserve(Ops& ops, std::uint64_t token_count) {
  if (mode_ == KvMode::Concat) return;
  for (std::array<Tensor, 2>& layer : layers_) {
    for (Tensor& half : layer) half = make(ops, token_count);
  }
}

void KvCache::append(Ops& ops) {
  if (mode_ != KvMode::Concat) return;
  std::array<Tensor, 2>& layer = layers_[next_layer_];
  next_layer_ = (next_layer_ + 1) % layers_.size();
  for (Tensor& half : layer) half = make(ops, ops.setup().batch * ops.setup().key_count());
}

void KvCache::end_batch() {
  next_layer_ = 0;
  if (mode_ == KvMode::Paged) return;
  for (std::array<Tensor, 2>& layer : layers_) layer = {};
}

}  // namespace allocmark
