// Operators of a transformer as eager PyTorch runs them: each forward() allocates its outputs and
// temporaries and keeps what the backward needs, each backward() allocates gradients and lets go of
// it. The order was read off recorded GPT-2 traces (workloads/recorded); other families follow the
// same operators.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/shapes.h"
#include "workloads/model/tensors.h"

namespace allocmark {

class KvCache;

struct TransformerSetup {
  ModelShape model;
  std::uint64_t batch = 8;         // sequences
  std::uint64_t sequence = 1024;   // tokens of each
  std::uint64_t wide_bytes = 4;    // element size of parameters, norms and the residual stream
  std::uint64_t narrow_bytes = 2;  // element size of matrix products
  bool autocast = true;            // weights and inputs are cast to narrow for each product
  bool fused_attention = false;    // no S x S matrices (scaled_dot_product_attention)
  bool kernels = false;            // emit kernel events
  bool training = true;            // false: no dropout
  std::uint64_t context = 0;       // keys that each token attends to; 0: `sequence`

  [[nodiscard]] std::uint64_t key_count() const { return context == 0 ? sequence : context; }
  [[nodiscard]] bool has_dropout() const { return training && model.family != ModelFamily::Llama; }
  [[nodiscard]] std::uint64_t token_count() const { return batch * sequence; }
};

// What all operators share: the setup, where tensors come from, and which of them outlive the
// operator.
class Ops {
 public:
  Ops(const TransformerSetup& setup, TensorPool* pool) : setup_(setup), pool_(pool) {}

  [[nodiscard]] const TransformerSetup& setup() const { return setup_; }
  [[nodiscard]] Tensor activation(std::uint64_t size_bytes);
  [[nodiscard]] Tensor gradient(std::uint64_t size_bytes);
  void workspace(std::uint64_t size_bytes) {
    static_cast<void>(pool_->make(size_bytes, TensorKind::Workspace));
  }
  // A parameter's gradient: lives until the optimizer is done.
  void keep_gradient(std::uint64_t element_count);
  // Under autocast a narrow copy that the autocast cache holds until end_autocast(); else nothing.
  [[nodiscard]] Tensor weight(std::uint64_t element_count);
  // `wide` itself without autocast, else its narrow copy.
  [[nodiscard]] Tensor narrowed(const Tensor& wide, std::uint64_t element_count);
  // For the backward; empty inside a checkpointed forward.
  [[nodiscard]] Tensor saved(const Tensor& tensor) const { return saving_ ? tensor : Tensor(); }
  // The same for a handle that is in place already.
  void keep_saved(Tensor* tensor) const {
    if (!saving_) tensor->reset();
  }
  // The sum over rows that makes a bias gradient: its result, after the reduction's global buffer
  // came and went.
  [[nodiscard]] Tensor reduced_rows(std::uint64_t row_count, std::uint64_t column_count);
  // A matrix product m x n x k, for kernel events.
  void matmul(std::uint64_t m, std::uint64_t n, std::uint64_t k);

  void set_saving(bool saving) { saving_ = saving; }
  // The next forward works on other lengths.
  void set_lengths(std::uint64_t batch, std::uint64_t sequence, std::uint64_t context);
  // Where attention puts its keys and values; null in training.
  void set_kv_cache(KvCache* cache) { kv_cache_ = cache; }
  [[nodiscard]] KvCache* kv_cache() const { return kv_cache_; }
  [[nodiscard]] TensorPool& pool() { return *pool_; }
  void end_autocast() { autocast_cache_.clear(); }
  [[nodiscard]] std::vector<Tensor>& gradients() { return gradients_; }

 private:
  TransformerSetup setup_;
  TensorPool* pool_;
  bool saving_ = true;
  KvCache* kv_cache_ = nullptr;
  std::vector<Tensor> autocast_cache_;
  std::vector<Tensor> gradients_;
};

inline constexpr std::uint64_t kCublasWorkspaceBytes = std::uint64_t{32}
                                                       << 20;  // on compute capability 9.0
inline constexpr std::uint64_t kCublasLtWorkspaceBytes = std::uint64_t{1} << 20;

// cuBLAS takes its workspaces at a thread's first product and keeps them.
[[nodiscard]] std::vector<Tensor> cublas_workspaces(Ops& ops);

struct LinearShape {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  bool bias = true;
  bool wide_input = true;  // under autocast the input is cast first
};

class Linear {
 public:
  [[nodiscard]] Tensor forward(Ops& ops, const LinearShape& shape, const Tensor& input);
  [[nodiscard]] Tensor backward(Ops& ops, Tensor gradient);

 private:
  LinearShape shape_;
  Tensor input_;
  Tensor weight_;
};

// LayerNorm, or RMSNorm written out in operators for the Llama family.
class Norm {
 public:
  [[nodiscard]] Tensor forward(Ops& ops, const Tensor& input);
  [[nodiscard]] Tensor backward(Ops& ops, Tensor gradient);

 private:
  [[nodiscard]] Tensor forward_rms(Ops& ops, const Tensor& input);
  [[nodiscard]] Tensor backward_rms(Ops& ops, Tensor gradient);

  Tensor input_;
  Tensor first_;   // mean, or the root's reciprocal
  Tensor second_;  // reciprocal deviation, or the normalised input
};

struct DropoutShape {
  std::uint64_t element_count = 0;
  std::uint64_t element_bytes = 0;
};

class Dropout {
 public:
  // Without dropout both return what they get.
  [[nodiscard]] Tensor forward(Ops& ops, Tensor input, const DropoutShape& shape);
  [[nodiscard]] Tensor backward(Ops& ops, Tensor gradient, const DropoutShape& shape);

 private:
  Tensor mask_;
};

}  // namespace allocmark
