// Tensors with shared ownership: the block is freed when its last handle goes, as in PyTorch. So
// operators only have to hold and drop handles as the real ones do, and the frees fall where they
// fall there.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "workloads/trace/event_batch.h"

namespace allocmark {

class TensorPool;

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), slot_(other.slot_) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Tensor() { reset(); }
  void reset();
  [[nodiscard]] explicit operator bool() const { return pool_ != nullptr; }
  // Is this the only handle?
  [[nodiscard]] bool is_unique() const;
  [[nodiscard]] std::uint64_t size_bytes() const;

 private:
  friend class TensorPool;
  Tensor(TensorPool* pool, std::uint32_t slot) : pool_(pool), slot_(slot) {}

  TensorPool* pool_ = nullptr;
  std::uint32_t slot_ = 0;
};

// They go in this order.
inline void drop(std::initializer_list<Tensor*> gone) {
  for (Tensor* one : gone) one->reset();
}

// Must outlive its tensors. Not movable: tensors point to it.
class TensorPool {
 public:
  explicit TensorPool(EventBatch* batch) : batch_(batch) {}
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;

  // Of 0 bytes: no tensor, as PyTorch asks for no block.
  [[nodiscard]] Tensor make(std::uint64_t size_bytes, TensorKind kind, std::uint32_t stream = 0);
  // The tensor's block is used on another stream (record_stream).
  void record(const Tensor& tensor, std::uint32_t stream) {
    if (tensor) batch_->record(slots_[tensor.slot_].id, stream);
  }
  [[nodiscard]] EventBatch& batch() { return *batch_; }

 private:
  friend class Tensor;
  struct Slot {
    std::uint64_t id = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t handle_count = 0;
  };

  EventBatch* batch_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
};

// What a module has beside parameters, all of one type. DDP gives them to all ranks.
struct ModelBuffers {
  std::span<const Tensor> tensors;
  std::uint64_t width = 0;  // bytes of an element
};

// What fully_shard's to_empty() makes behind a parameter: a buffer of the model, or once more the
// rows of one that another module has too; those made first go then.
struct LateTensor {
  std::size_t behind = 0;
  std::uint64_t buffer_bytes = 0;  // 0: `again`
  std::size_t again = 0;
};

}  // namespace allocmark
