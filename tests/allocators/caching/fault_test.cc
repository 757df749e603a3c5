// Every single call to the device fails once: nothing leaks, and the allocator stays usable
// afterwards.
#include <cstdint>
#include <string>
#include <unordered_map>

#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "allocators/caching/config.h"
#include "harness/tools/parity/program.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

// Runs a program whose steps may throw FakeFailure; a step that fails is passed over.
template <typename Allocator>
void run_steps(const Program& program, FakeDevice& device, Allocator& allocator) {
  std::unordered_map<std::uint64_t, std::uint64_t> held;
  for (const allocmark::Event& event : program.events) {
    try {
      const auto found = held.find(event.id);
      if (event.kind == EventKind::Alloc) {
        if (const auto address = allocator.allocate(event.size_bytes, event.stream))
          held[event.id] = *address;
      } else if (event.kind == EventKind::Free && found != held.end()) {
        const bool known = allocator.deallocate(found->second);
        REQUIRE(known);
        held.erase(found);
      } else if (event.kind == EventKind::Record && found != held.end()) {
        const bool known = allocator.record_stream(found->second, event.stream);
        REQUIRE(known);
      } else if (event.kind == EventKind::Busy) {
        device.start_busy(event.stream);
      } else if (event.kind == EventKind::Sync) {
        device.end_busy();
      } else if (event.kind == EventKind::Trim) {
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
  program.events.push_back({.kind = EventKind::Trim});
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
