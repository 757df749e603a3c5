// 'allocmark parity TRACE GOLDEN...': replays the trace on the caching allocator with the golden's
// recorded addresses as the device's answers, and says where it decides otherwise than PyTorch did.
// Checks; times nothing.
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "allocators/caching/golden.h"
#include "allocators/caching/parity.h"
#include "harness/cli/commands.h"
#include "workloads/byte_stream.h"
#include "workloads/source.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

using caching::ParityOperationKind;

std::string read_packed(const std::string& path) {
  ByteReader reader(path);
  std::string text;
  std::array<char, 65536> buffer;
  while (const std::size_t count = reader.read(buffer)) {
    text.append(buffer.data(), count);
  }
  if (!reader.damage().empty()) {
    throw UsageError({.what = "the golden is damaged",
                      .where = path,
                      .wanted = "",
                      .got = reader.damage(),
                      .next = "get the file again"});
  }
  return text;
}

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
    case EventKind::Kernel:
      break;
  }
  throw UsageError({.what = "the trace has kernels, which goldens know nothing of",
                    .where = "",
                    .wanted = "a recorded trace",
                    .got = "",
                    .next = ""});
}

std::vector<caching::ParityOperation> read_operations(const std::string& trace) {
  const std::unique_ptr<EventSource> source = open_path_or_workload(trace, 0);
  std::vector<caching::ParityOperation> operations;
  for (std::span<const Event> events = source->next(); !events.empty(); events = source->next()) {
    for (const Event& event : events) {
      operations.push_back({.kind = operation_kind(event.kind),
                            .id = event.id,
                            .size_bytes = event.size_bytes,
                            .stream = event.stream});
    }
  }
  return operations;
}

std::string conf_of(const ParityCommand& command, const std::string& name) {
  if (command.conf.has_value()) {
    return *command.conf == "unset" ? "" : *command.conf;
  }
  const std::optional<std::string_view> conf = caching::golden_conf(name);
  if (!conf.has_value()) {
    throw UsageError({.what = "the golden's name does not say its config string",
                      .where = name,
                      .wanted = "a name that begins with C00 to C15",
                      .got = "",
                      .next = "give it with --conf"});
  }
  return std::string(*conf);
}

}  // namespace

ExitCode parity_command(const ParityCommand& command) {
  const std::vector<caching::ParityOperation> operations = read_operations(command.trace);
  bool all_equal = true;
  for (const std::string& path : command.goldens) {
    const std::string name = std::filesystem::path(path).filename().string();
    const caching::Golden golden = caching::parse_golden(read_packed(path), name);
    const caching::ParityReport report =
        caching::compare_with_golden(operations, golden, conf_of(command, name));
    all_equal = all_equal && report.mismatch_count == 0;
    fmt::print("{}: {} of {} decisions equal ({} placements, {} failures, {} counters)\n{}", name,
               report.decision_count - report.mismatch_count, report.decision_count,
               report.placement_count, report.failure_count, report.counter_count,
               caching::describe(report));
  }
  return all_equal ? ExitCode::Pass : ExitCode::Regression;
}

}  // namespace allocmark
