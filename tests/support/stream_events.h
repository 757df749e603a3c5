// Events of a trace, as a test writes them down.
#pragma once
#include <cstdint>

#include "workloads/trace/event.h"

namespace allocmark {

inline Event alloc(std::uint64_t id, std::uint64_t size_bytes, std::uint32_t stream = 0) {
  return {.id = id, .size_bytes = size_bytes, .stream = stream, .kind = EventKind::Alloc};
}
inline Event free_of(std::uint64_t id) { return {.id = id, .kind = EventKind::Free}; }
inline Event record_of(std::uint64_t id, std::uint32_t stream) {
  return {.id = id, .stream = stream, .kind = EventKind::Record};
}

}  // namespace allocmark
