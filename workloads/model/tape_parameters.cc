// How gradients come to parameters: sums of several, copies, and parts of those of DTensors. And
// who hears where modules begin and end.
#include <utility>

#include "workloads/model/tape.h"

namespace allocmark {

void Tape::accumulate(Grad* buffer, Grad gradient, std::uint32_t stream, bool apart) {
  if (!buffer->tensor) {
    *buffer = std::move(gradient);
    return;
  }
  if (!apart && !buffer->is_view && buffer->tensor.is_unique()) return gradient.tensor.reset();
  Grad sum;
  const bool is_slice = buffer->layout == GradLayout::Slice;
  sum.tensor = pool_->make(is_slice ? buffer->slice_bytes : buffer->tensor.size_bytes(),
                           TensorKind::Gradient, stream);
  sum.layout = is_slice ? GradLayout::Tokens : buffer->layout;
  *buffer = std::move(sum);
  gradient.tensor.reset();
}

void Tape::finish(Parameter& parameter) {
  Grad incoming = std::move(parameter.incoming);
  parameter.incoming = {};
  // As AccumulateGrad: what others hold too is copied, and a view keeps what it is a part of.
  if (!parameter.gradient && incoming.tensor && !incoming.is_view && !incoming.tensor.is_unique())
    incoming.tensor = gradient(incoming.tensor.size_bytes());
  if (!parameter.gradient) parameter.gradient = std::move(incoming.tensor);
  if (incoming.tensor && hands_out_at_end_) keep_until_end(incoming.tensor);
  incoming.tensor.reset();  // added in place
  if (on_parameter_) on_parameter_(static_cast<std::size_t>(&parameter - parameters_.data()));
}

void Tape::cut(const Parameter& parameter, Tensor* gradient, std::uint64_t width) {
  const bool is_summed = parameter.rows == 0;
  *gradient = this->gradient(parameter.count * width);
  if (is_summed) communicate(parameter.count * width, 0, RankGroup::Tensor);
}

// Their nodes are the oldest, and autograd takes the youngest that can run.
void Tape::finish_localized() {
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter) {
    if (!parameter->is_localized || !parameter->incoming.tensor) continue;
    if (parameter->cuts_gradient) {
      cut(*parameter, &parameter->incoming.tensor, parameter->width);
      parameter->incoming.is_view = false;
    }
    finish(*parameter);
  }
}

Var Tape::parameter_view(std::size_t index) const {
  Var view = parameter(index);
  if (hears_modules()) view.tensor = parameters_[index].data;
  return view;
}

bool Tape::begin_module(const Module& module) {
  if (!on_module_ || stopped_ || module_open_.is_one() || !module.is_one()) return false;
  module_open_ = module;
  on_module_(module, true, true);
  return true;
}

// Who stops within a module does not come to its end.
void Tape::end_module() {
  const Module module = std::exchange(module_open_, {});
  if (!stopped_) on_module_(module, true, false);
}

void Tape::follow_module(const Module& module) {
  if (!on_module_ || module == module_running_) return;
  if (module_running_.is_one()) on_module_(module_running_, false, false);
  module_running_ = module;
  if (module.is_one()) on_module_(module, false, true);
}

Var Tape::passed_on(Var value, const Module& module) {
  if (!on_module_) return value;
  const auto pass = [](Tape&, Node&, Backprop& b) { b.out[0] = std::move(b.gradient); };
  if (Node* node = record(pass, {&value})) {
    if (module.is_one()) node->module = module;
    attach(node, &value);
  }
  return value;
}

Var Tape::behind_module(Var output) {
  if (!on_module_) return output;
  const auto hear = [](Tape& tape, Node&, Backprop& b) {
    tape.on_module_({}, false, true);
    b.out[0] = std::move(b.gradient);
  };
  if (const Node* node = record(hear, {&output})) attach(node, &output);
  return output;
}

}  // namespace allocmark
