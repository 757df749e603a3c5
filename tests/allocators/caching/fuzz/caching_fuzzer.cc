// libFuzzer's way into the caching allocator: bytes become a program
// (tests/allocators/caching/fuzz.h), which runs on the allocator and on the reference model. A
// difference or a broken invariant aborts with the shortest program as a trace, to be kept in
// tests/regressions/.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "tests/allocators/caching/fuzz.h"

namespace {

using allocmark::kMiB;
using allocmark::caching::Program;
using allocmark::caching::ProgramStep;
using allocmark::caching::StepKind;

// Bytes as numbers; zeros after the end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}

  [[nodiscard]] bool empty() const { return data_ == end_; }
  std::uint64_t byte() { return empty() ? 0 : *data_++; }
  std::uint64_t below(std::uint64_t bound) { return (byte() << 8 | byte()) % bound; }

 private:
  const std::uint8_t* data_;
  const std::uint8_t* end_;
};

// One byte chooses the power of two, two the place in it: small and large, exact and odd.
std::uint64_t size_of(Input& input) {
  const std::uint64_t power = std::uint64_t{1} << input.below(27);
  return power + power * input.byte() / 256;
}

ProgramStep step_of(Input& input, std::uint64_t id_new) {
  const std::uint64_t kind = input.byte() % 32;
  const std::uint64_t stream = input.byte() % 3;
  const std::uint64_t id_old =
      id_new == 0 ? 0 : id_new - input.byte() % std::min<std::uint64_t>(id_new, 64);
  if (kind < 14) {
    return {
        .kind = StepKind::Alloc, .id = id_new + 1, .size_bytes = size_of(input), .stream = stream};
  }
  if (kind < 25) return {.kind = StepKind::Free, .id = id_old};
  if (kind < 28) return {.kind = StepKind::Record, .id = id_old, .stream = stream};
  if (kind == 28) return {.kind = StepKind::Busy, .stream = stream};
  if (kind == 29) return {.kind = StepKind::Sync};
  if (kind == 30) return {.kind = StepKind::EmptyCache};
  return {.kind = StepKind::Limit, .size_bytes = input.below(400) * kMiB};
}

// The config string is one of the generator's, which knows them all.
Program program_of(Input& input) {
  constexpr std::size_t kStepCountMax = 4000;
  Program program = allocmark::caching::make_program(input.byte(), 0);
  program.capacity_bytes = (100 + input.below(540)) * kMiB;
  std::uint64_t id = 0;
  while (!input.empty() && program.steps.size() < kStepCountMax) {
    program.steps.push_back(step_of(input, id));
    if (program.steps.back().kind == StepKind::Alloc) ++id;
  }
  return program;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const Program program = program_of(input);
  if (!allocmark::caching::run_program(program)) return 0;
  const Program shortest = allocmark::caching::shrink(program);
  const auto failure = allocmark::caching::run_program(shortest);
  fmt::print(stderr, "{}\n{}", failure ? failure->text : "", to_trace(shortest));
  std::abort();
}
