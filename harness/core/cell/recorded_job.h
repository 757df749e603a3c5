// A cell's workload, and where it is a recording what a reader should know about that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

struct RecordedJob {
  std::unique_ptr<EventSource> events;
  std::vector<std::string> notes{};  // of its recordings, a sentence each
  std::uint64_t failed_count = 0;    // requests that failed when they were recorded
};

[[nodiscard]] RecordedJob open_recorded_job(const std::string& workload, std::uint64_t seed);

}  // namespace allocmark
