// See repeat.h.
#include "harness/tools/qualify/repeat.h"

#include <cuda_runtime_api.h>

#include "allocators/cuda/cuda_check.h"

namespace allocmark::qualify {
namespace {

constexpr double kNsPerS = 1e9;

}  // namespace

Rounds::Rounds(double seconds) : seconds_(seconds) {
  if (seconds <= 0) return;
  simcu_ = SimcuApi::find();
  if (simcu_.present) begin_modelled_ns_ = simcu_.thread_clock()->modelled_ns;
}

double Rounds::virtual_s() const {
  return static_cast<double>(simcu_.thread_clock()->modelled_ns - begin_modelled_ns_) / kNsPerS;
}

bool Rounds::next() {
  if (count_++ == 0) return true;
  if (!simcu_.present) return elapsed_s() < seconds_;
  const double due_s =
      seconds_ * static_cast<double>(count_ - 1) / static_cast<double>(kSimulatedCountMax);
  if (const double left_s = due_s - virtual_s(); left_s > 0) {
    (void)simcu_.launch(nullptr, static_cast<std::uint64_t>(left_s * kNsPerS) + 1);
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }
  return virtual_s() < seconds_;
}

}  // namespace allocmark::qualify
