#include "workloads/trace_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "workloads/generators.h"
#include "workloads/import/recording.h"
#include "workloads/open_workload.h"
#include "workloads/references.h"
#include "workloads/scenario.h"
#include "workloads/trace/data_folder.h"
#include "workloads/trace/summary.h"
#include "workloads/trace/trace_reader.h"
#include "workloads/trace/trace_writer.h"

namespace allocmark {
namespace {

void print(std::FILE* out, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out);
}

struct RecordedNote {
  std::string_view name;
  std::string_view summary;
};

// Recordings without a generator; references.h says what the others are, and a user's own file gets
// a general line.
constexpr RecordedNote kRecordedNotes[] = {
    {"fuzz_1", "random sizes on one stream with empty_cache"},
    {"fuzz_s1", "random sizes on three streams"},
    {"fuzz_r1", "random sizes on three streams with record_stream, unfinished kernels and syncs"},
};

}  // namespace

std::unique_ptr<EventSource> open_path_or_workload(std::string_view text, std::uint64_t seed) {
  std::error_code ignored;
  std::string path(text);
  if (path.starts_with("file:") && std::filesystem::is_regular_file(path.substr(5), ignored))
    path = path.substr(5);
  // A pipe is one as well; what may be read at all is the reader's to say.
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status))
    return open_workload(text, seed);
  if (!std::filesystem::is_regular_file(status)) return open_trace_file(path);
  Recording recording = open_recording(path);
  for (const std::string& note : recording.notes)
    print(stderr, fmt::format("note: {}: {}\n", path, note));
  return std::move(recording.events);
}

int trace_summary(std::string_view path_or_workload, std::uint64_t seed, std::FILE* out) {
  const std::unique_ptr<EventSource> source = open_path_or_workload(path_or_workload, seed);
  print(out, to_text(summarize(*source)));
  return static_cast<int>(ExitCode::Pass);
}

int trace_convert(std::string_view path_or_workload, const std::string& path_to, std::uint64_t seed,
                  std::FILE* out) {
  const std::unique_ptr<EventSource> source = open_path_or_workload(path_or_workload, seed);
  const std::uint64_t event_count = write_trace_file(path_to, *source);
  // The events may go to stdout themselves.
  if (!path_to.starts_with("/dev/")) {
    print(out, fmt::format("{}: {} events\n", path_to, event_count));
  }
  return static_cast<int>(ExitCode::Pass);
}

int trace_validate(const std::string& path, std::FILE* out) {
  const std::unique_ptr<EventSource> source =
      open_recording(path.starts_with("file:") ? path.substr(5) : path).events;
  const TraceSummary summary = summarize(*source);
  print(out, fmt::format("{}: valid, {} events, hash {:016x}\n", path, summary.event_count,
                         summary.hash));
  return static_cast<int>(ExitCode::Pass);
}

std::vector<WorkloadListing> list_workloads() {
  std::vector<WorkloadListing> result;
  for (const GeneratorEntry& generator : generators()) {
    result.push_back({.name = std::string(generator.example),
                      .kind = "generator",
                      .summary = std::string(generator.summary)});
  }
  for (const NamedFile& file : recorded_traces()) {
    std::string_view summary = "a recorded trace";
    for (const RecordedNote& note : kRecordedNotes) {
      if (note.name == file.name) summary = note.summary;
    }
    for (const Reference& reference : references()) {
      if (reference.recording == file.name) summary = reference.summary;
    }
    result.push_back({.name = file.name, .kind = "recorded", .summary = std::string(summary)});
  }
  return result;
}

std::vector<WorkloadListing> list_scenarios() {
  std::vector<WorkloadListing> result;
  for (const NamedFile& file : scenario_files()) {
    // One that is broken does not hide the others.
    try {
      const Scenario scenario = read_scenario(file.path);
      result.push_back(
          {.name = scenario.name, .kind = scenario.intent, .summary = scenario.summary});
    } catch (const Error& error) {
      result.push_back({.name = file.name,
                        .kind = std::filesystem::path(file.path).parent_path().filename().string(),
                        .summary = std::string("cannot be used: ") + error.what()});
    }
  }
  std::ranges::stable_sort(result, {}, &WorkloadListing::kind);
  return result;
}

}  // namespace allocmark
