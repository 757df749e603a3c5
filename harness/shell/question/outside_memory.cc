// See outside_memory.h.
#include "harness/shell/question/outside_memory.h"

#include <algorithm>
#include <iterator>

#include "base/bytes.h"

namespace allocmark {
namespace {

// A card whose context was measured, with cudaMemGetInfo's total - free in a process without
// PyTorch. On these two and driver 580.159.04, nvidia-smi's 'used' is the same number.
struct MeasuredContext {
  std::string_view device;
  std::uint64_t context_bytes;
};
constexpr MeasuredContext kMeasuredContexts[] = {
    {"sim:h100", 527 * kMiB},
    {"sim:h200", 527 * kMiB},
};

// PyTorch 2.11.0+cu130, cuDNN 9.19, H100, driver 580.159.04, 2026-11-26: (total - free) -
// memory_reserved() after a training step, less the context. 92 MiB come with the first kernel, 66
// with cuBLAS, 64 with the backward's thread and its cuBLAS, 2 with norms, 16 with cuDNN's
// attention or convolutions. ViT-Base in fp32 with SGD and AdamW and in bf16 autocast all took 240
// MiB, a network of 12 convolutions 244.
constexpr std::uint64_t kModulesBytes = 240 * kMiB;
constexpr std::uint64_t kConvolutionBytes = 244 * kMiB;
// Programs that were measured differed by 4 MiB; other kernels add a few more.
constexpr std::uint64_t kMeasuredSlackBytes = 32 * kMiB;
// What people report of other cards and releases, from a small card with new libraries to PyTorch 1
// with all kernels loaded at the start. No measurement of ours.
constexpr std::uint64_t kOthersLowBytes = 400 * kMiB;
constexpr std::uint64_t kOthersHighBytes = 1800 * kMiB;

}  // namespace

LoadedLibraries libraries_of(std::string_view workload, std::size_t job_count) {
  return {.process_count = std::max<std::uint64_t>(job_count, 1),
          .convolutions = workload.starts_with("unet:")};
}

OutsideMemory outside_memory(std::string_view device, const LoadedLibraries& loaded) {
  const auto* const found = std::ranges::find(kMeasuredContexts, device, &MeasuredContext::device);
  const bool is_measured = found != std::end(kMeasuredContexts);
  OutsideMemory outside;
  outside.context_bytes = is_measured ? found->context_bytes : kMeasuredContexts[0].context_bytes;
  outside.modules_bytes = loaded.convolutions ? kConvolutionBytes : kModulesBytes;
  if (is_measured) {
    outside.low_bytes = outside.context_bytes + outside.modules_bytes - kMeasuredSlackBytes;
    outside.high_bytes = outside.context_bytes + outside.modules_bytes + kMeasuredSlackBytes;
    outside.basis = device == "sim:h100"
                        ? "measured on an H100 with PyTorch 2.11 and CUDA 13.0"
                        : "context measured on an H200, the rest on an H100 with PyTorch 2.11";
  } else {
    outside.low_bytes = kOthersLowBytes;
    outside.high_bytes = kOthersHighBytes;
    outside.basis = "those of an H100 with PyTorch 2.11; this card was not measured";
  }
  for (std::uint64_t* bytes :
       {&outside.context_bytes, &outside.modules_bytes, &outside.low_bytes, &outside.high_bytes}) {
    *bytes *= loaded.process_count;
  }
  return outside;
}

}  // namespace allocmark
