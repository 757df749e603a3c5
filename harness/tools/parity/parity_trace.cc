#include "harness/tools/parity/parity_trace.h"

#include <span>

#include "base/error.h"
#include "workloads/trace/event.h"

namespace allocmark {
namespace {

bool goldens_know(EventKind kind) {
  return kind != EventKind::Kernel && kind != EventKind::Host && !is_of_pool(kind) &&
         !is_of_host(kind);
}

}  // namespace

std::vector<Event> parity_events(EventSource& source) {
  std::vector<Event> events;
  for (std::span<const Event> batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const Event& event : batch) {
      if (!goldens_know(event.kind)) {
        throw UsageError({.what = "the trace has kernels, host time or private pools, which "
                                  "goldens know nothing of",
                          .where = "",
                          .wanted = "a recorded trace",
                          .got = "",
                          .next = ""});
      }
      events.push_back(event);
    }
  }
  return events;
}

}  // namespace allocmark
