// The messages that are known, as one table: a row per form, with the words that begin it and the
// words around each figure. Patterns are written as programs print them; `{}` is the figure and `~`
// up to 160 characters that do not matter. Blanks, quotes and capitals do not count (plain_text.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "harness/tools/why/message/figure.h"

namespace allocmark::message {

// Whose memory a message speaks of. What can be computed and what can be set depends on it.
enum class Family : std::uint8_t {
  PyTorch,      // its own caching allocator: CUDA, HIP, XPU and others
  PyTorchPool,  // backend:cudaMallocAsync
  Mps,          // PyTorch on Apple's GPUs
  Metal,        // and others on them
  Summary,      // a table of torch.cuda.memory_summary()
  Bfc,          // TensorFlow's and JAX's allocator
  Xla,          // JAX's text without the allocator's figures
  XlaPool,      // cudaMallocAsync of TensorFlow and JAX
  XlaProgram,   // a compiled program that is larger than the memory
  Ggml,
  Rmm,
  OnnxRuntime,
  CuPy,
  Paddle,
  CudaJl,  // Julia's CUDA.jl, whose pool is the driver's
  Vllm,
  Sglang,
  OtherGpu,   // a device without CUDA, whose allocator is not known here
  Driver,     // a library that asks the driver for each block, and says how much it asked
  VllmPool,   // vLLM's CuMemAllocator, which sleep mode is made of
  VllmStart,  // vLLM's runs before it serves
  Kernel,     // shared memory inside a multiprocessor
  Host,       // memory of the host, not of a GPU
  Shared,     // and its files in memory, /dev/shm
  Killed,     // an exit code alone
  Pinned,     // memory of the host that was to be pinned
  NoFigures,  // an error that says that memory ran out and not how much
};

// What a figure is. In texts and JSON they stand in this order.
enum class Quantity : std::uint8_t {
  Asked,
  Total,
  Free,
  ThisProcess,
  Process,  // another process, or this one by its number; may come more than once
  Allowed,
  Allocated,
  AllocatedPeak,
  Unallocated,
  Reserved,
  ReservedPeak,
  PoolFree,     // free in private pools
  Inactive,     // "Non-releasable memory"
  OtherMemory,  // beside the allocator
  LargestFree,
  FreeChunks,    // all free chunks of a dump together
  SegmentLimit,  // expandable_segments_reserve
  SegmentNeeded,
  Exceeded,
  Used,     // of the card, by whomever
  Program,  // what a compiled program holds at once, and its parts
  Parameters,
  Outputs,
  Temporaries,
  TokensAsked,  // by one request of a server; a count, no bytes, as all that follow
  TokensFree,   // that its cache holds
  RetryCount,   // calls
  OomCount,
};
inline constexpr std::size_t kQuantityCount = static_cast<std::size_t>(Quantity::OomCount) + 1;
[[nodiscard]] constexpr bool is_count(Quantity quantity) {
  return quantity >= Quantity::TokensAsked;
}

struct Pattern {
  Quantity quantity;
  std::string_view text;
};

struct Anchor {
  std::string_view text;  // with `{}`: the figure of what was asked
  Quantity quantity = Quantity::Asked;
  bool weak = false;  // only where no message of this form stands right before it
};

struct Form {
  Family family;
  std::string_view name;  // "PyTorch", as a person would call it
  std::span<const Anchor> anchors;
  std::span<const Pattern> patterns;  // looked for behind the anchor
  FigureStyle style{};
  std::span<const Pattern> before{};  // looked for before it: the last one counts
  // A part of the message of this family before it, with nothing that was asked.
  bool continues = false;
  // Common words that are a message only where the text says that pinning failed.
  bool only_pinning = false;
  // No program of PyTorch's has to be there.
  bool is_library = false;
  // Nor here, unless the text names PyTorch.
  bool is_library_alone = false;
  // The program went on: told after what failed.
  bool is_warning = false;
};

[[nodiscard]] std::span<const Form> all_forms();

struct QuantityWords {
  std::string_view name;     // in JSON
  std::string_view label;    // in text
  std::string_view meaning;  // of it, in a sentence's middle
};
[[nodiscard]] const QuantityWords& words_of(Quantity quantity);

}  // namespace allocmark::message
