#include "harness/tools/parity/parity_trace.h"

#include <span>

#include "base/error.h"
#include "harness/tools/parity/program.h"
#include "workloads/trace/event.h"

namespace allocmark {

std::vector<Event> parity_events(EventSource& source) {
  std::vector<Event> events;
  for (std::span<const Event> batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const Event& event : batch) {
      if (!caching::is_of_program(event.kind) || is_of_pool(event.kind)) {
        throw UsageError({.what = "the trace has kernels, host time or private pools, which "
                                  "goldens know nothing of",
                          .wanted = "a recorded trace"});
      }
      events.push_back(event);
    }
  }
  return events;
}

}  // namespace allocmark
