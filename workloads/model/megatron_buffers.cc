#include "workloads/model/megatron_buffers.h"

#include <algorithm>
#include <numeric>

#include "base/divided_up.h"
#include "workloads/model/collectives.h"

namespace allocmark {
namespace {

// With the distributed optimizer parameters begin at multiples of 64 elements, and the buffer ends
// at one of 128 and the number of ranks.
constexpr std::uint64_t kStartMultiple = 64;
constexpr std::uint64_t kEndMultiple = 128;

}  // namespace

void MegatronBuffers::wrap() {
  TensorPool& pool = tape_->pool();
  std::vector<Parameter>& parameters = tape_->parameters();
  std::uint64_t count = 0;
  for (const Parameter& parameter : parameters) {
    if (distributed_) count = rounded_up(count, kStartMultiple);
    count += parameter.count;
  }
  padded_count_ = distributed_ ? rounded_up(count, std::lcm(parallel_.data, kEndMultiple)) : count;
  if (distributed_) parameters_ = pool.make(padded_count_ * 2, TensorKind::Parameter);
  gradients_ = pool.make(padded_count_ * 4, TensorKind::Gradient);
  if (distributed_) {
    for (Parameter& parameter : parameters) {
      if (parameter.count > 0) parameter.data.reset();
    }
  }
  for (const std::uint64_t own : own_counts()) {
    const Tensor copy = pool.make(own * 2, TensorKind::Workspace);
    masters_.push_back(pool.make(own * 4, TensorKind::OptimizerState));
  }
}

// Elements of each parameter that this rank's optimizer works on. The buffer begins with the last
// parameter, and each rank has an equal part of it.
std::vector<std::uint64_t> MegatronBuffers::own_counts() const {
  const std::vector<Parameter>& parameters = tape_->parameters();
  std::vector<std::uint64_t> counts;
  const std::uint64_t part = padded_count_ / parallel_.data;
  const std::uint64_t begin = distributed_ ? part * parallel_.data_rank : 0;
  const std::uint64_t end = distributed_ ? begin + part : padded_count_;
  std::uint64_t position = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].count == 0) continue;  // a stage's input
    if (distributed_) position = rounded_up(position, kStartMultiple);
    const std::uint64_t first = std::max(position, begin);
    const std::uint64_t last = std::min(position + parameters[i].count, end);
    if (first < last) counts.push_back(last - first);
    position += parameters[i].count;
  }
  return counts;
}

void MegatronBuffers::on_gradient(std::size_t parameter) {
  Parameter& own = tape_->parameters()[parameter];
  if (own.count > 0) own.gradient.reset();
}

void MegatronBuffers::step() {
  if (parallel_.data > 1)
    tape_->communicate(gradients_.size_bytes(), kReduceStream, RankGroup::Data);
  if (states_.empty()) {
    for (const Tensor& master : masters_) {
      for (int i = 0; i < 2; ++i) {
        states_.push_back(tape_->pool().make(master.size_bytes(), TensorKind::OptimizerState));
      }
    }
  }
  if (distributed_ && parallel_.data > 1) {
    tape_->communicate(parameters_.size_bytes(), kGatherStream, RankGroup::Data);
  }
}

void MegatronBuffers::clear() {
  states_.clear();
  masters_.clear();
  drop({&gradients_, &parameters_});
}

}  // namespace allocmark
