// A 64-bit fingerprint of a trace's events, equal on every machine. It covers every field of every
// event and the label texts; it does not cover the header. The same value means, for all practical
// purposes, the same work.
#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/trace/event.h"
#include "workloads/trace/source.h"

namespace allocmark {

// For each event three words are folded in, in this order: kind | tensor << 8 | stream << 32; id
// (for a mark: the FNV-1a hash of its label, so that label numbering does not matter); size_bytes.
// Folding word w into h is h = (h ^ w) * 0x9E3779B97F4A7C15, then h ^= h >> 32. The start is
// 0xCBF29CE484222325.
class TraceHash {
 public:
  // `label` is the text of a Mark and ignored for other kinds.
  void add(const Event& event, std::string_view label) {
    fold(static_cast<std::uint64_t>(event.kind) | static_cast<std::uint64_t>(event.tensor) << 8 |
         static_cast<std::uint64_t>(event.stream) << 32);
    fold(event.kind == EventKind::Mark ? label_hash(label) : event.id);
    fold(event.size_bytes);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void fold(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9E3779B97F4A7C15u;
    value_ ^= value_ >> 32;
  }
  [[nodiscard]] static std::uint64_t label_hash(std::string_view label);

  std::uint64_t value_ = 0xCBF29CE484222325u;
};

// Reads the source from its current place to the end.
[[nodiscard]] std::uint64_t trace_hash(EventSource& source);

}  // namespace allocmark
