// Random programs for the caching allocator: made from a seed, run against the reference model,
// shrunk to the shortest that still fails, written as a trace. A program carries its own
// configuration as marks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace allocmark::caching {

enum class FuzzKind : std::uint8_t {
  Alloc,
  Free,
  Record,
  Busy,
  Sync,
  EmptyCache,
  Configure,
  Limit
};

struct FuzzStep {
  FuzzKind kind = FuzzKind::Sync;
  std::uint64_t id = 0;
  std::uint64_t size_bytes = 0;  // Limit: bytes, 0 is none
  std::uint64_t stream = 0;
  std::string conf{};  // Configure
};

struct FuzzProgram {
  std::string conf;                  // config string at the start
  std::uint64_t capacity_bytes = 0;  // of the device
  std::vector<FuzzStep> steps;
};

[[nodiscard]] FuzzProgram make_program(std::uint64_t seed, std::size_t step_count);

// What went wrong at which step; nothing where allocator and model agree throughout and every
// invariant holds.
struct FuzzFailure {
  std::size_t step = 0;
  std::string text;
};
[[nodiscard]] std::optional<FuzzFailure> run_program(const FuzzProgram& program);

// Fewer steps that still fail.
[[nodiscard]] FuzzProgram shrink(FuzzProgram program);

// The trace text format (op,id,size,stream); configuration stands in marks, blanks for commas.
[[nodiscard]] std::string to_trace(const FuzzProgram& program);
[[nodiscard]] FuzzProgram program_from_trace(const std::string& text);

}  // namespace allocmark::caching
