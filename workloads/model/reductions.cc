// Scratch of PyTorch's reductions of a whole tensor (functions.h).
#include <algorithm>

#include "base/divided_up.h"
#include "workloads/model/functions.h"

namespace allocmark {

// 512 threads read 16 elements each before blocks share the work; those meet in a buffer, guarded
// by a counter (ATen/native/cuda/Reduce.cuh).
void take_reduction_scratch(Tape& tape, std::uint64_t count, std::uint64_t width) {
  const std::uint64_t per_thread = divided_up(count, 512);
  if (per_thread < 256) return;
  const std::uint64_t blocks = std::max(
      std::min<std::uint64_t>(132 * 4, divided_up(per_thread, 16)), divided_up(per_thread, 256));
  const Tensor buffer = tape.allocate(blocks * width, TensorKind::Workspace);
  const Tensor counter = tape.allocate(4, TensorKind::Workspace);
}

}  // namespace allocmark
