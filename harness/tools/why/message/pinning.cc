// See pinning.h.
#include "harness/tools/why/message/pinning.h"

#include <algorithm>
#include <array>

namespace allocmark::message {
namespace {

// Calls that pin, and PyTorch's words for them, as in plain text.
constexpr std::array<std::string_view, 11> kPinningWords = {
    "pin_memory(",   "pin_memory=",      "pin_memory.py",      "pinmemorythread",
    "cudahostalloc", "cudamallochost",   "cudahostregister",   "cumemhost",
    "hiphost",       "cachinghostalloc", "memory_pool_host.py"};  // SGLang's
// vLLM's warning: the error stays, and an innocent call reports it.
constexpr std::string_view kPinningFailedBefore = "cudahostregisterfailed";
constexpr std::string_view kFrame = ".py,line";       // behind a file's name
constexpr std::string_view kFileName = "pin_memory";  // of PyTorch's that pins
constexpr std::size_t kFrameCount = 2;                // that end a traceback
constexpr std::size_t kCallsBehind = 3000;  // of plain text, where PyTorch lists the calls
constexpr std::size_t kWordsBefore = 400;   // where there are no frames

constexpr std::size_t kFrameDistance = 20'000;  // of plain text; what is further off is another's

}  // namespace

bool says_pinning(std::string_view text, std::size_t begin, std::size_t end) {
  const std::size_t failed = text.rfind(kPinningFailedBefore, begin);
  if (failed != std::string_view::npos && begin - failed < kFrameDistance) return true;
  std::size_t from = begin - std::min(begin, kWordsBefore);
  std::size_t frame = begin;
  for (std::size_t i = 0; i < kFrameCount && frame != 0; ++i) {
    frame = text.rfind(kFrame, frame - 1);
    if (frame == std::string_view::npos || begin - frame > kFrameDistance) break;
    from = frame - std::min(frame, kFileName.size());
  }
  const std::size_t to =
      std::min({end, begin + kCallsBehind, text.find("traceback", begin), text.size()});
  const std::string_view around = text.substr(from, to - from);
  return std::ranges::any_of(kPinningWords, [around](std::string_view word) {
    return around.find(word) != std::string_view::npos;
  });
}

}  // namespace allocmark::message
