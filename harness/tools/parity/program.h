// Programs for the caching allocator: requests, frees, uses on other streams, busy streams, and
// changes of configuration and limit. Made at random from a seed, or read from a trace; run by the
// fuzzer against a model, and by the live comparison against PyTorch's own allocator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/release.h"
#include "workloads/trace/event.h"

namespace allocmark::caching {

// Whether programs have it: what an allocator of device memory decides by, and marks.
[[nodiscard]] bool is_of_program(EventKind kind);

// A change that a program makes to the allocator: its config string, or its limit in bytes (0 is
// none). One of the two is there.
struct Change {
  std::optional<std::string> conf;
  std::optional<std::uint64_t> limit_bytes;
};

struct Program {
  const Rules* rules = &newest_rules();
  std::string conf{};                      // config string at the start
  std::uint64_t capacity_bytes = 0;        // of the device
  std::vector<allocmark::Event> events{};  // a Mark is a change; its id is the change's index
  std::vector<Change> changes{};

  void change(Change change);  // at the end
};

// Confs that the release does not accept are left out of its programs, and others take their place.
// Confs: what the caching allocator's own algorithm does. AllConfs: every key that PyTorch has, and
// private pools in half of the programs.
enum class ProgramVariety : std::uint8_t { Confs, AllConfs };

[[nodiscard]] Program make_program(std::uint64_t seed, std::size_t step_count,
                                   ProgramVariety variety = ProgramVariety::Confs,
                                   const Rules& rules = newest_rules());

// The trace text format (op,id,size,stream); configuration, capacity and limits stand in marks
// ("mark,conf max_split_size_mb:20 backend:native,0,0"), with blanks for commas.
[[nodiscard]] std::string to_trace(const Program& program);
// One row of it, with its end of line.
[[nodiscard]] std::string to_row(const Program& program, const allocmark::Event& event);
// Throws UsageError with the line's number. Other marks are left out; without a mark
// "capacity" the capacity is 0.
[[nodiscard]] Program program_from_trace(std::string_view text);

}  // namespace allocmark::caching
