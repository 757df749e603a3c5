#include "harness/tools/parity/parity_trace.h"

#include <span>

#include "base/error.h"
#include "workloads/trace/event.h"

namespace allocmark {
namespace {

using caching::ParityOperationKind;

ParityOperationKind operation_kind(EventKind kind) {
  switch (kind) {
    case EventKind::Alloc:
      return ParityOperationKind::Alloc;
    case EventKind::Free:
      return ParityOperationKind::Free;
    case EventKind::Record:
      return ParityOperationKind::Record;
    case EventKind::Busy:
      return ParityOperationKind::Busy;
    case EventKind::Sync:
      return ParityOperationKind::Sync;
    case EventKind::Trim:
      return ParityOperationKind::EmptyCache;
    case EventKind::Mark:
      return ParityOperationKind::Mark;
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
    case EventKind::PoolEnd:
    case EventKind::PoolRelease:
    case EventKind::PoolOnOom:
    case EventKind::PoolNoSplit:
    case EventKind::CaptureBegin:
    case EventKind::CaptureEnd:
    case EventKind::GraphReplay:
    case EventKind::Kernel:
    case EventKind::Host:
    case EventKind::HostAlloc:
    case EventKind::HostFree:
    case EventKind::HostRecord:
      break;
  }
  throw UsageError(
      {.what = "the trace has kernels, host time or private pools, which goldens know nothing of",
       .where = "",
       .wanted = "a recorded trace",
       .got = "",
       .next = ""});
}

}  // namespace

std::vector<caching::ParityOperation> parity_operations(EventSource& source) {
  std::vector<caching::ParityOperation> operations;
  for (std::span<const Event> events = source.next(); !events.empty(); events = source.next()) {
    for (const Event& event : events) {
      operations.push_back({.kind = operation_kind(event.kind),
                            .id = event.id,
                            .size_bytes = event.size_bytes,
                            .stream = event.stream});
    }
  }
  return operations;
}

}  // namespace allocmark
