#include "workloads/source.h"

#include "base/error.h"
#include "base/nearest.h"
#include "workloads/data_folder.h"
#include "workloads/trace_reader.h"

namespace allocmark {

std::unique_ptr<EventSource> open_workload(std::string_view workload, std::uint64_t seed) {
  static_cast<void>(seed);
  const std::string text(workload);
  if (text.starts_with("file:")) return open_trace_file(text.substr(5));
  std::vector<std::string> known;
  for (const NamedFile& file : recorded_traces()) {
    if (file.name == text) return open_trace_file(file.path);
    known.push_back(file.name);
  }
  throw UsageError({.what = "unknown workload '" + text + "'",
                    .where = "",
                    .wanted = "a generator, file:PATH, a recorded trace or a scenario",
                    .got = "",
                    .next = suggest(text, known)});
}

}  // namespace allocmark
