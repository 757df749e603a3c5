#include "workloads/model/data_parallel.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "workloads/model/collectives.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBroadcastBytes = std::uint64_t{250} << 20;

}  // namespace

std::uint64_t DataParallel::bytes_of(std::size_t parameter) const {
  const Parameter& own = tape_->parameters()[parameter];
  return own.count * own.width;
}

// The first rank's parameters and buffers go to all others. Those of one type are flattened, unless
// there is one alone, and two are under way at a time.
void DataParallel::synchronize(const std::vector<std::size_t>& parameters,
                               const ModelBuffers& buffers) {
  struct Flat {
    std::size_t first = 0;  // by which they are sent
    std::size_t tensor_count = 0;
    std::uint64_t size_bytes = 0;
  };
  std::vector<Flat> full;
  std::map<std::uint64_t, Flat> open;  // by the width of an element
  std::size_t index = 0;
  const auto add = [&](std::uint64_t size_bytes, std::uint64_t width) {
    Flat& own = open.try_emplace(width, Flat{.first = index++}).first->second;
    ++own.tensor_count;
    own.size_bytes += size_bytes;
    if (own.size_bytes >= kBroadcastBytes) full.push_back(open.extract(width).mapped());
  };
  for (const std::size_t parameter : parameters) {
    add(bytes_of(parameter), tape_->parameters()[parameter].width);
  }
  for (const Tensor& buffer : buffers.tensors) add(buffer.size_bytes(), buffers.width);
  for (const auto& [width, rest] : open) full.push_back(rest);
  std::sort(full.begin(), full.end(),
            [](const Flat& left, const Flat& right) { return left.first < right.first; });
  std::deque<Tensor> under_way;
  for (const Flat& own : full) {
    under_way.push_back(own.tensor_count == 1
                            ? Tensor()
                            : tape_->pool().make(own.size_bytes, TensorKind::Communication));
    tape_->communicate(own.size_bytes, kReduceStream, RankGroup::Data);
    if (under_way.size() == 2) under_way.pop_front();
  }
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
  const std::uint64_t first_bytes = settings_.first_bucket_bytes;
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
  if (settings_.holds_buckets) old_buckets_ = std::move(buckets_);
  make_buckets(order, first_bytes);
}

// The parameters become views of one buffer; this rank keeps a part of it in four bytes (DeepSpeed,
// runtime/zero/stage_1_and_2.py, commit edaa7221).
void DataParallel::wrap_zero(const std::vector<std::size_t>& trained) {
  TensorPool& pool = tape_->pool();
  trained_ = trained;
  positions_.assign(tape_->parameters().size(), 0);
  std::uint64_t count = 0;
  for (const std::size_t parameter : trained) {
    positions_[parameter] = count;
    count += tape_->parameters()[parameter].count;
    width_ = tape_->parameters()[parameter].width;
  }
  const std::uint64_t alignment = 2 * settings_.ranks;
  padded_count_ = (count + alignment - 1) / alignment * alignment;
  own_count_ = padded_count_ / settings_.ranks;
  pool.batch().trim();
  flat_parameters_ = pool.make(padded_count_ * width_, TensorKind::Parameter);
  for (const std::size_t parameter : trained) tape_->parameters()[parameter].data.reset();
  {
    // What has four bytes already is the master itself.
    Tensor copy;
    if (settings_.offloads || width_ < 4) {
      copy = pool.make(own_count_ * width_, TensorKind::Workspace);
    }
    if (!settings_.offloads) master_ = pool.make(own_count_ * 4, TensorKind::OptimizerState);
  }
  if (settings_.offloads) {
    std::uint64_t largest = 0;
    for (const std::size_t parameter : trained) {
      largest = std::max(largest, tape_->parameters()[parameter].count);
    }
    host_copy_ = pool.make(largest * width_, TensorKind::Gradient);
  } else {
    const Tensor zeros = pool.make(own_count_ * 4, TensorKind::Gradient);
  }
  partitions_ = {{.count = own_count_, .width = 4}};
}

void DataParallel::wrap(const std::vector<std::size_t>& all,
                        const std::vector<std::size_t>& trained, const ModelBuffers& buffers) {
  bucket_of_.assign(tape_->parameters().size(), 0);
  if (settings_.kind == DataParallelKind::Ddp) {
    check_shapes(trained);
    synchronize(all, buffers);
    for (Parameter& parameter : tape_->parameters()) {
      parameter.is_localized = parameter.is_distributed;
    }
    // One bucket for all, until it is known in which order gradients come.
    make_buckets(trained, ~std::uint64_t{0});
  } else {
    wrap_zero(trained);
  }
}

void DataParallel::begin_forward(const ModelBuffers& buffers, bool has_graph,
                                 bool last_micro_batch) {
  if (settings_.kind != DataParallelKind::Ddp) return;
  if (has_graph && !rebuilt_ && !arrivals_.empty()) rebuild_buckets();
  // After a forward whose gradients are not reduced, nobody gives buffers.
  const bool gives =
      std::exchange(gives_buffers_, has_graph && (last_micro_batch || !settings_.no_sync));
  if (buffers.tensors.size() < 2 || !gives) return;
  std::uint64_t size_bytes = 0;
  for (const Tensor& buffer : buffers.tensors) size_bytes += buffer.size_bytes();
  const Tensor given = tape_->pool().make(size_bytes, TensorKind::Communication);
}

void DataParallel::begin_backward(bool last_micro_batch) {
  last_micro_batch_ = last_micro_batch;
  reduces_ = last_micro_batch || !settings_.no_sync;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameter_count;
}

void DataParallel::reduce(const Tensor& buffer, std::uint64_t size_bytes) {
  old_buckets_.clear();
  if (settings_.records) tape_->pool().record(buffer, kReduceStream);
  tape_->communicate(size_bytes, kReduceStream, RankGroup::Data);
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
  // The first gradient of a backward makes the buffer. Stage 1 reduces after the last micro batch.
  const std::uint64_t size_bytes = settings_.zero.reduce_elements * width_;
  for (Tensor& buffer : reductions_) {
    const bool is_second = &buffer != reductions_;
    if (buffer || (is_second && !settings_.zero.overlaps)) continue;
    buffer = tape_->pool().make(size_bytes, TensorKind::Communication);
  }
  if (reduces_at_once()) put_into_reduction(parameter);
}

std::uint64_t DataParallel::own_elements(std::size_t parameter) const {
  const std::uint64_t begin = own_count_ * settings_.rank;
  const std::uint64_t first = std::max(positions_[parameter], begin);
  const std::uint64_t end =
      std::min(positions_[parameter] + tape_->parameters()[parameter].count, begin + own_count_);
  return first < end ? end - first : 0;
}

// What goes to one rank lies in one piece. Pieces are joined until they are as large as a buffer.
void DataParallel::join_pieces() {
  std::vector<std::uint64_t> pieces;
  std::uint64_t last = settings_.ranks;
  for (const std::size_t parameter : reducing_) {
    const std::uint64_t end = positions_[parameter] + tape_->parameters()[parameter].count;
    for (std::uint64_t at = positions_[parameter]; at < end;) {
      const std::uint64_t rank = at / own_count_;
      const std::uint64_t next = std::min(end, (rank + 1) * own_count_);
      if (std::exchange(last, rank) != rank) pieces.push_back(0);
      pieces.back() += next - at;
      at = next;
    }
  }
  std::uint64_t piece_count = 0, element_count = 0;
  const auto join = [&] {
    if (piece_count > 1) {
      const Tensor joined = tape_->pool().make(element_count * width_, TensorKind::Communication,
                                               settings_.zero.reduce_stream());
    }
    piece_count = element_count = 0;
  };
  for (const std::uint64_t piece : pieces) {
    ++piece_count;
    element_count += piece;
    if (element_count > settings_.zero.reduce_elements) join();
  }
  join();
}

// The gradient becomes a view of the buffer, unless it is larger.
void DataParallel::put_into_reduction(std::size_t parameter) {
  Parameter& own = tape_->parameters()[parameter];
  if (filled_ > 0 && filled_ + own.count > settings_.zero.reduce_elements) end_zero_reduction();
  if (own.count <= settings_.zero.reduce_elements) {
    own.gradient.reset();
  } else if (settings_.offloads) {
    // Whoever copies it to the host wants one of its own.
    own.gradient = tape_->pool().make(bytes_of(parameter), TensorKind::Gradient);
  }
  filled_ += own.count;
  reducing_.push_back(parameter);
}

// Gradients of which this rank's partition has a part are copied to a buffer that the first makes,
// or to the host in four bytes, behind their norm's copy in eight.
void DataParallel::keep_own(std::size_t parameter) {
  const std::uint64_t own = own_elements(parameter);
  if (own == 0) return;
  TensorPool& pool = tape_->pool();
  if (settings_.offloads) {
    if (!last_micro_batch_) return;
    const std::uint32_t stream = settings_.zero.reduce_stream();
    { const Tensor exact = pool.make(own * 8, TensorKind::Workspace, stream); }
    if (width_ < 4) const Tensor wide = pool.make(own * 4, TensorKind::Workspace, stream);
    return;
  }
  if (own_gradients_) return;
  std::uint64_t count = 0;
  for (const std::size_t one : trained_) {
    if (own_elements(one) > 0) count += tape_->parameters()[one].count;
  }
  own_gradients_ = pool.make(count * width_, TensorKind::Gradient, settings_.zero.reduce_stream());
}

// Stage 1 keeps a large one that is not among them until all are reduced.
void DataParallel::end_zero_reduction() {
  if (reducing_.empty()) return;
  join_pieces();
  reduce(reductions_[0], filled_ * width_);
  for (const std::size_t parameter : reducing_) {
    keep_own(parameter);
    if (own_elements(parameter) > 0 || settings_.kind == DataParallelKind::Zero2) {
      tape_->parameters()[parameter].gradient.reset();
    }
  }
  reducing_.clear();
  filled_ = 0;
}

void DataParallel::end_backward() {
  if (!shards_optimizer()) return;
  if (settings_.kind == DataParallelKind::Zero1) {
    if (!last_micro_batch_) return;
    if (!reduces_at_once()) {
      for (const std::size_t parameter : trained_) put_into_reduction(parameter);
    }
  }
  end_zero_reduction();
  drop({&reductions_[0], &reductions_[1]});
  for (const std::size_t parameter : trained_) tape_->parameters()[parameter].gradient.reset();
  // A later micro batch is added to the first one's partition.
  if (!accumulated_) accumulated_ = std::move(own_gradients_);
  own_gradients_.reset();
}

void DataParallel::begin_step() {
  if (!shards_optimizer() || settings_.offloads) return;
  TensorPool& pool = tape_->pool();
  // The norm, clipped or not, of a copy of each piece in eight bytes.
  std::uint64_t piece_count = 0, element_count = 0;
  for (const std::size_t parameter : trained_) {
    const std::uint64_t own = own_elements(parameter);
    if (own == 0) continue;
    const Tensor exact = pool.make(own * 8, TensorKind::Workspace);
    ++piece_count;
    element_count += own;
  }
  Tensor flat;
  // One piece is a view, unless it is padded.
  if (piece_count > 1 || element_count < own_count_) {
    flat = pool.make(own_count_ * width_, TensorKind::Gradient);
  }
  if (width_ < 4) {
    step_gradient_ = pool.make(own_count_ * 4, TensorKind::Gradient);
  } else {
    step_gradient_ = flat ? std::move(flat) : std::move(accumulated_);
  }
  drop({&flat, &accumulated_});
}

void DataParallel::end_step() {
  if (!shards_optimizer()) return;
  step_gradient_.reset();
  tape_->communicate(flat_parameters_.size_bytes(), kGatherStream, RankGroup::Data);
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

void DataParallel::clear() {
  drop({&flat_parameters_, &master_, &reductions_[0], &reductions_[1], &own_gradients_,
        &accumulated_, &step_gradient_, &host_copy_});
  buckets_.clear();
  old_buckets_.clear();
}

}  // namespace allocmark
