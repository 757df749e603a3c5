// Replicas that exchange gradients: DistributedDataParallel's buckets (PyTorch), and the sharded
// optimizer of ZeRO stages 1 and 2 (DeepSpeed). Hears of every finished gradient from the tape, and
// says what the optimizer works on.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/collectives.h"
#include "workloads/model/optimizer.h"
#include "workloads/model/tape.h"

namespace allocmark {

enum class DataParallelKind : std::uint8_t { None, Ddp, Zero1, Zero2, Zero3, Fsdp1, Fsdp2 };

// DeepSpeed's own settings, in elements; its presets.
struct ZeroSettings {
  std::uint64_t reduce_elements = 500'000'000;  // reduce_bucket_size
  bool overlaps = false;  // overlap_comm: what is reduced and gathered has streams of its own
  // Of the third stage.
  std::uint64_t prefetch_elements = 50'000'000;  // stage3_prefetch_bucket_size
  std::uint64_t persistent_elements = 100'000;   // stage3_param_persistence_threshold
  std::uint64_t live_elements = 1'000'000'000;   // stage3_max_live_parameters
  std::uint64_t reuse_elements = 1'000'000'000;  // stage3_max_reuse_distance
  std::uint64_t group_elements = 1'000'000'000;  // sub_group_size

  // Of gradients, and of the third stage's parameters.
  [[nodiscard]] std::uint32_t reduce_stream() const { return overlaps ? kReduceStream : 0; }
  [[nodiscard]] std::uint32_t gather_stream() const { return overlaps ? kGatherStream : 0; }
};

struct DataParallelSettings {
  DataParallelKind kind = DataParallelKind::None;
  std::uint64_t ranks = 1;
  std::uint64_t rank = 0;
  std::uint64_t replicas = 1;  // FSDP: groups of `ranks` that reduce their shards' gradients again
  std::uint64_t bucket_bytes = std::uint64_t{25} << 20;  // DDP: a bucket closes once this large
  std::uint64_t first_bucket_bytes = std::uint64_t{1} << 20;  // and the first one
  bool shares_states = false;  // DDP with ZeroRedundancyOptimizer: states of whole parameters
  bool holds_buckets = false;  // DDP: the first buckets go with the second step's reduction
  bool no_sync = false;        // DDP: only the last micro batch reduces gradients
  bool bucket_view = false;    // DDP: gradients are views of the buckets
  ZeroSettings zero;
  bool reshard = true;          // FSDP: gathered parameters go after the forward
  bool prefetch = true;         // FSDP: the next gather begins before it is needed
  bool gathers_narrow = false;  // FSDP: gathered and computed in two bytes
  bool offloads = false;  // ZeRO: states and gradients of this rank's partition are on the host
  bool offloads_parameters = false;  // ZeRO-3: and parameters, whose parts come to be gathered
  bool defers_parameters = false;    // FSDP, ZeRO-3: the model is made in shards, never as a whole
  bool records = true;               // buffers of collectives are recorded on their stream

  [[nodiscard]] bool is_deepspeed() const {
    return kind >= DataParallelKind::Zero1 && kind <= DataParallelKind::Zero3;
  }
};

class DataParallel {
 public:
  DataParallel(const DataParallelSettings& settings, Tape* tape)
      : settings_(settings), tape_(tape) {}

  // Once the model is there. Parameter indexes in the model's order.
  void wrap(const std::vector<std::size_t>& all, const std::vector<std::size_t>& trained,
            const ModelBuffers& buffers);
  // `has_graph`: of a training's pass, or an evaluation's that keeps one.
  void begin_forward(const ModelBuffers& buffers, bool has_graph, bool last_micro_batch);
  void begin_backward(bool last_micro_batch);
  void on_gradient(std::size_t parameter);
  void end_backward();
  // ZeRO: what the optimizer steps on, instead of parameters. Empty for DDP.
  [[nodiscard]] const std::vector<OptimizedTensor>& partitions() const { return partitions_; }
  // ZeroRedundancyOptimizer: the parameters whose states are on this rank, the largest first.
  [[nodiscard]] std::vector<std::size_t> own_states(const std::vector<std::size_t>& trained,
                                                    std::uint64_t rank) const;
  [[nodiscard]] bool shares_states() const { return settings_.shares_states; }
  void begin_step();  // ZeRO: the gradient of the partition in four bytes
  void end_step();    // ZeRO: gathers the new parameters
  [[nodiscard]] bool shards_optimizer() const {
    return settings_.kind == DataParallelKind::Zero1 || settings_.kind == DataParallelKind::Zero2;
  }
  void clear();

 private:
  struct Bucket {
    std::uint64_t size_bytes = 0;
    std::size_t parameter_count = 0;
    std::size_t pending = 0;
    Tensor flat;
  };

  void synchronize(const std::vector<std::size_t>& parameters, const ModelBuffers& buffers);
  void check_shapes(const std::vector<std::size_t>& trained);
  void make_buckets(const std::vector<std::size_t>& order, std::uint64_t first_bytes_max);
  void rebuild_buckets();
  void wrap_zero(const std::vector<std::size_t>& trained);
  // Stage 1 does at the step's end, unless reductions overlap.
  [[nodiscard]] bool reduces_at_once() const {
    return settings_.kind == DataParallelKind::Zero2 ||
           (settings_.zero.overlaps && last_micro_batch_);
  }
  void put_into_reduction(std::size_t parameter);
  void end_zero_reduction();
  // Elements of a parameter in this rank's partition.
  [[nodiscard]] std::uint64_t own_elements(std::size_t parameter) const;
  // A copy of what is reduced, where it is for several ranks.
  void join_pieces();
  void keep_own(std::size_t parameter);
  void reduce(const Tensor& buffer, std::uint64_t size_bytes);
  [[nodiscard]] std::uint64_t bytes_of(std::size_t parameter) const;

  DataParallelSettings settings_;
  Tape* tape_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::size_t> arrivals_;   // of the first backward
  bool rebuilt_ = false;
  std::vector<Bucket> old_buckets_;  // held by the last reduction
  bool reduces_ = true;              // this backward
  bool gives_buffers_ = true;        // the first rank's, to all, before the next forward
  bool last_micro_batch_ = true;     // before the step
  std::vector<OptimizedTensor> partitions_;
  std::uint64_t padded_count_ = 0;        // ZeRO: elements of the flat parameters
  std::uint64_t own_count_ = 0;           // ZeRO: elements of this rank's partition
  std::uint64_t width_ = 2;               // ZeRO: bytes per element of the parameters
  std::vector<std::size_t> trained_;      // ZeRO: in the order of the flat parameters
  std::vector<std::uint64_t> positions_;  // ZeRO: where each begins, by parameter
  std::vector<std::size_t> reducing_;     // ZeRO: whose gradients are in the buffer
  std::uint64_t filled_ = 0;              // ZeRO: elements in the reduction buffer
  Tensor reductions_[2];  // ZeRO: the buffer, and a second one where reductions overlap
  Tensor flat_parameters_, master_, own_gradients_, accumulated_, step_gradient_;
  Tensor host_copy_;  // ZeRO with gradients on the host: what comes back to be added to
};

}  // namespace allocmark
