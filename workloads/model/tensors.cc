#include "workloads/model/tensors.h"

namespace allocmark {

Tensor::Tensor(const Tensor& other) : pool_(other.pool_), slot_(other.slot_) {
  if (pool_ != nullptr) ++pool_->slots_[slot_].handle_count;
}

void Tensor::reset() {
  if (pool_ == nullptr) return;
  TensorPool::Slot& slot = pool_->slots_[slot_];
  if (--slot.handle_count == 0) {
    pool_->batch_->free(slot.id);
    pool_->free_slots_.push_back(slot_);
  }
  pool_ = nullptr;
}

bool Tensor::is_unique() const {
  return pool_ != nullptr && pool_->slots_[slot_].handle_count == 1;
}

std::uint64_t Tensor::size_bytes() const {
  return pool_ == nullptr ? 0 : pool_->slots_[slot_].size_bytes;
}

Tensor TensorPool::make(std::uint64_t size_bytes, TensorKind kind, std::uint32_t stream) {
  if (size_bytes == 0) return {};
  const std::uint64_t id =
      batch_->allocate({.size_bytes = size_bytes, .stream = stream, .tensor = kind});
  std::uint32_t slot = static_cast<std::uint32_t>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot] = {.id = id, .size_bytes = size_bytes, .handle_count = 1};
  return {this, slot};
}

}  // namespace allocmark
