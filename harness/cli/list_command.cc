// 'allocmark list': what can be named on the command line, one line each.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "allocators/backend.h"
#include "harness/child_process.h"
#include "harness/cli/commands.h"
#include "harness/environment.h"
#include "harness/runtime_select.h"
#include "harness/suites.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

struct Row {
  std::string name;
  std::string text;
};

void print_rows(std::string_view title, const std::vector<Row>& rows) {
  std::size_t width = 0;
  for (const Row& row : rows) {
    width = std::max(width, row.name.size());
  }
  fmt::print("{}:\n", title);
  for (const Row& row : rows) {
    fmt::print("  {:<{}}  {}\n", row.name, width, row.text);
  }
}

// One table for each folder.
void print_scenarios() {
  std::vector<WorkloadListing> listings = list_scenarios();
  for (auto first = listings.begin(); first != listings.end();) {
    const auto last = std::find_if(first, listings.end(), [&](const WorkloadListing& listing) {
      return listing.kind != first->kind;
    });
    std::vector<Row> rows;
    for (auto at = first; at != last; ++at) rows.push_back({at->name, at->summary});
    print_rows(fmt::format("scenarios, {}", first->kind), rows);
    first = last;
  }
}

std::vector<Row> workload_rows(const std::vector<WorkloadListing>& listings) {
  std::vector<Row> rows;
  for (const WorkloadListing& listing : listings) {
    rows.push_back({listing.name, fmt::format("({}) {}", listing.kind, listing.summary)});
  }
  return rows;
}

std::vector<Row> allocator_rows() {
  std::vector<Row> rows;
  for (const BackendEntry& entry : backend_registry()) {
    std::string text(entry.summary);
    if (!entry.conf_keys.empty()) {
      text += fmt::format("; keys: {}", fmt::join(entry.conf_keys, ", "));
    }
    const std::string reason =
        entry.unavailable_reason == nullptr ? "" : entry.unavailable_reason();
    if (!reason.empty()) {
      text += fmt::format(" (cannot run here: {})", reason);
    }
    rows.push_back({std::string(entry.name), text});
  }
  return rows;
}

std::vector<Row> device_rows() {
  std::vector<Row> rows;
  const std::string program_path = own_program_path();
  std::vector<std::string> devices = simulated_devices();
  devices.emplace_back("cuda:0");
  for (const std::string& device : devices) {
    const DeviceAnswer answer = describe_device(device, program_path);
    rows.push_back(
        {device, answer.failure.empty()
                     ? fmt::format("{}{}, {:.1f} GiB", is_simulated(device) ? "simulated " : "",
                                   answer.facts.gpu_name,
                                   static_cast<double>(answer.facts.gpu_memory_bytes) /
                                       (1024.0 * 1024.0 * 1024.0))
                     : fmt::format("does not work here: {}", answer.failure)});
  }
  return rows;
}

std::vector<Row> suite_rows() {
  std::vector<Row> rows;
  for (const Suite& suite : suites()) {
    rows.push_back({std::string(suite.name), std::string(suite.summary)});
  }
  return rows;
}

void add_list(CLI::App* app, ListCommand* command) {
  app->add_option("what", command->what, "What to list; all where not given")
      ->check(CLI::IsMember({"workloads", "allocators", "scenarios", "devices", "suites"}))
      ->type_name("KIND");
}

ExitCode run_list(const ListCommand& command) {
  const auto wanted = [&](std::string_view what) {
    return command.what.empty() || command.what == what;
  };
  if (wanted("workloads")) print_rows("workloads", workload_rows(list_workloads()));
  if (wanted("scenarios")) print_scenarios();
  if (wanted("allocators")) print_rows("allocators", allocator_rows());
  if (wanted("suites")) print_rows("suites", suite_rows());
  if (wanted("devices")) print_rows("devices", device_rows());
  return ExitCode::Pass;
}

}  // namespace

CommandRun add_list_command(CLI::App* app) { return bind_command(app, add_list, run_list); }

}  // namespace allocmark
