#include "workloads/model/operators.h"

#include <algorithm>

namespace allocmark {
namespace {

std::uint64_t divided_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Tensor Ops::activation(std::uint64_t size_bytes) {
  return pool_->make(size_bytes, TensorKind::Activation);
}

Tensor Ops::gradient(std::uint64_t size_bytes) {
  return pool_->make(size_bytes, TensorKind::Gradient);
}

void Ops::keep_gradient(std::uint64_t element_count) {
  gradients_.push_back(gradient(element_count * setup_.wide_bytes));
}

Tensor Ops::weight(std::uint64_t element_count) {
  if (!setup_.autocast) return {};
  autocast_cache_.push_back(activation(element_count * setup_.narrow_bytes));
  return autocast_cache_.back();
}

Tensor Ops::narrowed(const Tensor& wide, std::uint64_t element_count) {
  return setup_.autocast ? activation(element_count * setup_.narrow_bytes) : wide;
}

Tensor Ops::reduced_rows(std::uint64_t row_count, std::uint64_t column_count) {
  Tensor sum = gradient(column_count * setup_.narrow_bytes);
  // PyTorch's reduction splits the rows over blocks so that 132 multiprocessors x 8 blocks have
  // work; with more than one block per output they meet in a buffer of 1024 bytes per output and
  // block, guarded by a counter per 128 outputs.
  const std::uint64_t groups = divided_up(column_count, 128);
  const std::uint64_t rows_per_thread = divided_up(row_count, 8);
  const std::uint64_t blocks =
      std::max(std::min(divided_up(1056, groups), divided_up(rows_per_thread, 16)),
               divided_up(rows_per_thread, 256));
  if (blocks > 1) {
    const Tensor buffer = pool_->make(column_count * blocks * 1024, TensorKind::Workspace);
    workspace(groups * 4);
  }
  return sum;
}

void Ops::matmul(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  // 500 Tflop/s and 2 us to start: the order of magnitude of a large GPU.
  if (setup_.kernels) pool_->batch().kernel(2000 + 2 * m * n / 500 * k / 1000, 0);
}

std::vector<Tensor> cublas_workspaces(Ops& ops) {
  std::vector<Tensor> workspaces;
  workspaces.push_back(ops.pool().make(kCublasWorkspaceBytes, TensorKind::Workspace));
  workspaces.push_back(ops.pool().make(kCublasLtWorkspaceBytes, TensorKind::Workspace));
  return workspaces;
}

Tensor Linear::forward(Ops& ops, const LinearShape& shape, const Tensor& input) {
  shape_ = shape;
  const std::uint64_t rows = ops.setup().token_count();
  const Tensor weight = ops.weight(shape.in * shape.out);
  const Tensor narrow = shape.wide_input ? ops.narrowed(input, rows * shape.in) : input;
  const Tensor bias = shape.bias ? ops.weight(shape.out) : Tensor();
  Tensor output = ops.activation(rows * shape.out * ops.setup().narrow_bytes);
  ops.matmul(rows, shape.out, shape.in);
  weight_ = ops.saved(weight);
  input_ = ops.saved(narrow);
  return output;
}

Tensor Linear::backward(Ops& ops, Tensor gradient) {
  const TransformerSetup& setup = ops.setup();
  const std::uint64_t rows = setup.token_count();
  Tensor input_gradient = ops.gradient(rows * shape_.in * setup.narrow_bytes);
  Tensor weight_gradient = ops.gradient(shape_.in * shape_.out * setup.narrow_bytes);
  ops.matmul(rows, shape_.out, shape_.in);
  ops.matmul(rows, shape_.out, shape_.in);
  Tensor bias_gradient = shape_.bias ? ops.reduced_rows(rows, shape_.out) : Tensor();
  gradient.reset();
  input_.reset();
  weight_.reset();
  if (!setup.autocast) {
    if (shape_.bias) ops.gradients().push_back(std::move(bias_gradient));
    ops.gradients().push_back(std::move(weight_gradient));
    return input_gradient;
  }
  // Autocast's casts are operators too: each gradient is cast back to the parameter's type.
  if (shape_.bias) ops.keep_gradient(shape_.out);
  bias_gradient.reset();
  if (shape_.wide_input) input_gradient = ops.gradient(rows * shape_.in * setup.wide_bytes);
  ops.keep_gradient(shape_.in * shape_.out);
  return input_gradient;
}

Tensor Norm::forward(Ops& ops, const Tensor& input) {
  if (ops.setup().model.family == ModelFamily::Llama) return forward_rms(ops, input);
  const std::uint64_t rows = ops.setup().token_count();
  Tensor output = ops.activation(rows * ops.setup().model.hidden * ops.setup().wide_bytes);
  const Tensor mean = ops.activation(rows * 4);
  const Tensor deviation = ops.activation(rows * 4);
  input_ = ops.saved(input);
  first_ = ops.saved(mean);
  second_ = ops.saved(deviation);
  return output;
}

Tensor Norm::backward(Ops& ops, Tensor gradient) {
  if (ops.setup().model.family == ModelFamily::Llama) return backward_rms(ops, std::move(gradient));
  const std::uint64_t hidden = ops.setup().model.hidden;
  Tensor input_gradient = ops.gradient(ops.setup().token_count() * hidden * ops.setup().wide_bytes);
  ops.keep_gradient(hidden);
  ops.keep_gradient(hidden);
  gradient.reset();
  input_.reset();
  first_.reset();
  second_.reset();
  return input_gradient;
}

Tensor Norm::forward_rms(Ops& ops, const Tensor& input) {
  const std::uint64_t rows = ops.setup().token_count();
  const std::uint64_t elements = rows * ops.setup().model.hidden;
  const bool is_wide = ops.setup().wide_bytes == 4;
  const Tensor exact = is_wide ? input : ops.activation(elements * 4);
  Tensor square = ops.activation(elements * 4);
  Tensor variance = ops.activation(rows * 4);
  square.reset();
  variance = ops.activation(rows * 4);
  const Tensor root = ops.activation(rows * 4);
  variance.reset();
  Tensor normalised = ops.activation(elements * 4);
  if (!is_wide) normalised = ops.activation(elements * ops.setup().wide_bytes);
  Tensor output = ops.activation(elements * ops.setup().wide_bytes);
  input_ = ops.saved(exact);
  first_ = ops.saved(root);
  second_ = ops.saved(normalised);
  return output;
}

Tensor Norm::backward_rms(Ops& ops, Tensor gradient) {
  const std::uint64_t rows = ops.setup().token_count();
  const std::uint64_t hidden = ops.setup().model.hidden;
  const std::uint64_t elements = rows * hidden;
  Tensor product = ops.gradient(elements * ops.setup().wide_bytes);
  Tensor normalised_gradient = ops.gradient(elements * ops.setup().wide_bytes);
  ops.keep_gradient(hidden);
  product.reset();
  gradient.reset();
  second_.reset();
  if (ops.setup().wide_bytes != 4) normalised_gradient = ops.gradient(elements * 4);
  Tensor input_gradient = ops.gradient(elements * 4);
  Tensor root_product = ops.gradient(elements * 4);
  Tensor root_gradient = ops.gradient(rows * 4);
  root_product.reset();
  normalised_gradient.reset();
  first_.reset();
  root_gradient = ops.gradient(rows * 4);
  Tensor square_gradient = ops.gradient(elements * 4);
  square_gradient = ops.gradient(elements * 4);
  root_gradient.reset();
  square_gradient.reset();
  input_.reset();
  if (ops.setup().wide_bytes != 4) input_gradient = ops.gradient(elements * ops.setup().wide_bytes);
  return input_gradient;
}

void Ops::set_lengths(std::uint64_t batch, std::uint64_t sequence, std::uint64_t context) {
  setup_.batch = batch;
  setup_.sequence = sequence;
  setup_.context = context;
}

Tensor Dropout::forward(Ops& ops, Tensor input, const DropoutShape& shape) {
  if (!ops.setup().has_dropout()) return input;
  const Tensor mask = ops.activation(shape.element_count);
  mask_ = ops.saved(mask);
  return ops.activation(shape.element_count * shape.element_bytes);
}

Tensor Dropout::backward(Ops& ops, Tensor gradient, const DropoutShape& shape) {
  if (!ops.setup().has_dropout()) return gradient;
  Tensor result = ops.gradient(shape.element_count * shape.element_bytes);
  gradient.reset();
  mask_.reset();
  return result;
}

}  // namespace allocmark
