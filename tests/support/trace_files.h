// What tests of traces share: files, events, and what a refusal says.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/input_file.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {

inline std::vector<Event> read_all(EventSource& source) {
  std::vector<Event> events;
  while (true) {
    const std::span<const Event> batch = source.next();
    if (batch.empty()) return events;
    events.insert(events.end(), batch.begin(), batch.end());
  }
}

// What a workload asks for, in order, with its first seed.
inline std::vector<std::uint64_t> sizes_of(const std::string& workload) {
  std::vector<std::uint64_t> sizes;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    if (event.kind == EventKind::Alloc) sizes.push_back(event.size_bytes);
  }
  return sizes;
}

// Catch2 2 and 3 name their substring matchers differently, so the tests use this. Shows the
// message where it fails.
inline bool mentions(const std::string& message, std::string_view part) {
  if (message.find(part) != std::string::npos) return true;
  UNSCOPED_INFO("'" << part << "' is missing in: " << message);
  return false;
}

// The message of the UsageError that `action` throws, "no error" where it throws none.
template <typename Action>
std::string usage_error_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

// The message of the UsageError that `workload` is refused with, "no error" where it can be opened.
inline std::string refusal_of(const std::string& workload) {
  return usage_error_of([&] { static_cast<void>(open_workload(workload, 1)); });
}

}  // namespace allocmark
