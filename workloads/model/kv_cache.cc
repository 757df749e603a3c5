#include "workloads/model/kv_cache.h"

#include "workloads/model/functions.h"

namespace allocmark {

void KvCache::reserve(Tape& tape, std::uint64_t size_bytes) {
  reserved_bytes_ = size_bytes;
  if (mode_ != KvMode::Paged) return;
  for (std::array<Tensor, 2>& layer : layers_) {
    for (Tensor& half : layer) half = tape.allocate(size_bytes, TensorKind::KvCache);
  }
}

Var KvCache::append(Tape& tape, std::size_t layer, std::size_t half, const Var& fresh,
                    std::uint64_t count, std::uint64_t width, std::uint64_t tokens) {
  Tensor& kept = layers_[layer][half];
  if (mode_ == KvMode::Concat) {
    Var all = concatenate(tape, fresh, count, width);
    kept = all.tensor;
    return all;
  }
  if (mode_ == KvMode::Preallocated && half == 0) {
    if (!kept) {
      for (Tensor& tensor : layers_[layer]) {
        tensor = tape.allocate(reserved_bytes_, TensorKind::KvCache);
      }
      counts_[layer] = tape.allocate(8, TensorKind::KvCache);
    }
    Tensor range = tape.activation(tokens * 8);
    const Tensor places = tape.activation(tokens * 8);
    range.reset();
  }
  // The new rows are copied into place; what follows reads the cache's tensor.
  Var all = fresh;
  all.tensor = kept;
  all.count = count;
  if (mode_ == KvMode::Preallocated) all.heads_first = true;
  return all;
}

void KvCache::keep_window(Tape& tape, std::size_t layer) {
  Tensor& window = counts_[layer];
  if (mode_ == KvMode::Concat && !window) window = tape.allocate(8, TensorKind::KvCache);
}

Var KvCache::held(std::size_t layer, std::size_t half, std::uint64_t count,
                  std::uint64_t width) const {
  return {.tensor = layers_[layer][half], .count = count, .width = width, .heads_first = true};
}

void KvCache::reorder(Tape& tape, std::size_t layer) {
  for (Tensor& half : layers_[layer]) {
    half = tape.allocate(half.size_bytes(), TensorKind::KvCache);
  }
}

void KvCache::end_batch() {
  if (mode_ != KvMode::Paged) clear();
}

void KvCache::clear() {
  // As Python lets go of a list: from its end.
  for (std::size_t i = layers_.size(); i-- > 0;) {
    for (Tensor& half : layers_[i]) half.reset();
    counts_[i].reset();
  }
}

}  // namespace allocmark
