#include "workloads/model/kv_cache.h"

#include "workloads/model/functions.h"

namespace allocmark {

void KvCache::reserve(Tape& tape, std::uint64_t size_bytes) {
  if (mode_ == KvMode::Concat) return;
  for (std::array<Tensor, 2>& layer : layers_) {
    for (Tensor& half : layer) half = tape.allocate(size_bytes, TensorKind::KvCache);
  }
}

Var KvCache::append(Tape& tape, std::size_t layer, std::size_t half, const Var& fresh,
                    std::uint64_t count, std::uint64_t width) {
  Tensor& kept = layers_[layer][half];
  if (mode_ == KvMode::Concat) {
    Var all = concatenate(tape, fresh, count, width);
    kept = all.tensor;
    return all;
  }
  // The new rows are copied into place; what follows reads the cache's tensor.
  Var all = fresh;
  all.tensor = kept;
  all.count = count;
  return all;
}

void KvCache::end_batch() {
  if (mode_ == KvMode::Paged) return;
  // As Python lets go of a list: from its end.
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    for (Tensor& half : *layer) half.reset();
  }
}

}  // namespace allocmark
