#include "workloads/trace/trace_hash.h"

namespace allocmark {

std::uint64_t TraceHash::label_hash(std::string_view label) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : label) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return hash;
}

std::uint64_t trace_hash(EventSource& source) {
  TraceHash hash;
  while (true) {
    const std::span<const Event> batch = source.next();
    if (batch.empty()) return hash.value();
    for (const Event& event : batch) {
      const bool is_mark = event.kind == EventKind::Mark;
      hash.add(event, is_mark ? std::string_view(source.labels()[event.id]) : std::string_view());
    }
  }
}

}  // namespace allocmark
