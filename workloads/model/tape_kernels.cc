// The kernels of training: what products and written tensors take on the card, and the memory that
// cuBLAS takes with them.
#include <algorithm>
#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {
namespace {

// What kernels take, held to a card: results/published/history/generators.md, "Kernels of training
// on a card".
constexpr std::uint64_t kKernelStartNs = 2000;
// A kernel reads two tensors of its result's size, and writes that one.
constexpr std::uint64_t kMovesPerTensor = 3;
// Products in four bytes are so many times slower than in two.
constexpr std::uint64_t kFloat32Share = 10;

// On compute capability 9.0.
constexpr std::uint64_t kCublasLtWorkspaceBytes = std::uint64_t{1} << 20;

}  // namespace

void Tape::time_write(std::uint64_t size_bytes) {
  pool_->batch().kernel(kKernelStartNs + kMovesPerTensor * size_bytes / card_.bytes_per_ns(), 0);
}

void Tape::product(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  // In two steps, so that the product of all three does not overflow.
  const std::uint64_t slower = narrow_bytes_ == 4 ? kFloat32Share : 1;
  const std::uint64_t tflops = std::max<std::uint64_t>(card_.flops_per_ns() / slower / 1000, 1);
  if (kernels_ && !stopped_) {
    pool_->batch().kernel(kKernelStartNs + 2 * m * n / tflops * k / 1000, 0);
  }
}

void Tape::use_cublas(bool with_bias) {
  // The backward runs on a thread of its own with its own handles.
  const std::size_t thread = in_backward_ ? 2 : 0;
  const auto take = [&](std::size_t index, std::uint64_t size_bytes) {
    if (has_workspace_[index] || stopped_) return;
    has_workspace_[index] = true;
    workspaces_.push_back(allocate(size_bytes, TensorKind::Workspace));
  };
  take(thread, cublas_workspace_bytes_);
  if (with_bias) take(thread + 1, kCublasLtWorkspaceBytes);
}

}  // namespace allocmark
