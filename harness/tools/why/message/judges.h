// The arithmetic, one function for each kind of allocator; see verdict.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harness/tools/why/message/verdict.h"

namespace allocmark::message {

// An allocator that keeps what it once took, and says how much of it is free: PyTorch's.
[[nodiscard]] Verdict judge_caching(const Message& message);
// Its parts for a request that the card had the memory for. What the process may take at most is
// less, by `below_limit`; or that is told, and not what it holds; or nothing is told of it.
[[nodiscard]] Verdict process_limit(const Message& message, const Figure& below_limit);
[[nodiscard]] Verdict process_limit_alone(const Message& message);
[[nodiscard]] Verdict outside_limit(const Message& message);
// The answer of the last, of whatever allocator.
[[nodiscard]] Verdict refused_outside(const Message& message);
// More than the device gives in one piece, whatever is free, where the text says so.
[[nodiscard]] Verdict judge_piece(const Message& message);
// Where it may be that, a sentence; else empty.
[[nodiscard]] std::string piece_fact(const Message& message);
// backend:cudaMallocAsync, which does not say what its pool keeps.
[[nodiscard]] Verdict judge_driver_pool(const Message& message);
// One that says its own limit and what is in use below it: BFC, CuPy, RMM, ONNX Runtime, MPS.
[[nodiscard]] Verdict judge_limited(const Message& message);
// A program that asks the driver for each buffer and keeps nothing: ggml, vLLM's cache, JAX.
[[nodiscard]] Verdict judge_buffer(const Message& message);
// A table of what is held; nothing failed.
[[nodiscard]] Verdict judge_summary(const Message& message);
[[nodiscard]] Verdict judge_without_figures(const Message& message);
// Its parts for memory of the host: not there, or not pinned.
[[nodiscard]] Verdict judge_host(const Message& message);
[[nodiscard]] Verdict judge_pinning(const Message& message);

// "20.00 MiB" as the message has it, else as `show` does; "20971520 bytes (20.0 MiB)".
[[nodiscard]] std::string told(const Figure& figure);
// "20.00 MiB", "0 B" for less than nothing.
[[nodiscard]] std::string bytes_text(std::int64_t size_bytes);
// "a request of 20.00 MiB"; "a request" where the text does not say how much.
[[nodiscard]] std::string request_words(const Message& message);
// How much more `needed` is than `there`, at least 0, as an answer's must_go.
[[nodiscard]] std::int64_t lack_bytes(const Figure& needed, const Figure& there);

// A text with the message's words in it: {free}, {allocated} and so on are its figures by their
// names in JSON (forms.cc), {request} is request_words(), and `more` are names of the caller's own.
using MoreWords = std::initializer_list<std::pair<const char*, std::string_view>>;
[[nodiscard]] std::string say(const Message& message, std::string_view text, MoreWords more = {});
struct Finding {
  Cause cause = Cause::MissingFigures;
  Help help = Help::Unknown;
  std::optional<std::int64_t> must_go_bytes{};
};
// A verdict whose answer is that text, which may say {must_go} as well.
[[nodiscard]] Verdict said(const Message& message, const Finding& finding, std::string_view answer,
                           MoreWords more = {});
// The verdict with its first contradiction as the answer.
[[nodiscard]] Verdict contradicted(const Message& message, Verdict verdict);

}  // namespace allocmark::message
