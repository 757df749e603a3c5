#include "workloads/model/optimizer.h"

#include <algorithm>
#include <utility>

namespace allocmark {
namespace {

// bitsandbytes keeps smaller tensors' states in four bytes.
constexpr std::uint64_t k8bitElementsMin = 4096;
constexpr std::uint64_t k8bitBlockElements = 256;
// And those of smaller tensors in PyTorch's memory where it pages (optim/optimizer.py, 0.49.2).
constexpr std::uint64_t kPagedElementsMin = 100'000;
// Elements that one thread block of a foreach operator works on.
constexpr std::uint64_t kForeachChunkElements = 65'536;

}  // namespace

void Optimizer::clip(const std::vector<OptimizedTensor>& tensors) {
  if (tensors.empty()) return;
  const std::uint64_t width = tensors.front().width;
  std::uint64_t chunks_max = 0;
  for (const OptimizedTensor& tensor : tensors) {
    chunks_max =
        std::max(chunks_max, (tensor.count + kForeachChunkElements - 1) / kForeachChunkElements);
  }
  const auto scratch = [this](std::uint64_t size_bytes) {
    return pool_->make(size_bytes, TensorKind::Workspace);
  };
  Tensor total;
  {
    Tensor partial = scratch(tensors.size() * chunks_max * 4);
    std::vector<Tensor> norms;
    for (std::size_t i = 0; i < tensors.size(); ++i) norms.push_back(scratch(width));
    partial.reset();
    {
      const Tensor stacked = scratch(tensors.size() * width);
      total = scratch(width);
    }
    while (!norms.empty()) norms.pop_back();
  }
  // max_norm / (total + 1e-6), which is a reciprocal and a product, then clamped.
  Tensor shifted = scratch(width);
  Tensor reciprocal = scratch(width);
  Tensor coefficient = scratch(width);
  drop({&reciprocal, &shifted});
  const Tensor clamped = scratch(width);
  coefficient.reset();
}

void Optimizer::make_two_states(std::uint64_t count, std::uint64_t width) {
  if (pages_states_ && count >= kPagedElementsMin) {
    managed_bytes_ += 2 * count * width;
    return;
  }
  for (int i = 0; i < 2; ++i) {
    states_.push_back(pool_->make(count * width, TensorKind::OptimizerState));
  }
}

void Optimizer::make_8bit_states(std::uint64_t count) {
  if (count < k8bitElementsMin) {
    make_two_states(count, 4);
    return;
  }
  make_two_states(count, 1);
  const std::uint64_t blocks = (count + k8bitBlockElements - 1) / k8bitBlockElements;
  for (int i = 0; i < 2; ++i) {
    states_.push_back(pool_->make(blocks * 4, TensorKind::OptimizerState));
  }
}

void Optimizer::load_states(const std::vector<OptimizedTensor>& tensors, bool on_device) {
  std::vector<Tensor> old = std::exchange(states_, {});
  has_states_ = false;
  pages_states_ = false;  // what is loaded goes to the device, and pages are never given back
  make_states(tensors, on_device);
  for (Tensor& state : old) state.reset();
}

void Optimizer::make_states(const std::vector<OptimizedTensor>& tensors, bool on_device) {
  if (has_states_) return;
  has_states_ = true;
  if (kind_ == OptimizerKind::AdamW8bit || kind_ == OptimizerKind::PagedAdamW8bit) {
    // The two tables of 256 values, signed and not.
    for (int i = 0; i < 2; ++i) states_.push_back(pool_->make(1024, TensorKind::OptimizerState));
  }
  for (const OptimizedTensor& tensor : tensors) {
    switch (kind_) {
      case OptimizerKind::Sgd:
        break;
      case OptimizerKind::SgdMomentum:
        states_.push_back(pool_->make(tensor.size_bytes(), TensorKind::OptimizerState));
        break;
      case OptimizerKind::AdamW8bit:
      case OptimizerKind::PagedAdamW8bit:
        make_8bit_states(tensor.count);
        break;
      case OptimizerKind::PagedAdamW32bit:
        make_two_states(tensor.count, 4);
        break;
      case OptimizerKind::AdamW:
      case OptimizerKind::AdamWLoop:
      case OptimizerKind::AdamWFused:
        // The fused implementation keeps each parameter's step count on the device.
        if (kind_ == OptimizerKind::AdamWFused || on_device) {
          states_.push_back(pool_->make(4, TensorKind::OptimizerState));
        }
        for (int i = 0; i < 2; ++i) {
          states_.push_back(pool_->make(tensor.size_bytes(), TensorKind::OptimizerState));
        }
        break;
    }
  }
  if (managed_bytes_ == 0) return;
  pool_->batch().mark(MarkClass::ManagedMemory, std::exchange(managed_bytes_, 0));
}

void Optimizer::loop(const std::vector<OptimizedTensor>& tensors) {
  Tensor denominator;  // the loop's variable: it goes when the next one is there
  for (const OptimizedTensor& tensor : tensors) {
    Tensor root = pool_->make(tensor.size_bytes(), TensorKind::Workspace);
    Tensor corrected = pool_->make(tensor.size_bytes(), TensorKind::Workspace);
    Tensor dropped = std::exchange(denominator, std::move(corrected));
    // The root goes first, the old denominator when its name is bound again.
    drop({&root, &dropped});
  }
}

void Optimizer::step(const std::vector<OptimizedTensor>& tensors) {
  make_states(tensors);
  if (kind_ == OptimizerKind::AdamWLoop) loop(tensors);
  if (kind_ != OptimizerKind::AdamW) return;
  // The foreach implementation makes all denominators at once and drops them from the last to the
  // first.
  std::vector<Tensor> denominators;
  for (const OptimizedTensor& tensor : tensors) {
    denominators.push_back(pool_->make(tensor.size_bytes(), TensorKind::Workspace));
  }
  while (!denominators.empty()) denominators.pop_back();
}

}  // namespace allocmark
