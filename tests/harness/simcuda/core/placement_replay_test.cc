// Goal: cudaMalloc and cuMemAddressReserve put every block where the H200 put it. Method: replay
// the recorded logs, which name every request, free and address, and compare each address up to the
// process's base, and each failure. The device sees only sizes and frees, so one wrong choice shows
// in everything after it.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/simcuda/core/device.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/core/gz_lines.h"

namespace simcuda {
namespace {

struct Replay {
  std::uint64_t request_count = 0;
  std::uint64_t equal_count = 0;  // same address relative to the base, or both failed
  std::uint64_t failure_count = 0;
  std::string first_difference;
};

std::uint64_t hex(const std::string& text) { return std::stoull(text, nullptr, 16); }

Replay replay_placement(const std::string& path) {
  Device device(h200_config(StartState::Plain));
  Replay replay;
  std::unordered_map<std::uint64_t, std::uint64_t> addresses;       // by id
  std::unordered_map<std::uint64_t, std::uint64_t> reserved_bytes;  // by id
  std::uint64_t base_shift = 0;  // recorded minus simulated; set by the first request
  bool shift_known = false;
  for (const std::string& line : read_gz_lines(path)) {
    const std::vector<std::string> fields = split(line, ',');
    const std::uint64_t id = fields[0] == "i" ? 0 : std::stoull(fields[1]);
    if (fields[0] == "f") {
      const auto reserved = reserved_bytes.find(id);
      const Outcome outcome =
          reserved == reserved_bytes.end()
              ? device.deallocate(addresses.at(id), 0)
              : device.virtual_memory().free_reservation(addresses.at(id), reserved->second);
      REQUIRE(outcome.status == Status::Ok);
      addresses.erase(id);
    } else if (fields[0] == "i") {
      REQUIRE(device.free_bytes() == std::stoull(fields[2]));
    } else {
      const std::uint64_t size_bytes = std::stoull(fields[2]);
      const bool reserves = fields[0] == "r";  // r,id,bytes,address,alignment
      REQUIRE((reserves || fields[0] == "m"));
      const AllocationOutcome outcome =
          reserves ? device.virtual_memory().reserve(size_bytes, std::stoull(fields[4]))
                   : device.allocate(size_bytes);
      if (reserves) reserved_bytes[id] = size_bytes;
      const std::uint64_t recorded = hex(fields[3]);
      ++replay.request_count;
      // Only the heap's own ranges lie elsewhere in every process.
      const bool in_heap = recorded >= device.config().lowest_heap_address;
      if (!shift_known && in_heap) {
        base_shift = recorded - outcome.address;
        shift_known = true;
      }
      if (outcome.address + (in_heap ? base_shift : 0) == recorded) {
        ++replay.equal_count;
      } else if (replay.first_difference.empty()) {
        replay.first_difference = line;
      }
      replay.failure_count += recorded == 0 ? 1 : 0;
      addresses[id] = outcome.address;
    }
  }
  REQUIRE(base_shift % kChunkBytes == 0);
  return replay;
}

struct Expected {
  const char* file;
  std::uint64_t request_count;
  std::uint64_t failure_count;
};

TEST_CASE("logs of cudaMalloc and of reservations replay with every address equal") {
  const Expected expected =
      GENERATE(Expected{"va_1.csv.gz", 2218, 0}, Expected{"va_2.csv.gz", 2118, 0},
               Expected{"D.log.gz", 4104, 0}, Expected{"E1.log.gz", 3179, 0},
               Expected{"C.log.gz", 1563, 124}, Expected{"mix.csv.gz", 1558, 0},
               Expected{"reserved.csv.gz", 1520, 0}, Expected{"reserved_mixed.csv.gz", 1521, 0});
  const Replay replay =
      replay_placement(std::string("tests/golden/simcuda/placement/") + expected.file);
  INFO(expected.file << ": " << replay.equal_count << " of " << replay.request_count
                     << " equal; first difference at: " << replay.first_difference);
  CHECK(replay.request_count == expected.request_count);
  CHECK(replay.failure_count == expected.failure_count);
  CHECK(replay.equal_count == replay.request_count);
}

}  // namespace
}  // namespace simcuda
