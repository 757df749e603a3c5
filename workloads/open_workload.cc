#include "workloads/open_workload.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "workloads/composition.h"
#include "workloads/data_folder.h"
#include "workloads/generators.h"
#include "workloads/scenario.h"
#include "workloads/trace_reader.h"

namespace allocmark {

namespace {

// A scenario names a generator, a file or a recorded trace; a chain of scenarios would hide what
// runs.
std::unique_ptr<EventSource> open_scenario_workload(const Scenario& scenario, std::uint64_t seed) {
  const std::vector<std::string> parts = workload_parts(scenario.workload);
  for (const NamedFile& file : scenario_files()) {
    if (std::ranges::find(parts, file.name) == parts.end()) continue;
    throw UsageError({.what = "a scenario names another scenario",
                      .where = scenario.path,
                      .wanted = "a generator, file:PATH or a recorded trace",
                      .got = scenario.workload,
                      .next = ""});
  }
  try {
    return open_workload(scenario.workload, seed);
  } catch (const UsageError& error) {
    ErrorText text = error.text();
    text.where = scenario.path + ", key 'workload'" + (text.where.empty() ? "" : ", ") + text.where;
    throw UsageError(std::move(text));
  }
}

}  // namespace

std::unique_ptr<EventSource> open_workload(std::string_view workload, std::uint64_t seed) {
  if (std::unique_ptr<EventSource> composed = open_composition(workload, seed)) return composed;
  const std::string text(workload);
  if (text.starts_with("file:")) return open_trace_file(text.substr(5));
  std::vector<std::string> known;
  const std::string name = text.substr(0, text.find(':'));
  for (const GeneratorEntry& generator : generators()) {
    if (generator.name == name) {
      Parameters parameters(text);
      return generator.make(parameters, seed);
    }
    known.emplace_back(generator.name);
  }
  for (const NamedFile& file : recorded_traces()) {
    if (file.name == text) return open_trace_file(file.path);
    known.push_back(file.name);
  }
  for (const NamedFile& file : scenario_files()) {
    if (file.name == text) return open_scenario_workload(read_scenario(file.path), seed);
    known.push_back(file.name);
  }
  throw UsageError({.what = "unknown workload '" + text + "'",
                    .where = "",
                    .wanted = "a generator, file:PATH, a recorded trace or a scenario",
                    .got = "",
                    .next = suggest(name, known)});
}

}  // namespace allocmark
