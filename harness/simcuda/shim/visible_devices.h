// CUDA_VISIBLE_DEVICES: which of the node's GPUs a process sees through CUDA, and in which order.
// In: the variable's text, the GPUs' UUIDs. Out: their places on the node. NVML does not ask here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simcuda {

// Places on the node in CUDA's order. `uuids` has one text for each GPU, as NVML gives it. The
// first entry decides whether all are numbers or UUIDs ("GPU-" and as many digits as tell the GPU
// from the others). The list ends before the first entry that names no GPU, or several. A GPU that
// is named twice before that leaves none visible.
[[nodiscard]] std::vector<int> visible_devices(std::string_view text,
                                               std::span<const std::string> uuids);

}  // namespace simcuda
