// A workload as a backend of the host's memory replays it. Events flow in, requests flow out.
#pragma once

#include <memory>

#include "workloads/trace/source.h"

namespace allocmark {

// Whether the workload asks for pinned memory. Reads up to the first such request, or to the end;
// then the source begins again.
[[nodiscard]] bool has_host_requests(EventSource& source);

// Of such a workload: host_alloc, host_free and host_record become alloc, free and record. What is
// asked of the device is left out; work, waits and marks stay.
[[nodiscard]] std::unique_ptr<EventSource> host_requests_of(std::unique_ptr<EventSource> source);

}  // namespace allocmark
