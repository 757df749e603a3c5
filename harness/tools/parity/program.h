// Programs for the caching allocator: requests, frees, uses on other streams, busy streams, and
// changes of configuration and limit. Made at random from a seed, or read from a trace; run by the
// fuzzer against a model, and by the live comparison against PyTorch's own allocator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/release.h"

namespace allocmark::caching {

enum class StepKind : std::uint8_t {
  Alloc,
  Free,
  Record,
  Busy,
  Sync,
  EmptyCache,
  Configure,
  Limit,
  // Of private pools, as EventKind has them; `id` is the pool, as it is of EmptyCache where it is
  // not 0.
  PoolCreate,
  PoolBegin,
  PoolEnd,
  PoolRelease,
  PoolOnOom,
  PoolNoSplit,
  CaptureBegin,
  CaptureEnd
};

[[nodiscard]] constexpr bool is_of_pool(StepKind kind) { return kind >= StepKind::PoolCreate; }

struct ProgramStep {
  StepKind kind = StepKind::Sync;
  std::uint64_t id = 0;
  std::uint64_t size_bytes = 0;  // Limit: bytes, 0 is none. PoolBegin: 1 for every stream.
                                 // PoolOnOom: 1 for on
  std::uint64_t stream = 0;
  std::string conf{};  // Configure
};

struct Program {
  const Rules* rules = &newest_rules();
  std::string conf{};                // config string at the start
  std::uint64_t capacity_bytes = 0;  // of the device
  std::vector<ProgramStep> steps{};
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
[[nodiscard]] std::string to_row(const ProgramStep& step);
// Throws UsageError with the line's number. Other marks are left out; without a mark
// "capacity" the capacity is 0.
[[nodiscard]] Program program_from_trace(std::string_view text);

}  // namespace allocmark::caching
