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

// All ranks compare their parameters' shapes and strides.
void DataParallel::check_shapes(const std::vector<std::size_t>& trained) {
  TensorPool& pool = tape_->pool();
  const auto small = [&](std::uint64_t size_bytes) {
    return pool.make(size_bytes, TensorKind::Communication);
  };
  std::uint64_t dimensions = 0;
  for (const std::size_t parameter : trained) {
    dimensions += tape_->parameters()[parameter].rows > 0 ? 2 : 1;
  }
  const Tensor own = small(8);
  const Tensor counts[2] = {small(8), small(8)};
  { const Tensor gathered = small(8 * settings_.ranks); }
  const Tensor sizes = small(dimensions * 2 * 8);
}

// A bucket closes with the parameter that fills it; the first one is small, so that reducing can
// begin early.
void DataParallel::make_buckets(const std::vector<std::size_t>& order,
                                std::uint64_t first_bytes_max) {
  buckets_.clear();
  Bucket bucket;
  std::uint64_t bytes_max = first_bytes_max;
  const auto close = [&] {
    if (bucket.parameter_count == 0) return;
    bucket.flat = tape_->pool().make(bucket.size_bytes, TensorKind::Communication);
    buckets_.push_back(std::move(bucket));
    bucket = {};
    bytes_max = settings_.bucket_bytes;
  };
  for (const std::size_t parameter : order) {
    bucket.size_bytes += bytes_of(parameter);
    ++bucket.parameter_count;
    bucket_of_[parameter] = buckets_.size();
    if (bucket.size_bytes >= bytes_max) close();
  }
  close();
}

// In the order in which the first backward's gradients came; the first rank's order goes to all.
void DataParallel::rebuild_buckets() {
  rebuilt_ = true;
  const std::vector<std::size_t> order = std::move(arrivals_);
  arrivals_ = {};
  const std::uint64_t first_bytes = std::min(kFirstBucketBytes, settings_.bucket_bytes);
  std::uint64_t bucket_count = 1;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    filled += bytes_of(order[i]);
    if (filled < (bucket_count == 1 ? first_bytes : settings_.bucket_bytes)) continue;
    ++bucket_count;
    filled = 0;
  }
  {
    const Tensor indexes = tape_->pool().make((order.size() + 1) * 4, TensorKind::Communication);
    const Tensor counts = tape_->pool().make(bucket_count * 4, TensorKind::Communication);
  }
  // Beside a ZeroRedundancyOptimizer they are seen to live until the next reduction.
  if (settings_.shares_states) old_buckets_ = std::move(buckets_);
  make_buckets(order, first_bytes);
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
    check_shapes(trained);
    synchronize_parameters(trained);
    // One bucket for all, until it is known in which order gradients come.
    make_buckets(trained, ~std::uint64_t{0});
  } else {
    wrap_zero(trained);
  }
}

void DataParallel::begin_forward() {
  if (settings_.kind != DataParallelKind::Ddp || rebuilt_ || arrivals_.empty()) return;
  rebuild_buckets();
}

void DataParallel::begin_backward(bool last_micro_batch) {
  reduces_ = last_micro_batch || !settings_.no_sync;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameter_count;
  if (!shards_optimizer()) return;
  filled_ = 0;
  const std::uint64_t width =
      flat_parameters_.size_bytes() / std::max<std::uint64_t>(padded_count_, 1);
  reduction_ = tape_->pool().make(settings_.reduce_elements * width, TensorKind::Communication);
}

void DataParallel::reduce(const Tensor& buffer, std::uint64_t size_bytes) {
  old_buckets_.clear();
  if (settings_.records) tape_->pool().record(buffer, kReduceStream);
  tape_->communicate(size_bytes, kReduceStream);
}

void DataParallel::on_gradient(std::size_t parameter) {
  Parameter& own = tape_->parameters()[parameter];
  if (settings_.kind == DataParallelKind::Ddp) {
    if (!reduces_) return;
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

// Each parameter, the largest first, goes to the rank that has the fewest elements so far.
std::vector<std::size_t> DataParallel::own_states(const std::vector<std::size_t>& trained,
                                                  std::uint64_t rank) const {
  std::vector<std::size_t> order = trained;
  std::stable_sort(order.begin(), order.end(), [this](std::size_t left, std::size_t right) {
    return tape_->parameters()[left].count > tape_->parameters()[right].count;
  });
  std::vector<std::uint64_t> filled(settings_.ranks, 0);
  std::vector<std::size_t> own;
  for (const std::size_t parameter : order) {
    const auto least = std::min_element(filled.begin(), filled.end());
    *least += tape_->parameters()[parameter].count;
    if (static_cast<std::uint64_t>(least - filled.begin()) == rank) own.push_back(parameter);
  }
  return own;
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
  old_buckets_.clear();
}

}  // namespace allocmark
