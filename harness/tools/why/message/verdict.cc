#include "harness/tools/why/message/verdict.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

// At most, as it would be known without rounding; only what is there counts.
std::optional<Figure> sum(const std::optional<Figure>& left, const std::optional<Figure>& right) {
  if (!left || !right) return std::nullopt;
  return *left + *right;
}

}  // namespace

std::optional<Figure> reserved_of(const Message& message) {
  if (const auto& said = message.of(Quantity::Reserved)) return said;
  return sum(message.of(Quantity::Allocated), message.of(Quantity::Unallocated));
}

std::optional<Figure> unallocated_of(const Message& message) {
  if (const auto& said = message.of(Quantity::Unallocated)) return said;
  const auto& reserved = message.of(Quantity::Reserved);
  const auto& allocated = message.of(Quantity::Allocated);
  if (!reserved || !allocated) return std::nullopt;
  return at_least_zero(*reserved - *allocated);
}

std::optional<Figure> reachable_of(const Message& message) {
  return sum(reserved_of(message), message.of(Quantity::Free));
}

std::vector<ProcessFigure> other_processes(const Message& message) {
  std::vector<ProcessFigure> others = message.processes;
  const std::optional<Figure> reserved = reserved_of(message);
  if (message.of(Quantity::ThisProcess) || others.empty()) return others;
  if (!reserved) {
    if (others.size() == 1) others.clear();
    return others;
  }
  // The one that holds what PyTorch reserved and the least more.
  auto own = others.end();
  for (auto one = others.begin(); one != others.end(); ++one) {
    if (surely_less(one->memory, *reserved)) continue;
    if (own == others.end() || one->memory.bytes < own->memory.bytes) own = one;
  }
  if (own != others.end()) others.erase(own);
  return others;
}

namespace {

// What one sentence answers, whatever the figures.
struct FixedAnswer {
  Family family;
  Finding finding;
  std::string_view words;
};
constexpr std::array kFixedAnswers = {
    FixedAnswer{Family::VllmStart,
                {Cause::MissingFigures, Help::No},
                "vLLM ran out of memory before it served: gpu_memory_utilization leaves too little "
                "beside weights and cache for as many sequences as it may run at once. The text "
                "does not say by how much"},
    FixedAnswer{Family::Kernel,
                {Cause::TooBig, Help::No},
                "a kernel asks for more shared memory than a multiprocessor has: the card's memory "
                "is not short, and no setting of an allocator can help"},
    FixedAnswer{Family::Shared,
                {Cause::HostMemory, Help::No},
                "{request} failed in the host's shared memory (/dev/shm), not on a GPU: no setting "
                "of PyTorch's GPU allocator can help"}};

Verdict judge_by_family(const Message& message) {
  switch (message.form->family) {
    case Family::PyTorch:
    case Family::Paddle:
    case Family::CudaJl:
      return judge_caching(message);
    case Family::PyTorchPool:
    case Family::XlaPool:
      return judge_driver_pool(message);
    case Family::Bfc:
    case Family::Mps:
    case Family::Rmm:
    case Family::CuPy:
    case Family::OnnxRuntime:
    case Family::XlaProgram:
      return judge_limited(message);
    case Family::Xla:
    case Family::Metal:
    case Family::OtherGpu:
    case Family::Ggml:
    case Family::Vllm:
    case Family::Sglang:
    case Family::Driver:
      return judge_buffer(message);
    case Family::Summary:
      return judge_summary(message);
    default:
      return judge_without_figures(message);
  }
}

}  // namespace

Verdict judge(const Message& message) {
  if (message.is_absurd) {
    return {.cause = Cause::TooBig,
            .help = Help::No,
            .answer =
                "more than 1 EB was asked, which no card has: a size went wrong in the program (a "
                "negative one, or one that overflowed), and no setting of the allocator can help"};
  }
  if (message.is_mixed) {
    return said(message, {},
                "{request} failed, and lines of several processes are mixed in the text: which of "
                "its figures belong to this request is not known. The log of one rank can be "
                "answered (torchrun --log-dir), or one whose lines begin with the rank's name");
  }
  if (message.is_piece_limit) return judge_piece(message);
  const auto* const fixed =
      std::ranges::find(kFixedAnswers, message.form->family, &FixedAnswer::family);
  if (fixed != kFixedAnswers.end()) return said(message, fixed->finding, fixed->words);
  Verdict verdict = judge_by_family(message);
  if (message.is_no_failure) {
    verdict.facts.push_back(
        "Its caller went on without that memory: this is a warning, not the failure.");
  }
  return verdict;
}

std::string_view to_string(Cause cause) {
  static constexpr std::array kNames = {"too_big",         "fragmentation_possible",
                                        "outside_limit",   "process_limit",
                                        "address_space",   "spilled",
                                        "contradiction",   "borderline",
                                        "missing_figures", "host_memory",
                                        "pinned_memory",   "state"};
  ALLOCMARK_ASSERT(static_cast<std::size_t>(cause) < kNames.size());
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view to_string(Help help) {
  static constexpr std::array kNames = {"no", "possible", "unknown"};
  return kNames[static_cast<std::size_t>(help)];
}

}  // namespace allocmark::message
