#include "workloads/model/data_parallel.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "workloads/model/collectives.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kFirstBucketBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kBroadcastBytes = std::uint64_t{250} << 20;

}  // namespace

std::uint64_t DataParallel::bytes_of(std::size_t parameter) const {
  const Parameter& own = tape_->parameters()[parameter];
  return own.count * own.width;
}

// The first rank's parameters go to all others, flattened; two buffers are under way at a time.
void DataParallel::synchronize_parameters(const std::vector<std::size_t>& trained) {
  std::deque<Tensor> under_way;
  std::uint64_t size_bytes = 0;
  const auto send = [&] {
    if (size_bytes == 0) return;
    under_way.push_back(tape_->pool().make(size_bytes, TensorKind::Communication));
    tape_->communicate(size_bytes, kReduceStream);
    if (under_way.size() == 2) under_way.pop_front();
    size_bytes = 0;
  };
  for (const std::size_t parameter : trained) {
    size_bytes += bytes_of(parameter);
    if (size_bytes >= kBroadcastBytes) send();
  }
  send();
  while (!under_way.empty()) under_way.pop_front();
}

// A bucket closes with the parameter that fills it; the first one is small, so that reducing can
// begin early. `reversed`: gradients come roughly from the last parameter to the first.
void DataParallel::make_buckets(const std::vector<std::size_t>& order, bool reversed) {
  buckets_.clear();
  std::vector<std::vector<std::size_t>> members(1);
  std::uint64_t size_bytes = 0;
  std::uint64_t bytes_max = std::min(kFirstBucketBytes, settings_.bucket_bytes);
  for (const std::size_t parameter : order) {
    members.back().push_back(parameter);
    size_bytes += bytes_of(parameter);
    if (size_bytes < bytes_max) continue;
    members.emplace_back();
    size_bytes = 0;
    bytes_max = settings_.bucket_bytes;
  }
  if (members.back().empty()) members.pop_back();
  if (reversed) std::reverse(members.begin(), members.end());
  for (const std::vector<std::size_t>& parameters : members) {
    Bucket bucket;
    for (const std::size_t parameter : parameters) {
      bucket.size_bytes += bytes_of(parameter);
      bucket_of_[parameter] = buckets_.size();
    }
    bucket.parameter_count = parameters.size();
    bucket.flat = tape_->pool().make(bucket.size_bytes, TensorKind::Communication);
    buckets_.push_back(std::move(bucket));
  }
}

void DataParallel::wrap_zero(const std::vector<std::size_t>& trained) {
  TensorPool& pool = tape_->pool();
  std::uint64_t count = 0;
  std::uint64_t width = 2;
  // The parameters go to the host and come back as views of one buffer.
  for (const std::size_t parameter : trained) {
    count += tape_->parameters()[parameter].count;
    width = tape_->parameters()[parameter].width;
    tape_->parameters()[parameter].data.reset();
  }
  const std::uint64_t alignment = 2 * settings_.ranks;
  padded_count_ = (count + alignment - 1) / alignment * alignment;
  flat_parameters_ = pool.make(padded_count_ * width, TensorKind::Parameter);
  const std::uint64_t own = padded_count_ / settings_.ranks;
  const Tensor copy = pool.make(own * width, TensorKind::Workspace);
  master_ = pool.make(own * 4, TensorKind::OptimizerState);
  partitions_ = {{.count = own, .width = 4}};
}

void DataParallel::wrap(const std::vector<std::size_t>& trained) {
  bucket_of_.assign(tape_->parameters().size(), 0);
  if (settings_.kind == DataParallelKind::Ddp) {
    synchronize_parameters(trained);
    make_buckets(trained, true);
  } else {
    wrap_zero(trained);
  }
}

void DataParallel::begin_forward() {
  if (settings_.kind != DataParallelKind::Ddp || rebuilt_ || arrivals_.empty()) return;
  rebuilt_ = true;
  const std::vector<std::size_t> order = std::move(arrivals_);
  arrivals_ = {};
  make_buckets(order, false);
}

void DataParallel::begin_backward() {
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameter_count;
  if (!shards_optimizer()) return;
  filled_ = 0;
  const std::uint64_t width =
      flat_parameters_.size_bytes() / std::max<std::uint64_t>(padded_count_, 1);
  reduction_ = tape_->pool().make(settings_.reduce_elements * width, TensorKind::Communication);
}

void DataParallel::reduce(const Tensor& buffer, std::uint64_t size_bytes) {
  if (settings_.records) tape_->pool().record(buffer, kReduceStream);
  tape_->communicate(size_bytes, kReduceStream);
}

void DataParallel::on_gradient(std::size_t parameter) {
  Parameter& own = tape_->parameters()[parameter];
  if (settings_.kind == DataParallelKind::Ddp) {
    if (!rebuilt_) arrivals_.push_back(parameter);
    if (settings_.bucket_view) own.gradient.reset();
    Bucket& bucket = buckets_[bucket_of_[parameter]];
    if (bucket.pending > 0 && --bucket.pending == 0) reduce(bucket.flat, bucket.size_bytes);
    return;
  }
  if (filled_ + own.count > settings_.reduce_elements) {
    reduce(reduction_, filled_ * own.width);
    filled_ = 0;
  }
  filled_ += own.count;
  // Stage 2 keeps only the gradients of its own partition, in a buffer that the first one makes.
  if (settings_.kind == DataParallelKind::Zero2) {
    if (!own_gradients_) {
      own_gradients_ =
          tape_->pool().make(padded_count_ / settings_.ranks * own.width, TensorKind::Gradient);
    }
    own.gradient.reset();
  }
}

void DataParallel::end_backward() {
  if (!shards_optimizer()) return;
  if (filled_ > 0) reduce(reduction_, filled_ * 2);
  filled_ = 0;
  reduction_.reset();
}

void DataParallel::begin_step() {
  if (!shards_optimizer()) return;
  TensorPool& pool = tape_->pool();
  const std::uint64_t own = padded_count_ / settings_.ranks;
  const Tensor flat =
      pool.make(own * (flat_parameters_.size_bytes() / padded_count_), TensorKind::Gradient);
  step_gradient_ = pool.make(own * 4, TensorKind::Gradient);
}

void DataParallel::end_step() {
  if (!shards_optimizer()) return;
  step_gradient_.reset();
  own_gradients_.reset();
  tape_->communicate(flat_parameters_.size_bytes(), kGatherStream);
}

void DataParallel::clear() {
  for (Tensor* tensor :
       {&flat_parameters_, &master_, &reduction_, &own_gradients_, &step_gradient_}) {
    tensor->reset();
  }
  buckets_.clear();
}

}  // namespace allocmark
