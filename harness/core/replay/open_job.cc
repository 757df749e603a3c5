#include "harness/core/replay/open_job.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/core/replay/kernel_source.h"

namespace allocmark {
namespace {

void add_facts(const Recording& recording, Recording* job) {
  job->failed_count += recording.failed_count;
  for (const std::string& note : recording.notes)
    if (std::ranges::find(job->notes, note) == job->notes.end()) job->notes.push_back(note);
}

}  // namespace

Recording open_job(const std::string& workload, std::uint64_t seed) {
  constexpr std::string_view kFile = "file:";
  std::error_code ignored;
  Recording job;
  if (workload.starts_with(kFile) &&
      std::filesystem::is_regular_file(workload.substr(kFile.size()), ignored)) {
    Recording recording = open_recording(workload.substr(kFile.size()));
    add_facts(recording, &job);
    job.events = std::move(recording.events);
    return job;
  }
  job.events = open_workload_with_kernels(workload, seed);
  // Recordings as parts of a workload are read once more.
  for (const std::string& path : trace_files_of_workload(workload)) {
    const bool is_recording = std::filesystem::is_regular_file(path, ignored) &&
                              recording_kind(path) != RecordingKind::Trace;
    if (is_recording) add_facts(open_recording(path), &job);
  }
  return job;
}

}  // namespace allocmark
