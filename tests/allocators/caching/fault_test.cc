// Every single call to the device fails once: nothing leaks, and the allocator stays usable
// afterwards.
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "allocators/caching/config.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/allocators/caching/fuzz.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

// Runs a program whose steps may throw FakeFailure; a step that fails is passed over.
template <typename Allocator>
void run_steps(const Program& program, FakeDevice& device, Allocator& allocator) {
  std::unordered_map<std::uint64_t, std::uint64_t> held;
  for (const ProgramStep& step : program.steps) {
    try {
      const auto found = held.find(step.id);
      if (step.kind == StepKind::Alloc) {
        if (const auto address = allocator.allocate(step.size_bytes, step.stream))
          held[step.id] = *address;
      } else if (step.kind == StepKind::Free && found != held.end()) {
        const bool known = allocator.deallocate(found->second);
        REQUIRE(known);
        held.erase(found);
      } else if (step.kind == StepKind::Record && found != held.end()) {
        const bool known = allocator.record_stream(found->second, step.stream);
        REQUIRE(known);
      } else if (step.kind == StepKind::Busy) {
        device.start_busy(step.stream);
      } else if (step.kind == StepKind::Sync) {
        device.end_busy();
      } else if (step.kind == StepKind::EmptyCache) {
        allocator.empty_cache();
      }
    } catch (const FakeFailure&) {
      // What was asked for did not happen; the block, if any, is still held.
    }
  }
  device.fail_call(0);
  device.end_busy();
  for (const auto& [id, address] : held) REQUIRE(allocator.deallocate(address));
  allocator.empty_cache();
  REQUIRE(device.used_bytes() == 0);
}

Program short_program(std::uint64_t seed, const std::string& conf) {
  Program program = make_program(seed, 120);
  program.conf = conf;
  program.capacity_bytes = 200 * kMiB;
  program.steps.push_back({.kind = StepKind::EmptyCache});
  return program;
}

}  // namespace

TEST_CASE("whichever device call fails, nothing leaks and the allocator goes on") {
  for (const char* conf : {"", "max_split_size_mb:24", "expandable_segments:True"}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Program program = short_program(seed, conf);
      std::uint64_t nth = 1;
      for (bool reached = true; reached; ++nth) {
        FakeDevice device(640 * kMiB, program.capacity_bytes);
        {
          CachingAllocator allocator(device, parse_pytorch(conf).settings);
          device.fail_call(nth);
          INFO("conf " << conf << ", seed " << seed << ", call " << nth);
          run_steps(program, device, allocator);
          reached = device.call_count() >= nth;
        }
        REQUIRE(device.is_clean());
      }
      CHECK(nth > 10);
    }
  }
}

TEST_CASE("whichever call of the driver's pool fails, nothing leaks") {
  const Program program = short_program(1, "");
  for (std::uint64_t nth = 1; nth < 200; ++nth) {
    FakeDevice device(640 * kMiB, program.capacity_bytes);
    {
      AsyncAllocator allocator(device, 0);
      device.fail_call(nth);
      INFO("call " << nth);
      run_steps(program, device, allocator);
    }
    REQUIRE(device.is_clean());
  }
}
