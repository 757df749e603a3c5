#include "workloads/model/tape.h"

#include <bit>

#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::int32_t parameter_edge(std::size_t index) {
  return -2 - static_cast<std::int32_t>(index);
}
constexpr std::size_t parameter_index(std::int32_t edge) {
  return static_cast<std::size_t>(-2 - edge);
}

}  // namespace

void new_gradients(Tape& tape, Node& node, Backprop& b) {
  for (std::size_t i = 0; i < b.out.size(); ++i) {
    if (i == 0 || node.edges[i] != kNoEdge) b.out[i].tensor = tape.gradient(node.sizes[i]);
  }
}

void pass_on(Tape& /*tape*/, Node& /*node*/, Backprop& b) { b.out[0] = b.gradient; }

void pass_on_view(Tape& /*tape*/, Node& /*node*/, Backprop& b) {
  b.out[0] = b.gradient;
  b.out[0].is_view = true;
}

Tensor Tape::allocate(std::uint64_t size_bytes, TensorKind kind) {
  // Where a tensor has no elements, PyTorch asks for nothing.
  if (stopped_ || size_bytes == 0) return {};
  Tensor tensor = pool_->make(size_bytes, kind);
  if (writes_ && kind != TensorKind::Workspace) time_write(size_bytes);
  return tensor;
}

Var Tape::make(std::uint64_t count, std::uint64_t width) {
  return {.tensor = activation(count * width), .count = count, .width = width};
}

bool Tape::has_product() const {
  if (!keeps_products_ || !recomputing_ || stopped_) return false;
  const Segment& segment = segments_[recomputed_segment_];
  return segment.products_taken < segment.products.size();
}

Var Tape::make_product(std::uint64_t count, std::uint64_t width) {
  if (has_product()) {
    Segment& segment = segments_[recomputed_segment_];
    return {.tensor = std::move(segment.products[segment.products_taken++]),
            .count = count,
            .width = width};
  }
  Var out = make(count, width);
  if (keeps_products_ && segment_open_ >= 0) segments_.back().products.push_back(out.tensor);
  return out;
}

Node* Tape::record(BackwardFunction function, std::initializer_list<const Var*> inputs) {
  const bool waits = awaited_ && std::any_of(inputs.begin(), inputs.end(), [this](const Var* one) {
                       return one != nullptr && one->edge == awaited_edge_;
                     });
  if (waits) awaited_.reset();
  if (!grad_enabled_ || stopped_) return nullptr;
  const bool needed = std::any_of(inputs.begin(), inputs.end(), [](const Var* input) {
    return input != nullptr && input->edge != kNoEdge;
  });
  if (!needed) return nullptr;
  if (recomputing_) return &nodes_[cursor_++];
  if (node_count_ == nodes_.size()) nodes_.emplace_back();
  Node& node = nodes_[node_count_++];
  node.backward = function;
  node.segment = segment_open_;
  node.saves = false;
  node.adds_apart = adds_apart_;
  node.module = module_open_;
  node.edges = {kNoEdge, kNoEdge, kNoEdge, kNoEdge};
  std::size_t slot = 0;
  for (const Var* input : inputs) {
    if (input != nullptr) node.edges[slot] = input->edge;
    ++slot;
  }
  return &node;
}

void Tape::save(Node* node, std::size_t slot, const Tensor& tensor) {
  if (node == nullptr || stopped_) return;
  if (recomputing_) {
    node->saved[slot] = tensor;
    if (--saves_left_ == 0) stopped_ = true;
    return;
  }
  node->saves = true;
  if (segment_open_ >= 0) {
    Segment& segment = segments_[static_cast<std::size_t>(segment_open_)];
    ++segment.save_count;
    segment.first_saving =
        std::min(segment.first_saving, static_cast<std::size_t>(node - nodes_.data()));
  } else {
    node->saved[slot] = tensor;
  }
}

void Tape::attach(const Node* node, Var* output) const {
  output->edge = node == nullptr ? kNoEdge : static_cast<std::int32_t>(node - nodes_.data());
}

Var Tape::parameter(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  // What a checkpoint runs again saves trained parameters as detached tensors: these hold what was
  // gathered, where a parameter would let it go.
  const bool is_held = recomputing_ && hears_modules() && parameter.trainable;
  return {.tensor = is_held ? parameter.data : Tensor(),
          .count = parameter.count,
          .width = parameter.width,
          .edge = parameter.trainable ? parameter_edge(index) : kNoEdge};
}

std::size_t Tape::add_parameter(Parameter parameter) {
  parameters_.push_back(std::move(parameter));
  return parameters_.size() - 1;
}

bool Tape::is_next(BackwardFunction function, std::int32_t edge) const {
  return cursor_ < node_count_ && nodes_[cursor_].backward == function &&
         nodes_[cursor_].edges[0] == edge;
}

Var Tape::cast_parameter(std::size_t index) {
  Var wide = parameter(index);
  if (!autocast_ || wide.width == narrow_bytes_) return wide;
  Parameter& own = parameters_[index];
  if (own.narrow.count != 0) return own.narrow;
  // Where the segment's forward found a copy, its recomputation makes one, but no node: gradients
  // go to the copy that was found.
  const bool was_found = recomputing_ && !is_next(new_gradients, wide.edge);
  Node* node = was_found ? nullptr : record(new_gradients, {&wide}, {wide.size_bytes()});
  Var out = result(node, wide.count, narrow_bytes_);
  if (was_found) out.edge = wide.edge;
  // Autocast keeps copies of leaves that need a gradient only.
  if (keeps_casts_ && own.trainable && !stopped_) {
    own.narrow = out;
    cast_order_.push_back(index);
  }
  return out;
}

void Tape::end_autocast() {
  for (const std::size_t index : cast_order_) parameters_[index].narrow = {};
  cast_order_.clear();
  leaf_copy_ = {};
}

void Tape::begin_segment(SegmentInput input) {
  if (recomputing_ || !grad_enabled_) return;
  segment_open_ = static_cast<std::int32_t>(segments_.size());
  segments_.emplace_back();
  segments_.back().first = node_count_;
  segments_.back().input = std::move(input);
}

void Tape::begin_reentrant(SegmentInput segment, const Var& input, const Tensor& argument) {
  Node* node = record(nullptr, {&input});
  if (node == nullptr) return;
  save(node, 0, input.tensor);
  save(node, 1, argument);
  node->sizes[0] = segments_.size();
  segments_.emplace_back();
  segments_.back().input = std::move(segment);
  reentrant_ = static_cast<std::int32_t>(node - nodes_.data());
  grad_enabled_ = false;
}

void Tape::end_reentrant(Var* output) {
  if (reentrant_ == kNoEdge) return;
  output->edge = std::exchange(reentrant_, kNoEdge);
  grad_enabled_ = true;
}

// The nodes above this one are done, so the segment's own nodes take their places. Its input is a
// leaf whose gradient gathers at this node.
void Tape::run_reentrant(std::size_t index, const RecomputeSegment& recompute) {
  Grad incoming = std::move(nodes_[index].gradient);
  nodes_[index].gradient = {};
  SegmentInput segment = segments_[static_cast<std::size_t>(nodes_[index].sizes[0])].input;
  segment.inputs[0].tensor = nodes_[index].saved[0];
  segment.inputs[0].edge = static_cast<std::int32_t>(index);
  node_count_ = index + 1;
  leaf_ = static_cast<std::int32_t>(index);
  Var output = recompute(segment);
  leaf_ = kNoEdge;
  for (std::size_t i = index + 1; i < node_count_; ++i) {
    for (const std::int32_t edge : nodes_[i].edges) {
      if (edge < kNoEdge) ++parameters_[parameter_index(edge)].pending;
    }
  }
  nodes_[static_cast<std::size_t>(output.edge)].gradient = incoming;
  for (position_ = node_count_; position_ > index + 1;) {
    follow_module(nodes_[position_ - 1].module);
    run(nodes_[--position_]);
  }
  follow_module({});
  finish_localized();
  position_ = index;
  Grad gradient = std::move(nodes_[index].gradient);
  nodes_[index].gradient = {};
  output.drop();
  incoming.tensor.reset();
  segment.inputs[0].drop();
  drop({&nodes_[index].saved[0], &nodes_[index].saved[1]});
  deliver(nodes_[index].edges[0], std::move(gradient));
}

void Tape::swap_graph(Graph* other) {
  std::swap(nodes_, other->nodes);
  std::swap(node_count_, other->node_count);
  std::swap(position_, other->position);
  std::swap(segments_, other->segments);
  std::swap(root_gradient_, other->root_gradient);
}

void Tape::forget_nodes(std::size_t first, std::size_t end) {
  for (std::size_t i = end; i > first; --i) {
    Node& node = nodes_[i - 1];
    for (Tensor& saved : node.saved) saved.reset();
    node.backward = [](Tape&, Node&, Backprop&) {};
    node.edges = {kNoEdge, kNoEdge, kNoEdge, kNoEdge};
  }
}

void Tape::drop_graph() {
  while (node_count_ > 0) {
    for (Tensor& saved : nodes_[--node_count_].saved) saved.reset();
  }
  segments_.clear();
}

Var Tape::hooked(Var input, std::uint64_t code) {
  Node* node = record(
      [](Tape& tape, Node& self, Backprop& b) {
        tape.call_hook(self.sizes[0]);
        b.out[0] = std::move(b.gradient);
      },
      {&input}, {code});
  if (node != nullptr) attach(node, &input);
  return input;
}

void Tape::begin_backward(const Var& loss, Tensor gradient) {
  in_backward_ = true;
  position_ = node_count_;
  for (Parameter& parameter : parameters_) parameter.pending = 0;
  for (std::size_t i = 0; i < node_count_; ++i) {
    for (const std::int32_t edge : nodes_[i].edges) {
      if (edge < kNoEdge) ++parameters_[parameter_index(edge)].pending;
    }
  }
  root_gradient_ = std::move(gradient);
  nodes_[static_cast<std::size_t>(loss.edge)].gradient.tensor = root_gradient_;
}

bool Tape::backward(std::size_t node_count, const RecomputeSegment& recompute) {
  for (; node_count > 0 && position_ > 0; --node_count) {
    Node& node = nodes_[--position_];
    follow_module(node.module);
    if (node.backward == nullptr) {
      run_reentrant(position_, recompute);
      continue;
    }
    if (node.segment >= 0 && node.saves) {
      const std::size_t index = static_cast<std::size_t>(node.segment);
      Segment& segment = segments_[index];
      if (!segment.recomputed) {
        segment.recomputed = true;
        recomputed_segment_ = index;
        cursor_ = segment.first;
        saves_left_ = segment.save_count;
        recomputing_ = true;
        static_cast<void>(recompute(segment.input));
        recomputing_ = false;
        stopped_ = false;
      }
    }
    run(node);
  }
  if (position_ > 0) return true;
  follow_module({});
  finish_localized();
  node_count_ = 0;
  segments_.clear();
  in_backward_ = false;
  return false;
}

void Tape::run(Node& node) {
  Backprop backprop;
  backprop.gradient = std::move(node.gradient);
  node.gradient = {};
  node.backward(*this, node, backprop);
  // Recomputed tensors are handed out once: they are local variables of the function and go, the
  // last first, before the incoming gradient does.
  if (node.segment >= 0) {
    for (auto saved = node.saved.rbegin(); saved != node.saved.rend(); ++saved) saved->reset();
  }
  for (std::size_t i = 0; i < backprop.out.size(); ++i) reduce(&backprop, i);
  backprop.gradient.tensor.reset();
  for (Tensor& saved : node.saved) saved.reset();
  node.parts.clear();
  if (node.segment >= 0) {
    Segment& segment = segments_[static_cast<std::size_t>(node.segment)];
    if (segment.first_saving == position_) {
      segment.held.clear();
      segment.products.clear();  // the last one was not asked for
      for (Var& input : segment.input.inputs) input.drop();
    }
  }
  // Parameters last: their nodes run only after this one.
  for (const bool parameters : {false, true}) {
    for (std::size_t slot = 0; slot < backprop.out.size(); ++slot) {
      const bool reversed = parameters && backprop.last_parameter_first;
      const std::size_t i = reversed ? backprop.out.size() - 1 - slot : slot;
      if (node.edges[i] != kNoEdge && (node.edges[i] < kNoEdge) == parameters) {
        deliver(node.edges[i], std::move(backprop.out[i]));
      }
    }
  }
}

void Tape::reduce(Backprop* backprop, std::size_t index) {
  const std::uint64_t size_bytes = backprop->reduced_bytes[index];
  if (size_bytes == 0) return;
  const std::uint64_t rows = backprop->reduced_rows[index];
  Grad reduced;
  // A cast keeps the order of its gradient.
  reduced.layout = backprop->out[index].layout;
  reduced.tensor = rows > 0 ? summed_rows(rows, backprop->reduced_columns[index], size_bytes)
                            : gradient(size_bytes);
  if (const std::uint64_t narrowed_bytes = backprop->narrowed_bytes[index]; narrowed_bytes > 0) {
    backprop->out[index].tensor.reset();
    reduced.tensor = gradient(narrowed_bytes);
  }
  backprop->out[index] = std::move(reduced);
}

void Tape::deliver(std::int32_t edge, Grad gradient) {
  if (!gradient.tensor) return;
  if (edge > kNoEdge) {
    Node& node = nodes_[static_cast<std::size_t>(edge)];
    return accumulate(&node.gradient, std::move(gradient), 0, node.adds_apart);
  }
  Parameter& parameter = parameters_[parameter_index(edge)];
  Tensor whole, part;
  // A tied head's gradient is of this rank's words: a table's is made so, to be added to it.
  const bool is_whole = gradient.tensor.size_bytes() > parameter.count * parameter.width;
  const bool is_cut = parameter.is_distributed && parameter.incoming.tensor && is_whole;
  if (is_cut) {
    whole = gradient.tensor;
    cut(parameter, &gradient.tensor, parameter.width);
    part = gradient.tensor;
  }
  accumulate(&parameter.incoming, std::move(gradient), sum_stream_, is_cut);
  drop({&part, &whole});
  if (--parameter.pending == 0 && !parameter.is_localized) finish(parameter);
}

Tensor Tape::summed_rows(std::uint64_t row_count, std::uint64_t columns, std::uint64_t size_bytes) {
  Tensor sum = gradient(size_bytes);
  // PyTorch's reduction (ATen/native/cuda/Reduce.cuh) reads up to four neighbouring columns per
  // thread, and splits the rows over blocks so that 132 multiprocessors have work; the blocks of an
  // output meet in a buffer, guarded by a counter per block of outputs.
  const std::uint64_t columns_per_thread = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  const std::uint64_t threads_max = 512 / columns_per_thread;
  const std::uint64_t across = columns / columns_per_thread;
  const auto power_of_two = [&](std::uint64_t count) {
    return count < threads_max ? std::bit_floor(count) : threads_max;
  };
  std::uint64_t width = std::min<std::uint64_t>(power_of_two(across), 32);
  const std::uint64_t height = std::min(power_of_two(row_count), threads_max / width);
  width = std::min(power_of_two(across), threads_max / height);
  if (row_count < std::min<std::uint64_t>(height * 16, 256)) return sum;
  const std::uint64_t rows_per_thread = divided_up(row_count, height);
  const std::uint64_t grid = divided_up(across, width);
  const std::uint64_t target = 132 * (2048 / (width * height));
  if (rows_per_thread < 256 || grid > target) return sum;
  const std::uint64_t blocks =
      std::max(std::min(divided_up(target, grid), divided_up(rows_per_thread, 16)),
               divided_up(rows_per_thread, 256));
  if (blocks > 1) {
    const Tensor buffer =
        allocate(4 * columns * blocks * width * columns_per_thread, TensorKind::Workspace);
    const Tensor counters = allocate(grid * 4, TensorKind::Workspace);
  }
  return sum;
}

}  // namespace allocmark
