#include "workloads/model/optimizer.h"

#include <algorithm>
#include <utility>

#include "base/divided_up.h"

namespace allocmark {
namespace {

// bitsandbytes keeps smaller tensors' states in four bytes.
constexpr std::uint64_t k8bitElementsMin = 4096;
constexpr std::uint64_t k8bitBlockElements = 256;
// What their values stand for: one such table of signed ones and one of the others.
constexpr std::uint64_t k8bitTableElements = 256;
// And those of smaller tensors in PyTorch's memory where it pages (optim/optimizer.py, 0.49.2).
constexpr std::uint64_t kPagedElementsMin = 100'000;
// Elements that one thread block of a foreach operator works on.
constexpr std::uint64_t kForeachChunkElements = 65'536;

// Foreach operators take each type by itself, the one that came last first.
std::vector<std::vector<OptimizedTensor>> types_of(const std::vector<OptimizedTensor>& tensors) {
  std::vector<std::vector<OptimizedTensor>> types;
  for (const OptimizedTensor& tensor : tensors) {
    auto own =
        std::ranges::find(types, tensor.width, [](const auto& type) { return type.front().width; });
    if (own == types.end()) own = types.emplace(types.begin());
    own->push_back(tensor);
  }
  return types;
}

// Those of which each rank has a part of the sum, but tables, which have all of it.
std::vector<OptimizedTensor> summed_gradients(std::vector<OptimizedTensor> tensors) {
  std::erase_if(tensors, [](const OptimizedTensor& one) {
    return !one.cuts_gradient || one.gradient_count > 0;
  });
  return tensors;
}

// From the last to the first.
void let_go(std::vector<Tensor> old) {
  while (!old.empty()) old.pop_back();
}

}  // namespace

// A norm of each tensor of one type, by way of partial sums of all.
void Optimizer::make_norms(const std::vector<OptimizedTensor>& tensors,
                           std::vector<Tensor>* norms) {
  std::uint64_t chunks_max = 0;
  for (const OptimizedTensor& tensor : tensors) {
    const std::uint64_t count = std::max(tensor.count, tensor.gradient_count);
    chunks_max = std::max(chunks_max, divided_up(count, kForeachChunkElements));
  }
  const Tensor partial = pool_->make(tensors.size() * chunks_max * 4, TensorKind::Workspace);
  std::vector<Tensor> made;
  for (const OptimizedTensor& tensor : tensors) {
    made.push_back(pool_->make(tensor.width, TensorKind::Workspace));
  }
  // Tensors without elements get a zero of their own, and the last ones are nobody's.
  auto next = made.begin();
  for (const OptimizedTensor& tensor : tensors) {
    norms->push_back(tensor.count > 0 ? std::move(*next++)
                                      : pool_->make(tensor.width, TensorKind::Workspace));
  }
}

void Optimizer::clip(const std::vector<OptimizedTensor>& tensors, bool are_shards) {
  if (tensors.empty()) return;
  const std::uint64_t width = std::ranges::max(tensors, {}, &OptimizedTensor::width).width;
  const auto scratch = [this](std::uint64_t size_bytes) {
    return pool_->make(size_bytes, TensorKind::Workspace);
  };
  // Gradients of which each rank has a part of the sum are summed first; a table's is not, as it is
  // whole, but its norm is.
  const std::vector<OptimizedTensor> summed = summed_gradients(tensors);
  are_shards |= !summed.empty();
  Tensor total;
  {
    std::vector<Tensor> norms;
    {
      std::vector<Tensor> sums = cut_gradients(summed);
      for (const std::vector<OptimizedTensor>& type : types_of(tensors)) make_norms(type, &norms);
      let_go(std::move(sums));
    }
    std::vector<Tensor> joined_norms;
    for (const OptimizedTensor& tensor : tensors) {
      const bool is_summed = !summed.empty() && tensor.cuts_gradient;
      if (is_summed || tensor.is_replicated) joined_norms.push_back(scratch(width));
    }
    {
      const std::uint64_t stacked_bytes = tensors.size() * width;
      const Tensor stacked = scratch(stacked_bytes);
      let_go(std::move(joined_norms));
      Tensor joined;  // the root of all ranks' sum of squares, along each side of their grid
      const bool is_grid = std::ranges::any_of(tensors, &OptimizedTensor::is_replicated);
      for (int side = 0; are_shards && side < (is_grid ? 2 : 1); ++side) {
        const Tensor squares = scratch(stacked_bytes);
        const Tensor sums = scratch(stacked_bytes);
        joined = scratch(stacked_bytes);
      }
      total = scratch(width);
    }
    let_go(std::move(norms));
  }
  // max_norm / (total + 1e-6), which is a reciprocal and a product, then clamped.
  Tensor shifted = scratch(width);
  Tensor reciprocal = scratch(width);
  Tensor coefficient = scratch(width);
  drop({&reciprocal, &shifted});
  const Tensor clamped = scratch(width);
  let_go(cut_gradients(summed));
  coefficient.reset();
}

void Optimizer::add_states(std::size_t count, std::uint64_t elements, std::uint64_t width) {
  for (std::size_t i = 0; i < count; ++i) {
    states_.push_back(pool_->make(elements * width, TensorKind::OptimizerState));
    widths_.push_back(width);
    are_distributed_.push_back(adds_distributed_ && elements > 1);
  }
}

void Optimizer::make_two_states(std::uint64_t count, std::uint64_t width) {
  if (pages_states_ && count >= kPagedElementsMin) {
    managed_bytes_ += 2 * count * width;
    return;
  }
  add_states(2, count, width);
}

void Optimizer::make_8bit_states(std::uint64_t count, StatesFrom from) {
  if (count < k8bitElementsMin) {
    make_two_states(count, 4);
    return;
  }
  if (from == StatesFrom::Step) {
    while (tables_.size() < 2) {
      tables_.push_back(pool_->make(k8bitTableElements * 4, TensorKind::OptimizerState));
    }
    make_two_states(count, 1);
  } else {
    // States of a file share their tables, unless each goes to the device by itself.
    const bool with_tables = from == StatesFrom::HostFile || !has_loaded_tables_;
    has_loaded_tables_ = true;
    for (int state = 0; state < 2; ++state) {
      add_states(1, count, 1);
      if (with_tables) add_states(1, k8bitTableElements, 4);
    }
  }
  add_states(2, divided_up(count, k8bitBlockElements), 4);
}

std::vector<Tensor> Optimizer::load_states(const std::vector<OptimizedTensor>& tensors,
                                           bool on_device) {
  std::vector<Tensor> old = std::exchange(states_, {});
  widths_.clear();
  are_distributed_.clear();
  has_states_ = has_loaded_tables_ = false;
  lone_count_ = tensors.size();
  pages_states_ = false;  // what is loaded goes to the device, and pages are never given back
  make_states(tensors, on_device ? StatesFrom::DeviceFile : StatesFrom::HostFile);
  std::vector<Tensor> file;
  if (on_device) file = copy_states();
  for (Tensor& state : old) state.reset();
  return file;
}

// bitsandbytes copies all as copy.deepcopy does: the bytes, and a tensor of one element that gets
// them. PyTorch copies those of DTensors.
std::vector<Tensor> Optimizer::copy_states() {
  const bool copies_all = kind_ == OptimizerKind::AdamW8bit;
  std::vector<Tensor> originals;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!copies_all && !are_distributed_[i]) continue;
    Tensor copy = pool_->make(states_[i].size_bytes(), TensorKind::OptimizerState);
    originals.push_back(std::exchange(states_[i], std::move(copy)));
    if (copies_all) const Tensor element = pool_->make(widths_[i], TensorKind::Workspace);
  }
  return originals;
}

void Optimizer::make_states(const std::vector<OptimizedTensor>& tensors, StatesFrom from) {
  if (has_states_) return;
  has_states_ = true;
  if (kind_ == OptimizerKind::SgdMomentum) {  // made by the foreach operators themselves
    for (const std::vector<OptimizedTensor>& type : types_of(tensors)) {
      for (const OptimizedTensor& tensor : type) {
        adds_distributed_ = tensor.is_distributed;
        // Momentum begins as a copy of the gradient, also of one that is larger than its tensor.
        add_states(1, std::max(tensor.count, tensor.gradient_count), tensor.width);
      }
    }
    return;
  }
  for (const OptimizedTensor& tensor : tensors) {
    adds_distributed_ = tensor.is_distributed;
    switch (kind_) {
      case OptimizerKind::Sgd:
      case OptimizerKind::SgdMomentum:
        break;
      case OptimizerKind::AdamW8bit:
      case OptimizerKind::PagedAdamW8bit:
        make_8bit_states(tensor.count, from);
        break;
      case OptimizerKind::PagedAdamW32bit:
        make_two_states(tensor.count, 4);
        break;
      case OptimizerKind::AdamW:
      case OptimizerKind::AdamWLoop:
      case OptimizerKind::AdamWFused:
        // The fused implementation keeps each parameter's step count on the device.
        if (kind_ == OptimizerKind::AdamWFused || from == StatesFrom::DeviceFile)
          add_states(1, 1, 4);
        add_states(2, tensor.count, tensor.width);
        break;
    }
  }
  if (managed_bytes_ == 0) return;
  pool_->batch().mark(MarkClass::ManagedMemory, std::exchange(managed_bytes_, 0));
}

std::vector<Tensor> Optimizer::cut_gradients(const std::vector<OptimizedTensor>& tensors) {
  std::vector<Tensor> parts;
  for (const OptimizedTensor& tensor : tensors) {
    if (tensor.cuts_gradient)
      parts.push_back(pool_->make(tensor.size_bytes(), TensorKind::Gradient));
  }
  return parts;
}

// For the mean, and twice for the mean of squares; for momentum, and twice for what is added to it.
void Optimizer::cut_for_moments(const std::vector<OptimizedTensor>& tensors) {
  let_go(cut_gradients(tensors));
  std::vector<Tensor> factors = cut_gradients(tensors);
  let_go(cut_gradients(tensors));
  let_go(std::move(factors));
}

void Optimizer::loop(const std::vector<OptimizedTensor>& tensors) {
  Tensor denominator;  // the loop's variable: it goes when the next one is there
  for (const OptimizedTensor& tensor : tensors) {
    cut_for_moments({tensor});
    Tensor root = pool_->make(tensor.size_bytes(), TensorKind::Workspace);
    Tensor corrected = pool_->make(tensor.size_bytes(), TensorKind::Workspace);
    Tensor dropped = std::exchange(denominator, std::move(corrected));
    // The root goes first, the old denominator when its name is bound again.
    drop({&root, &dropped});
  }
}

void Optimizer::step_on(const OptimizedTensor& tensor, std::size_t index) {
  if (index == lone_count_) {
    has_states_ = false;
    ++lone_count_;
  }
  step({tensor});
}

void Optimizer::step(const std::vector<OptimizedTensor>& tensors) {
  const bool has_states = has_states_;
  make_states(tensors, StatesFrom::Step);
  if (kind_ == OptimizerKind::AdamWLoop) loop(tensors);
  // Momentum in place: a table's is whole, as its gradient is.
  if (kind_ == OptimizerKind::SgdMomentum && has_states) cut_for_moments(summed_gradients(tensors));
  if (kind_ == OptimizerKind::Sgd || kind_ == OptimizerKind::SgdMomentum ||
      kind_ == OptimizerKind::AdamWFused) {
    return let_go(cut_gradients(tensors));
  }
  if (kind_ != OptimizerKind::AdamW) return;
  // The foreach implementation makes all denominators at once and drops them from the last to the
  // first.
  std::vector<Tensor> denominators;
  for (const std::vector<OptimizedTensor>& type : types_of(tensors)) {
    std::vector<Tensor> fresh;
    cut_for_moments(type);
    for (const OptimizedTensor& tensor : type) {
      fresh.push_back(pool_->make(tensor.size_bytes(), TensorKind::Workspace));
    }
    let_go(std::exchange(denominators, std::move(fresh)));  // when their name is bound again
  }
  let_go(std::move(denominators));
}

}  // namespace allocmark
