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

using allocmark::Event;
using allocmark::EventKind;
using allocmark::kMiB;
using allocmark::caching::Program;

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

// At the program's end.
void add_step(Input& input, std::uint64_t& id_last, Program& program) {
  const std::uint64_t kind = input.byte() % 32;
  const auto stream = static_cast<std::uint32_t>(input.byte() % 3);
  const std::uint64_t id_old =
      id_last == 0 ? 0 : id_last - input.byte() % std::min<std::uint64_t>(id_last, 64);
  if (kind == 31) return program.change({.conf = {}, .limit_bytes = input.below(400) * kMiB});
  const auto add = [&](const Event& event) { program.events.push_back(event); };
  if (kind < 14) {
    add({.id = ++id_last,
         .size_bytes = size_of(input),
         .stream = stream,
         .kind = EventKind::Alloc});
  } else if (kind < 25) {
    add({.id = id_old, .kind = EventKind::Free});
  } else if (kind < 28) {
    add({.id = id_old, .stream = stream, .kind = EventKind::Record});
  } else if (kind == 28) {
    add({.stream = stream, .kind = EventKind::Busy});
  } else {
    add({.kind = kind == 29 ? EventKind::Sync : EventKind::Trim});
  }
}

// The config string is one of the generator's, which knows them all.
Program program_of(Input& input) {
  constexpr std::size_t kStepCountMax = 4000;
  Program program = allocmark::caching::make_program(input.byte(), 0);
  program.capacity_bytes = (100 + input.below(540)) * kMiB;
  std::uint64_t id = 0;
  while (!input.empty() && program.events.size() < kStepCountMax) add_step(input, id, program);
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
