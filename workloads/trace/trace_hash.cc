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
  for_each_event(source, [&](const Event& event, auto label) { hash.add(event, label); });
  return hash.value();
}

}  // namespace allocmark
