#include "workloads/model/zero_modules.h"

#include <algorithm>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/collectives.h"

namespace allocmark {
namespace {

// How many elements a norm copies at a time (stage3.py, _constant_buffered_norm2).
constexpr std::uint64_t kNormElements = 250'000'000;

std::uint64_t key_of(const Module& module) { return *module.parameters.begin(); }

}  // namespace

void ZeroModules::wrap(const std::vector<std::size_t>& order) {
  TensorPool& pool = tape_->pool();
  order_ = order;
  states_.resize(tape_->parameters().size());
  for (const std::size_t index : order) {
    Parameter& parameter = tape_->parameters()[index];
    width_ = parameter.width;
    State& state = states_[index];
    state.part = divided_up(parameter.count, settings_.ranks);
    state.persists = parameter.count <= settings_.zero.persistent_elements;
    if (settings_.defers_parameters) {
      parameter.data = pool.make(parameter.count * width_, TensorKind::Parameter);
    }
    if (!settings_.offloads_parameters) state.own = made(state.part, TensorKind::Parameter);
    parameter.data.reset();
    if (parameter.trainable) own_count_ += state.part;
  }
  // By way of the host all trained parts come to lie in one tensor.
  for (const std::size_t index : order) {
    if (is_trained(index)) states_[index].own.reset();
  }
  if (!settings_.offloads_parameters) {
    pool.batch().trim();
    flat_ = made(own_count_, TensorKind::Parameter);
  }
  make_groups();
  make_masters();
  reduction_ = made(settings_.zero.reduce_elements, TensorKind::Communication);
  if (!settings_.offloads) gradients_ = made(own_count_, TensorKind::Gradient);
  gather_each();
}

// A group's is converted, and what comes of it copied.
void ZeroModules::make_masters() {
  TensorPool& pool = tape_->pool();
  std::uint64_t largest = 0;
  Tensor converted;
  for (const OptimizedTensor& group : groups_) {
    if (width_ < 4) converted = pool.make(group.size_bytes(), TensorKind::Workspace);
    masters_.push_back(pool.make(group.size_bytes(), TensorKind::OptimizerState));
    largest = std::max(largest, group.size_bytes());
  }
  converted.reset();
  const Tensor zeros = pool.make(largest, TensorKind::Gradient);
}

void ZeroModules::gather_each() {
  for (const std::size_t index : order_) {
    if (!is_trained(index)) continue;
    const Tensor whole = made(states_[index].part * settings_.ranks, TensorKind::Parameter);
    const std::vector<Tensor> parts = parts_from_host({index}, 0);
  }
}

std::vector<Tensor> ZeroModules::parts_from_host(const std::vector<std::size_t>& parameters,
                                                 std::uint32_t stream) {
  std::vector<Tensor> parts;
  if (!settings_.offloads_parameters) return parts;
  for (const std::size_t parameter : parameters) {
    parts.push_back(made(states_[parameter].part, TensorKind::Parameter, stream));
  }
  return parts;
}

void ZeroModules::begin_forward() {
  if (has_begun_ && !knows_order_) {
    knows_order_ = true;
    for (std::size_t step = 0; step < modules_.size(); ++step) {
      for (const std::size_t parameter : modules_[step]) {
        uses_.push_back({.parameter = parameter, .step = static_cast<std::int64_t>(step)});
      }
    }
  }
  has_begun_ = true;
  queue_ = {uses_.begin(), uses_.end()};
  for (State& state : states_) state.fetched_for = kNever;
  step_ = 0;
  available_count_ = 0;
  // Modules around all others, without parameters of their own.
  for (int i = 0; i < 2; ++i) enter({}, true);
}

// Of a rank without others: each is a view of what it has, or a copy where that is on the host.
void ZeroModules::take_own(const std::vector<std::size_t>& parameters, std::uint32_t stream) {
  std::vector<Tensor> copies = parts_from_host(parameters, stream);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    states_[parameters[i]].is_here = true;
    if (!copies.empty()) tape_->parameters()[parameters[i]].data = std::move(copies[i]);
  }
}

// One alone lies where it is gathered to. Several are copied from one tensor when they are asked
// for.
void ZeroModules::gather(std::vector<std::size_t> parameters) {
  if (parameters.empty()) return;
  std::ranges::sort(parameters);
  const std::uint32_t stream = settings_.zero.gather_stream();
  if (settings_.ranks == 1) {
    for (const std::size_t parameter : parameters) available_count_ += count_of(parameter);
    return take_own(parameters, stream);
  }
  auto flight = std::make_shared<Flight>();
  std::uint64_t part = 0;
  for (const std::size_t parameter : parameters) {
    part += states_[parameter].part;
    available_count_ += count_of(parameter);
    states_[parameter].flight = flight;
  }
  flight->flat = made(part * settings_.ranks, TensorKind::Communication, stream);
  const std::vector<Tensor> parts = parts_from_host(parameters, stream);
  tape_->communicate(flight->flat.size_bytes(), stream, RankGroup::Data);
  flight->parameters = std::move(parameters);
}

void ZeroModules::wait(std::size_t parameter) {
  State& state = states_[parameter];
  if (!state.flight) return;
  const std::shared_ptr<Flight> flight = std::exchange(state.flight, nullptr);
  const bool is_alone = flight->parameters.size() == 1;
  if (std::exchange(flight->has_arrived, true)) return;
  for (const std::size_t one : flight->parameters) {
    states_[one].is_here = true;
    tape_->parameters()[one].data =
        is_alone ? std::move(flight->flat)
                 : made(count_of(one), TensorKind::Parameter, settings_.zero.gather_stream());
  }
}

void ZeroModules::enter(const Module& module, bool is_forward) {
  const OwnParameters& parameters = module.parameters;
  if (!is_forward) let_rerun_go();
  if (!knows_order_) modules_.push_back(parameters);
  if (!is_forward && module.is_leaf) leaf_ = parameters;
  if (!is_forward && !parameters.empty() && !module.hears_end) unfinished_.push_back(module);
  std::vector<std::size_t> missing;
  for (const std::size_t parameter : parameters) {
    if (!states_[parameter].is_here && !states_[parameter].flight) missing.push_back(parameter);
  }
  gather(std::move(missing));
  // DeepSpeed takes them as a set has them, by their addresses. The last first is where most is
  // held.
  for (const std::size_t* one = parameters.end(); one != parameters.begin();) {
    states_[*--one].users.insert(key_of(module));
    wait(*one);
    if (!is_forward || !is_backward_ || is_trained(*one)) continue;
    states_[*one].users.insert(kRerun);
    rerun_.push_back(*one);
  }
  if (knows_order_) prefetch(parameters);
  ++step_;
}

// What the modules behind this one need, up to a number of elements.
void ZeroModules::prefetch(const OwnParameters& now) {
  std::set<std::size_t> fetched_now;
  for (const std::size_t parameter : now) {
    if (states_[parameter].fetched_for < step_) fetched_now.insert(parameter);
  }
  std::set<std::size_t> passed;
  while (!queue_.empty() && passed.size() < fetched_now.size()) {
    states_[queue_.front().parameter].fetched_for = queue_.front().step;
    passed.insert(queue_.front().parameter);
    queue_.pop_front();
  }
  if (settings_.zero.prefetch_elements == 0) return;
  const std::uint64_t left =
      settings_.zero.live_elements - std::min(available_count_, settings_.zero.live_elements);
  const std::uint64_t wanted = std::min(left, settings_.zero.prefetch_elements);
  std::uint64_t element_count = 0;
  std::vector<std::size_t> ahead;
  while (!queue_.empty() && element_count < wanted) {
    const Use use = queue_.front();
    queue_.pop_front();
    State& state = states_[use.parameter];
    const bool is_new = std::ranges::find(ahead, use.parameter) == ahead.end();
    state.fetched_for = std::max(state.fetched_for, use.step);
    if (state.is_here || state.flight || !is_new) continue;
    ahead.push_back(use.parameter);
    element_count += count_of(use.parameter);
  }
  gather(std::move(ahead));
}

bool ZeroModules::is_needed_soon(std::size_t parameter) const {
  const State& state = states_[parameter];
  if (state.persists || state.fetched_for > step_) return true;
  std::uint64_t passed = 0;
  for (auto step = static_cast<std::size_t>(step_); step < modules_.size(); ++step) {
    if (passed >= settings_.zero.reuse_elements) return false;
    for (const std::size_t one : modules_[step]) {
      if (one == parameter) return true;
      passed += count_of(one);
    }
  }
  return false;
}

void ZeroModules::leave(const Module& module, bool is_forward) {
  if (!is_forward && module.is_leaf) {
    leaf_ = {};
    for (const std::size_t parameter : module.parameters) {
      if (is_trained(parameter)) on_gradient(parameter);
    }
  }
  if (!is_forward && !module.hears_end) return;
  for (const std::size_t parameter : module.parameters) {
    states_[parameter].users.erase(key_of(module));
  }
  if (!is_forward) let_rerun_go();
  for (const std::size_t parameter : module.parameters) {
    if (!knows_order_ || !is_needed_soon(parameter)) release(parameter);
  }
}

void ZeroModules::let_rerun_go() {
  for (const std::size_t parameter : std::exchange(rerun_, {})) {
    states_[parameter].users.erase(kRerun);
    if (!states_[parameter].persists) release(parameter);
  }
}

void ZeroModules::release(std::size_t parameter) {
  State& state = states_[parameter];
  if (!state.is_here || !state.users.empty()) return;
  Tensor& data = tape_->parameters()[parameter].data;
  if (settings_.records) tape_->pool().record(data, 0);
  data.reset();
  state.is_here = false;
  available_count_ -= std::min(available_count_, count_of(parameter));
}

void ZeroModules::on_gradient(std::size_t parameter) {
  if (std::ranges::find(leaf_, parameter) != leaf_.end()) return;  // with the others, at its end
  const std::uint64_t count = count_of(parameter);
  if (bucket_count_ > 0 && bucket_count_ + count > settings_.zero.reduce_elements) reduce();
  // Copied to the buffer, on another stream, unless it is too large.
  if (bucket_count_ + count <= settings_.zero.reduce_elements) {
    Tensor& gradient = tape_->parameters()[parameter].gradient;
    if (settings_.records) tape_->pool().record(gradient, settings_.zero.reduce_stream());
    gradient.reset();
  }
  bucket_.push_back(parameter);
  bucket_count_ += count;
}

// What is on the host is added to on the device. At the last micro batch its norm takes copies in
// eight bytes, and the optimizer one in four.
void ZeroModules::give_to_host(std::uint64_t part) {
  TensorPool& pool = tape_->pool();
  const std::uint32_t stream = settings_.zero.reduce_stream();
  const Tensor sum = made(part, TensorKind::Gradient, stream);
  if (!ends_step_) return;
  for (std::uint64_t left = part; left > 0;) {
    const std::uint64_t count = std::min(left, kNormElements);
    const Tensor exact = pool.make(count * 8, TensorKind::Workspace, stream);
    left -= count;
  }
  if (width_ < 4) const Tensor wide = pool.make(part * 4, TensorKind::Workspace, stream);
}

// Parts of each rank are laid side by side, unless they are so.
void ZeroModules::reduce() {
  if (bucket_.empty()) return;
  std::uint64_t part = 0;
  for (const std::size_t parameter : bucket_) part += states_[parameter].part;
  const bool is_alone = bucket_.size() == 1 && count_of(bucket_[0]) % settings_.ranks == 0;
  const std::uint32_t stream = settings_.zero.reduce_stream();
  Tensor joined;
  if (!is_alone) joined = made(part * settings_.ranks, TensorKind::Communication, stream);
  tape_->communicate(part * settings_.ranks * width_, stream, RankGroup::Data);
  std::ranges::sort(bucket_);
  for (const std::size_t parameter : bucket_) {
    Tensor& gradient = tape_->parameters()[parameter].gradient;
    if (settings_.offloads) give_to_host(own_count_of(parameter));
    if (gradient && settings_.records) tape_->pool().record(gradient, stream);
    gradient.reset();
  }
  bucket_.clear();
  bucket_count_ = 0;
}

void ZeroModules::begin_backward(bool is_last_micro_batch) {
  ends_step_ = is_last_micro_batch;
  is_backward_ = true;
  enter({}, false);  // the whole model
}

void ZeroModules::end_backward() {
  reduce();
  is_backward_ = false;
  while (!unfinished_.empty()) {
    const Module module = unfinished_.back();
    unfinished_.pop_back();
    for (const std::size_t parameter : module.parameters) {
      states_[parameter].users.erase(key_of(module));
      if (!states_[parameter].persists) release(parameter);
    }
  }
}

// A group closes with the parameter that fills it.
void ZeroModules::make_groups() {
  if (settings_.offloads) return;
  for (const std::size_t parameter : order_) {
    if (!is_trained(parameter)) continue;
    if (groups_.empty() || groups_.back().count >= settings_.zero.group_elements) {
      groups_.push_back({.width = 4});
      is_one_parameter_.push_back(true);
    } else {
      is_one_parameter_.back() = false;
    }
    groups_.back().count += states_[parameter].part;
  }
}

// All parameters go; the norm is of a copy of each part in eight bytes.
void ZeroModules::begin_step() {
  for (const std::size_t parameter : order_) release(parameter);
  if (settings_.offloads) return;
  for (const std::size_t parameter : order_) {
    if (!is_trained(parameter)) continue;
    const Tensor exact = tape_->pool().make(states_[parameter].part * 8, TensorKind::Workspace);
  }
}

void ZeroModules::begin_group(std::size_t index) {
  Tensor flat;  // one alone is a view
  if (!is_one_parameter_[index]) flat = made(groups_[index].count, TensorKind::Gradient);
  step_gradient_ = width_ < 4
                       ? tape_->pool().make(groups_[index].size_bytes(), TensorKind::Gradient)
                       : std::move(flat);
}

// Small parameters are there when the next forward begins.
void ZeroModules::end_step() {
  std::vector<std::size_t> small;
  for (const std::size_t parameter : order_) {
    if (states_[parameter].persists) small.push_back(parameter);
  }
  if (settings_.ranks == 1) return take_own(small, 0);
  const std::vector<Tensor> parts = parts_from_host(small, 0);
  for (const std::size_t parameter : small) {
    State& state = states_[parameter];
    tape_->parameters()[parameter].data = made(state.part * settings_.ranks, TensorKind::Parameter);
    state.is_here = true;
  }
}

void ZeroModules::clear() {
  states_.clear();
  masters_.clear();
  drop({&flat_, &reduction_, &gradients_, &step_gradient_});
}

}  // namespace allocmark
