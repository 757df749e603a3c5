// DeepSpeed's ZeRO stage 3: parameters are gathered for each module's own computation, ahead of it
// once the order of modules is known, and let go unless they are needed again soon (DeepSpeed
// 0.19.8, runtime/zero/partitioned_param_coordinator.py and stage3.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "workloads/model/data_parallel.h"

namespace allocmark {

class ZeroModules {
 public:
  ZeroModules(const DataParallelSettings& settings, Tape* tape)
      : settings_(settings), tape_(tape) {}

  // Shards all parameters, in the model's order.
  void wrap(const std::vector<std::size_t>& order);
  void begin_forward();
  void enter(const Module& module, bool is_forward);
  void leave(const Module& module, bool is_forward);
  void on_gradient(std::size_t parameter);
  void begin_backward(bool is_last_micro_batch);
  void end_backward();

  // What the optimizer steps on, one after the other.
  [[nodiscard]] const std::vector<OptimizedTensor>& groups() const { return groups_; }
  void begin_step();
  void begin_group(std::size_t index);
  void end_group() { step_gradient_.reset(); }
  void end_step();
  // Each parameter in turn, as a full state dict on the host does.
  void gather_each();
  void clear();

 private:
  // Parameters that were gathered together, as one tensor, until each has been asked for.
  struct Flight {
    Tensor flat;
    std::vector<std::size_t> parameters;
    bool has_arrived = false;
  };
  struct State {
    std::uint64_t part = 0;  // elements of each rank
    Tensor own;              // frozen: this rank's
    bool persists = false;   // too small to be let go
    bool is_here = false;
    std::shared_ptr<Flight> flight = nullptr;
    std::set<std::uint64_t> users = {};  // modules that compute
    std::int64_t fetched_for = kNever;   // the last step of the order that it is here for
  };
  struct Use {
    std::size_t parameter = 0;
    std::int64_t step = 0;
  };
  static constexpr std::int64_t kNever = -1;
  static constexpr std::uint64_t kRerun = ~std::uint64_t{0};  // a user, beside modules

  [[nodiscard]] std::uint64_t count_of(std::size_t parameter) const {
    return tape_->parameters()[parameter].count;
  }
  // Without what the last rank's part is padded with.
  [[nodiscard]] std::uint64_t own_count_of(std::size_t parameter) const {
    const std::uint64_t begin =
        std::min(states_[parameter].part * settings_.rank, count_of(parameter));
    return std::min(states_[parameter].part, count_of(parameter) - begin);
  }
  [[nodiscard]] bool is_trained(std::size_t parameter) const {
    return tape_->parameters()[parameter].trainable;
  }
  [[nodiscard]] Tensor made(std::uint64_t elements, TensorKind kind, std::uint32_t stream = 0) {
    return tape_->pool().make(elements * width_, kind, stream);
  }
  // Copies of this rank's parts of them, where these are on the host.
  [[nodiscard]] std::vector<Tensor> parts_from_host(const std::vector<std::size_t>& parameters,
                                                    std::uint32_t stream);
  void take_own(const std::vector<std::size_t>& parameters, std::uint32_t stream);
  void gather(std::vector<std::size_t> parameters);
  void wait(std::size_t parameter);
  void prefetch(const OwnParameters& now);
  [[nodiscard]] bool is_needed_soon(std::size_t parameter) const;
  void release(std::size_t parameter);
  void let_rerun_go();
  void make_groups();
  void make_masters();
  void reduce();
  void give_to_host(std::uint64_t part);

  DataParallelSettings settings_;
  Tape* tape_;
  std::uint64_t width_ = 2;
  std::vector<std::size_t> order_;
  std::vector<State> states_;  // by parameter
  bool knows_order_ = false, has_begun_ = false;
  // Parameters of the modules, in the order of the first forward and backward.
  std::vector<OwnParameters> modules_;
  std::vector<Use> uses_;
  std::deque<Use> queue_;
  std::int64_t step_ = 0;
  std::uint64_t available_count_ = 0;  // elements gathered since the forward began
  std::vector<Module> unfinished_;     // modules whose backward's end nobody hears of
  OwnParameters leaf_;                 // of the leaf whose backward runs
  std::vector<std::size_t> bucket_;    // gradients that wait to be reduced
  std::uint64_t bucket_count_ = 0;
  bool is_backward_ = false;
  // Frozen ones that a checkpoint's second forward gathered. They go with the module whose backward
  // it began in.
  std::vector<std::size_t> rerun_;
  bool ends_step_ = true;
  std::uint64_t own_count_ = 0;  // elements of this rank that are trained
  std::vector<OptimizedTensor> groups_;
  std::vector<bool> is_one_parameter_;  // by group
  std::vector<Tensor> masters_;         // by group
  Tensor flat_, reduction_, gradients_, step_gradient_;
};

}  // namespace allocmark
