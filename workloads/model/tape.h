// A stand-in for autograd: forward functions (functions.h) allocate as eager PyTorch does and
// record nodes with what they save; backward() walks the nodes from the last to the first,
// allocates gradients, adds them up, and lets go of what was saved when PyTorch does. Only sizes
// and lifetimes exist; nothing is computed. What comes out are the events in the tensor pool's
// batch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "workloads/model/module.h"
#include "workloads/model/setup.h"
#include "workloads/model/tensors.h"
#include "workloads/trace/serving_card.h"

namespace allocmark {

inline constexpr std::int32_t kNoEdge = -1;
inline constexpr std::uint64_t kNoHook = std::numeric_limits<std::uint64_t>::max();
// What the first product of a thread takes on an H100.
inline constexpr std::uint64_t kCublasWorkspaceBytes = std::uint64_t{32} << 20;

// A tensor in the forward: storage, shape as far as sizes need it, and the node that made it.
struct Var {
  Tensor tensor;
  std::uint64_t count = 0;      // elements
  std::uint64_t width = 0;      // bytes per element
  std::int32_t edge = kNoEdge;  // node that gets its gradient; below kNoEdge a parameter
  bool heads_first = false;     // memory order batch, head, token, else batch, token, head
  bool heads_viewable = false;  // seen as heads without a copy: of one sequence or token
  [[nodiscard]] std::uint64_t size_bytes() const { return count * width; }
  void drop() { tensor.reset(); }
};

// Local variables go, in this order.
inline void drop(std::initializer_list<Var*> gone) {
  for (Var* one : gone) one->drop();
}

// The memory order of an attention gradient, as far as it decides who copies.
enum class GradLayout : std::uint8_t {
  Tokens,      // batch, token, head: rows of tokens
  Heads,       // batch, head, token: to be copied before it can be seen as tokens
  Transposed,  // batch, head, within a head, token: seen as tokens, but not as rows of a matrix
  Slice,       // some channels of images: to be copied by who wants them contiguous
};

struct Grad {
  Tensor tensor;
  bool is_view = false;  // shares its storage with a base: nothing is added to it in place
  GradLayout layout = GradLayout::Tokens;
  std::uint64_t slice_bytes = 0;  // of a Slice; its tensor is the whole
};

struct Parameter {
  Tensor data;
  std::uint64_t count = 0;
  std::uint64_t width = 0;
  bool trainable = true;
  std::uint64_t rows = 0;       // of a matrix, for sharding; 0: one element each
  Tensor gradient = {};         // .grad
  Grad incoming = {};           // gradients of this backward until all have come
  std::uint32_t pending = 0;    // how many are still to come
  Var narrow = {};              // autocast's cached copy
  bool cuts_gradient = false;   // the gradient is a whole table's, and this a part of it
  bool is_distributed = false;  // a DTensor, by tp, sp or ep
  // A DTensor that is made of this rank's part before the first forward, as DistributedDataParallel
  // does: its gradient comes behind all others, and is of the part.
  bool is_localized = false;
};

// Neighbouring parameters.
struct ParameterRange {
  std::size_t first = 0;
  std::size_t count = 0;

  [[nodiscard]] std::size_t end() const { return first + count; }
};

class Tape;
struct Node;

// What a backward function gets and gives.
struct Backprop {
  Grad gradient;
  std::array<Grad, 4> out;  // one per edge of the node
  std::array<std::uint64_t, 4>
      reduced_bytes{};  // not 0: summed or cast to so many bytes afterwards
  // With reduced_bytes and not 0: a sum over so many rows of so many columns.
  std::array<std::uint64_t, 4> reduced_rows{};
  std::array<std::uint64_t, 4> reduced_columns{};
  std::array<std::uint64_t, 4> narrowed_bytes{};  // not 0: and then cast to so many
  bool last_parameter_first = false;  // a product hands its bias its gradient before its weight
};

using BackwardFunction = void (*)(Tape&, Node&, Backprop&);
// New gradients of sizes[i] bytes: the first input's, and of each other that needs one.
void new_gradients(Tape& tape, Node& node, Backprop& b);
// The gradient itself, for the first input; as a view of what it is a part of.
void pass_on(Tape& tape, Node& node, Backprop& b);
void pass_on_view(Tape& tape, Node& node, Backprop& b);

struct Node {
  BackwardFunction backward = nullptr;
  std::array<std::int32_t, 4> edges = {kNoEdge, kNoEdge, kNoEdge, kNoEdge};
  std::array<Tensor, 8> saved;
  std::array<std::uint64_t, 9> sizes{};    // bytes, by function
  std::shared_ptr<const void> remembered;  // what a function needs that is no size
  std::int32_t segment = -1;               // checkpointed segment, or -1
  std::vector<Tensor> parts;               // gradients of its parts, until they are joined
  bool saves = false;                      // it saves something: a checkpoint must recompute first
  bool adds_apart = false;                 // no gradient of its result is added in place
  Module module;                           // that it belongs to
  Grad gradient;
};

// Where a checkpointed segment begins: enough to run it again.
struct SegmentInput {
  std::uint32_t first_layer = 0;
  std::uint32_t layer_count = 0;   // 0: only the attention core of first_layer
  bool is_loss = false;            // a chunk of the loss instead
  std::array<Var, 3> inputs = {};  // hidden states, or query, key and value
};

struct Segment {
  std::size_t first = 0;
  std::size_t save_count = 0;
  bool recomputed = false;
  std::size_t first_saving = ~std::size_t{0};  // lowest node that saves
  SegmentInput input;
  std::vector<Tensor> held;
  std::vector<Tensor> products;  // results that are kept for the recomputation
  std::size_t products_taken = 0;
};

// What one forward recorded, put aside while the tape works on another one.
struct Graph {
  std::vector<Node> nodes;
  std::size_t node_count = 0;  // in use; nodes keep their memory between steps
  std::size_t position = 0;    // backward: nodes below are still to be done
  std::vector<Segment> segments;
  Tensor root_gradient;
};

// Runs a segment's forward again and returns its output.
using RecomputeSegment = std::function<Var(const SegmentInput&)>;

class Tape {
 public:
  Tape(TensorPool* pool, std::uint64_t narrow_bytes, bool autocast)
      : pool_(pool), narrow_bytes_(narrow_bytes), autocast_(autocast) {}

  // Forward.
  [[nodiscard]] Var make(std::uint64_t count, std::uint64_t width);
  // As make(), for results of matrix products and attention, which selective checkpoints keep: a
  // recomputation then finds them.
  [[nodiscard]] Var make_product(std::uint64_t count, std::uint64_t width);
  [[nodiscard]] bool has_product() const;
  bool set_keeps_products(bool keeps) { return std::exchange(keeps_products_, keeps); }
  // What is recorded from here on has DTensors as results.
  void set_adds_apart(bool apart) { adds_apart_ = apart; }
  [[nodiscard]] Tensor allocate(std::uint64_t size_bytes, TensorKind kind);
  [[nodiscard]] Tensor activation(std::uint64_t size_bytes) {
    return allocate(size_bytes, TensorKind::Activation);
  }
  [[nodiscard]] Tensor scratch(std::uint64_t size_bytes) {
    return allocate(size_bytes, TensorKind::Workspace);
  }
  // Of an operator that gives it back at once.
  void take_scratch(std::uint64_t size_bytes) { static_cast<void>(scratch(size_bytes)); }
  // The node for an operator of these inputs, or null where none of them needs a gradient.
  [[nodiscard]] Node* record(BackwardFunction function, std::initializer_list<const Var*> inputs);
  // The same with what the function reads in the backward.
  [[nodiscard]] Node* record(BackwardFunction function, std::initializer_list<const Var*> inputs,
                             std::initializer_list<std::uint64_t> sizes) {
    Node* node = record(function, inputs);
    if (node != nullptr) std::ranges::copy(sizes, node->sizes.begin());
    return node;
  }
  // The result of `node`, newly made.
  [[nodiscard]] Var result(const Node* node, std::uint64_t count, std::uint64_t width) {
    Var out = make(count, width);
    attach(node, &out);
    return out;
  }
  // Saves for the backward; a checkpointed forward only counts.
  void save(Node* node, std::size_t slot, const Tensor& tensor);
  void save_parameter(Node* node) { save(node, 3, {}); }
  [[nodiscard]] Node& node(std::int32_t edge) { return nodes_[static_cast<std::size_t>(edge)]; }
  // Makes `output` the result of `node`.
  void attach(const Node* node, Var* output) const;
  [[nodiscard]] Var parameter(std::size_t index) const;
  // A view of it: whoever saves that holds what was gathered, where a parameter is saved as itself.
  [[nodiscard]] Var parameter_view(std::size_t index) const;
  [[nodiscard]] std::size_t add_parameter(Parameter parameter);
  [[nodiscard]] std::vector<Parameter>& parameters() { return parameters_; }
  [[nodiscard]] bool autocast() const { return autocast_; }
  // Narrow is float16: softmax reads it and gives four bytes.
  void set_half(bool half) { is_half_ = half; }
  [[nodiscard]] bool is_half() const { return is_half_; }
  // Inside an operator that autocast has cast for, autocast is off.
  void set_autocast(bool autocast) { autocast_ = autocast; }
  [[nodiscard]] std::uint64_t narrow_bytes() const { return narrow_bytes_; }
  // Under autocast the parameter's narrow copy, from the cache if it is there.
  [[nodiscard]] Var cast_parameter(std::size_t index);
  // Parameters are views of something else: autocast keeps copies of leaves only.
  void set_keeps_casts(bool keeps_casts) { keeps_casts_ = keeps_casts; }
  // A hook stands between a checkpoint's input and what reads it, which is no leaf then.
  void set_keeps_leaf(bool keeps_leaf) { keeps_leaf_ = keeps_leaf; }
  void end_autocast();
  void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }
  [[nodiscard]] bool grad_enabled() const { return grad_enabled_; }
  // Operators between these two are recomputed in the backward instead of saving.
  void begin_segment(SegmentInput input);
  void end_segment() { segment_open_ = -1; }
  [[nodiscard]] bool in_checkpoint() const { return segment_open_ >= 0 || recomputing_; }
  [[nodiscard]] bool recomputing() const { return recomputing_; }
  // Whether the checkpoint's dispatch mode sees every operator. PyTorch then adds nothing in place.
  [[nodiscard]] bool is_watched() const { return keeps_products_ && in_checkpoint(); }
  // A reentrant checkpoint instead: nothing in between records; one node runs it again, forward and
  // backward, from `input`. It saves that and the other argument, which may be null.
  void begin_reentrant(SegmentInput segment, const Var& input, const Tensor& argument);
  void end_reentrant(Var* output);
  // While it is run again its input is a leaf, of which autocast keeps its narrow copy: where that
  // is, or will be. Null for other casts.
  [[nodiscard]] Var* leaf_copy(const Var& input, std::uint64_t width) {
    const bool is_leaf = keeps_leaf_ && leaf_ != kNoEdge && input.edge == leaf_;
    return is_leaf && autocast_ && width < input.width ? &leaf_copy_ : nullptr;
  }
  // What a collective operation was given is held until an operator of `result` waits for it.
  void hold_until_used(Tensor given, const Var& result) {
    awaited_ = std::move(given);
    awaited_edge_ = result.edge;
  }
  // What the open segment keeps for its recomputation: until its last saved tensor was used.
  void hold(const Tensor& tensor) {
    if (segment_open_ >= 0) segments_.back().held.push_back(tensor);
  }
  // Has the recomputation found all that it was for? Then nothing more is allocated.
  [[nodiscard]] bool stopped() const { return stopped_; }

  // Backward. `recompute` runs the forward of a checkpointed segment again.
  void begin_backward(const Var& loss, Tensor gradient);
  // At most `node_count` nodes; false once all are done.
  bool backward(std::size_t node_count, const RecomputeSegment& recompute);
  // A table's gradient is whole where only a part of the table is here, and one of which each rank
  // has a part of the sum is summed: the gradient of this rank's parameter, in its place.
  void cut(const Parameter& parameter, Tensor* gradient, std::uint64_t width);
  // Changes places with another graph of the same parameters; not within a backward.
  void swap_graph(Graph* other);
  // How many nodes the graph has; those from `first` on reach no loss: what they saved goes.
  [[nodiscard]] std::size_t node_count() const { return node_count_; }
  void forget_nodes(std::size_t first, std::size_t end);
  // Lets go of the graph without a backward, the last node first.
  void drop_graph();
  // A backward without nodes: it runs on the same thread as others.
  void enter_backward() { in_backward_ = true; }
  // What one graph's backward was given or gives, until it is over.
  void keep_until_end(Tensor tensor) { kept_until_end_.push_back(std::move(tensor)); }
  // Gradients of parameters are handed out at the end of the backward: sums have both until then.
  void set_hands_out_at_end(bool at_end) { hands_out_at_end_ = at_end; }
  // After the last node: the loss's own gradient goes.
  void end_backward() {
    root_gradient_.reset();
    kept_until_end_.clear();
    in_backward_ = false;
  }
  // Called when a parameter has the last of its gradients of this backward, in .gradient.
  void set_on_parameter(std::function<void(std::size_t)> function) {
    on_parameter_ = std::move(function);
  }
  // Called with `code`, but kNoHook, when the backward passes the place where hooked() stood in the
  // forward.
  // Sums of a parameter's gradients are made on this stream.
  void set_sum_stream(std::uint32_t stream) { sum_stream_ = stream; }
  void set_on_hook(std::function<void(std::uint64_t)> function) { on_hook_ = std::move(function); }
  [[nodiscard]] Var hooked(Var input, std::uint64_t code);
  void call_hook(std::uint64_t code) const {
    if (on_hook_ && code != kNoHook) on_hook_(code);
  }
  // Called when a module's own computation begins, and when it has ended: (module, in the forward,
  // whether it begins). Without it nobody hears of modules.
  using OnModule = std::function<void(const Module&, bool, bool)>;
  void set_on_module(OnModule function) { on_module_ = std::move(function); }
  [[nodiscard]] bool hears_modules() const { return on_module_ != nullptr; }
  // A module without parameters of its own: others' are gathered ahead there, in the backward where
  // its result's gradient comes.
  void pass_module() const {
    if (on_module_ && !stopped_) on_module_({}, true, true);
  }
  [[nodiscard]] Var behind_module(Var output);
  // The same value, through which the backward goes on its way: the input of a module with
  // parameters, whose gradient is added to others' once the module's backward has ended; or the
  // result of `module`, which computes nothing in the backward.
  [[nodiscard]] Var passed_on(Var value, const Module& module = {});
  template <typename Compute>
  [[nodiscard]] Var in_module(const Compute& compute) {
    pass_module();
    return behind_module(compute());
  }
  // See ModuleScope.
  [[nodiscard]] bool begin_module(const Module& module);
  void end_module();
  [[nodiscard]] Tensor gradient(std::uint64_t size_bytes) {
    return allocate(size_bytes, TensorKind::Gradient);
  }
  // The sum over rows that makes a bias gradient, after the reduction's global buffer came and
  // went.
  [[nodiscard]] Tensor summed_rows(std::uint64_t row_count, std::uint64_t column_count,
                                   std::uint64_t size_bytes);
  // A matrix product of so many multiply-adds, for kernel events.
  void product(std::uint64_t m, std::uint64_t n, std::uint64_t k);
  // Kernel events of products, and of every tensor that something writes unless `products_only`.
  void set_kernels(bool kernels, const ServingCard& card = {}, bool products_only = false) {
    kernels_ = kernels;
    writes_ = kernels && !products_only;
    card_ = card;
  }
  // A collective operation over so many bytes, for kernel events or meetings on its stream.
  void communicate(std::uint64_t size_bytes, std::uint32_t stream, RankGroup group);
  // The same between two stages of a pipeline.
  void communicate(std::uint64_t size_bytes, std::uint32_t stream, const StageLink& link);
  // Which ranks this one meets; a collective operation is then a mark, and no kernel.
  void set_meetings(const ParallelSetup& parallel) { meetings_ = parallel; }
  // The first product of a thread takes cuBLAS's workspace, the first with a bias cuBLASLt's.
  void use_cublas(bool with_bias);
  // Bytes of cuBLAS's workspace, where it is not an H100's: its first product takes it.
  void set_cublas_workspace(std::uint64_t size_bytes) { cublas_workspace_bytes_ = size_bytes; }
  // Another tape of the same thread has taken them.
  void share_workspaces() { has_workspace_.fill(true); }
  [[nodiscard]] TensorPool& pool() { return *pool_; }

 private:
  // Recomputing: is the next node to fill one of that function, of that input?
  [[nodiscard]] bool is_next(BackwardFunction function, std::int32_t edge) const;
  void time_write(std::uint64_t size_bytes);
  void run(Node& node);
  void run_reentrant(std::size_t index, const RecomputeSegment& recompute);
  void reduce(Backprop* backprop, std::size_t index);
  void deliver(std::int32_t edge, Grad gradient);
  void accumulate(Grad* buffer, Grad gradient, std::uint32_t stream, bool apart);
  void finish(Parameter& parameter);
  void finish_localized();
  void follow_module(const Module& module);

  TensorPool* pool_;
  std::uint64_t narrow_bytes_;
  bool autocast_;
  bool kernels_ = false, writes_ = false;
  ServingCard card_ = {};  // that they run on
  std::optional<ParallelSetup> meetings_;
  OnModule on_module_;
  Module module_open_, module_running_;  // in the forward, in the backward
  Tensor awaited_;
  std::int32_t awaited_edge_ = kNoEdge;
  bool is_half_ = false;
  bool grad_enabled_ = true;
  bool in_backward_ = false;
  bool recomputing_ = false;
  std::int32_t leaf_ = kNoEdge;  // the input of the reentrant checkpoint that is run again
  Var leaf_copy_ = {};
  bool keeps_leaf_ = true;
  bool stopped_ = false;
  bool keeps_products_ = false;
  bool adds_apart_ = false;
  std::size_t recomputed_segment_ = 0;
  std::int32_t reentrant_ = kNoEdge;  // the node of the open reentrant checkpoint
  std::uint32_t sum_stream_ = 0;
  std::size_t cursor_ = 0;      // recomputing: the next node to fill
  std::size_t saves_left_ = 0;  // recomputing: stop when 0
  std::int32_t segment_open_ = -1;
  std::vector<Node> nodes_;
  std::size_t node_count_ = 0;  // in use; nodes_ keeps its memory between steps
  std::size_t position_ = 0;    // backward: nodes below are still to be done
  std::vector<Segment> segments_;
  std::vector<Parameter> parameters_;
  bool keeps_casts_ = true;
  std::vector<std::size_t> cast_order_;  // parameters with a narrow copy, oldest first
  std::vector<Tensor> workspaces_;
  std::uint64_t cublas_workspace_bytes_ = kCublasWorkspaceBytes;
  std::array<bool, 4> has_workspace_{};
  Tensor root_gradient_;
  std::vector<Tensor> kept_until_end_;
  bool hands_out_at_end_ = false;
  std::function<void(std::size_t)> on_parameter_;
  std::function<void(std::uint64_t)> on_hook_;
};

}  // namespace allocmark
