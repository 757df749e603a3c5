// The caching allocator against a second, slow reading of its rules, on random programs over every
// config key, several streams, limits and a device that fills up. After every step: same block,
// same counters, same block lists, and the invariants that hold of any heap. A failure is shrunk
// and shown as a trace; save it in tests/regressions/.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tests/allocators/caching/fuzz.h"
#include "tests/catch.h"

using namespace allocmark::caching;

namespace {

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

}  // namespace

TEST_CASE("random programs are served as the reference model serves them") {
  constexpr std::uint64_t kStepsPerProgram = 2000;
  const std::uint64_t seed = number_from_environment("ALLOCMARK_SEED", 1);
  const std::uint64_t programs =
      number_from_environment("ALLOCMARK_FUZZ_STEPS", 2'000'000) / kStepsPerProgram;
  for (std::uint64_t i = 0; i < programs; ++i) {
    const auto rules = all_rules();
    const Program program = make_program(seed * 1'000'003 + i, kStepsPerProgram,
                                         ProgramVariety::Confs, rules[i % rules.size()]);
    const auto failure = run_program(program);
    if (!failure) continue;
    const Program shortest = shrink(program);
    const auto last = run_program(shortest);
    INFO("seed " << seed << ", program " << i << ", " << shortest.events.size()
                 << " steps: " << (last ? last->text : failure->text) << "\n"
                 << to_trace(shortest));
    REQUIRE_FALSE(failure.has_value());
  }
}

TEST_CASE("every failure that was ever found stays fixed") {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/regressions")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("caching_") || entry.path().extension() != ".csv") continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    const auto failure = run_program(program_from_trace(text));
    INFO(name << ": " << (failure ? failure->text : ""));
    CHECK_FALSE(failure.has_value());
    ++count;
  }
  CHECK(count > 0);
}

TEST_CASE("a program survives being written as a trace and read again") {
  const Program program = make_program(7, 300);
  CHECK(to_trace(program_from_trace(to_trace(program))) == to_trace(program));
  const Program all = make_program(7, 300, ProgramVariety::AllConfs);
  CHECK(to_trace(program_from_trace(to_trace(all))) == to_trace(all));
}

TEST_CASE("a program that cannot be read is refused with its line") {
  const auto message = [](std::string_view rows) -> std::string {
    try {
      static_cast<void>(program_from_trace("op,id,size,stream\n" + std::string(rows)));
    } catch (const allocmark::UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(message("alloc,1,2,0\n# a comment\nmark,step 3,0,0\n") == "accepted");
  CHECK(message("sync,0,0,0\nalloc,1,x,0\n").find("line 3") != std::string::npos);
  for (const char* rows : {"alloc,1,2\n", "alloc,1,2,3,4\n", "alloc,-1,2,0\n", "malloc,1,2,0\n",
                           "alloc,1,99999999999999999999,0\n", "mark,limit x,0,0\n", "alloc\n",
                           "kernel,0,1000,0\n", "free,1,5,0\n"}) {
    CHECK(message(rows).find("line 2") != std::string::npos);
  }
}
