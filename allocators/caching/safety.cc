// The table. Sources were read on 2026-11-25.
#include "allocators/caching/safety.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "allocators/caching/config.h"

namespace allocmark::caching {
namespace {

constexpr std::string_view kExpandable = "expandable_segments";
constexpr std::string_view kBackend = "backend";
constexpr std::string_view kAsync = "cudaMallocAsync";
constexpr std::string_view kIpc = "CUDA IPC";
constexpr std::string_view kSleep = "sleep mode";
constexpr std::string_view kRdma = "RDMA registration";
constexpr std::string_view kNccl = "NCCL registration";
constexpr std::string_view kWindows = "Windows, WSL";
constexpr std::string_view kAll = "everything else";
constexpr std::string_view kDocumentation =
    "docs.pytorch.org/docs/stable/notes/cuda.html, \"Optimizing memory usage\"";

constexpr std::array kNotes = {
    SafetyNote{kExpandable, "True", kIpc, Safety::Conditional,
               "tensors are shared by file descriptors: needs Linux 5.6 or later and a container "
               "that allows pidfd_getfd; cudaIpcGetMemHandle refuses the memory",
               "pytorch PR 130890, issue 165685; ROLL issue 408; ucx issue 7110"},
    SafetyNote{kExpandable, "True", kSleep, Safety::Broken,
               "vLLM's memory pool refuses to start with it; since its PR 40812 (April 2026) vLLM "
               "turns it off inside the pool instead",
               "vllm PR 14189, PR 40812; pytorch issue 147851"},
    SafetyNote{kExpandable, "True", kRdma, Safety::Broken,
               "NIXL, Mooncake and others register memory with the network card, and the segments' "
               "pages come and go",
               "vllm PR 41268; Mooncake issue 2511; uccl issue 839"},
    SafetyNote{kExpandable, "True", kNccl, Safety::Broken,
               "user buffers and symmetric memory want one piece of physical memory, and a segment "
               "has many",
               "pytorch issue 165419; nccl issues 1584, 1820"},
    SafetyNote{kExpandable, "True", kWindows, Safety::Conditional,
               "ignored with a warning on Windows without PyTorch's PR 189163 (July 2026); on WSL "
               "2 and Jetson the first request can fail",
               "pytorch PR 189163, issues 122057, 192330; unsloth-zoo PR 1235"},
    SafetyNote{kBackend, kAsync, kIpc, Safety::Broken, "tensors cannot be shared between processes",
               "pytorch PR 65365; libfabric issue "
               "10162"},
    SafetyNote{kBackend, kAsync, kSleep, Safety::Broken,
               "sleep modes need torch.cuda.MemPool, which this backend has not",
               "pytorch PR 192464"},
    SafetyNote{kBackend, kAsync, kNccl, Safety::Broken,
               "registered buffers and symmetric memory need torch.cuda.MemPool, which this "
               "backend has not",
               "pytorch PR 192464"},
    SafetyNote{kBackend, kAsync, "CUDA graphs", Safety::Broken,
               "torch.compile's graph trees fail (checkPoolLiveAllocations)", "ComfyUI issue 6831"},
    SafetyNote{kBackend, kAsync, kWindows, Safety::Conditional,
               "needs a card and driver with memory pools; others say 'operation not supported'",
               "ComfyUI issue 940"},
    SafetyNote{"max_split_size_mb", "", kAll, Safety::AsUnset,
               "segments come from cudaMalloc as without it", kDocumentation},
    SafetyNote{"large_segment_size_mb", "", kAll, Safety::AsUnset,
               "segments come from cudaMalloc as without it; releases before 2.11 raise an error "
               "at the first CUDA call",
               "pytorch PR 172056"},
    SafetyNote{"roundup_power2_divisions", "", kAll, Safety::AsUnset,
               "segments come from cudaMalloc as without it; only requests become larger",
               kDocumentation},
};

}  // namespace

std::string_view to_string(Safety safety) {
  constexpr std::array<std::string_view, 3> kNames{"as unset", "with conditions", "no"};
  return kNames[static_cast<std::size_t>(safety)];
}

std::vector<const SafetyNote*> safety_of(std::string_view conf) {
  std::vector<const SafetyNote*> found;
  const StrictConfig config = parse_strict(conf);
  if (config.error) return found;
  for (const SafetyNote& note : kNotes) {
    const bool holds = std::ranges::any_of(config.pairs, [&](const ConfPair& pair) {
      return pair.key == note.key && (note.value.empty() || pair.value == note.value);
    });
    if (holds) found.push_back(&note);
  }
  return found;
}

std::string safety_sentence(std::string_view conf) {
  std::vector<std::string_view> broken, conditional;
  const std::vector<const SafetyNote*> notes = safety_of(conf);
  for (const SafetyNote* note : notes) {
    if (note->safety == Safety::Broken) broken.push_back(note->area);
    if (note->safety == Safety::Conditional) conditional.push_back(note->area);
  }
  if (notes.empty()) return "";
  if (broken.empty() && conditional.empty()) {
    return "as safe as unset: segments come from cudaMalloc as before";
  }
  return fmt::format("not with {}; with conditions: {}", fmt::join(broken, ", "),
                     fmt::join(conditional, ", "));
}

}  // namespace allocmark::caching
