// Goal: a pool on a device with little memory left answers as the H200's did, failed requests and
// what follows them included. Method: recorded random programs on one and three streams, replayed
// call by call: offset, chunks reserved, bytes used, pages free.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/simcuda/core/device.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/core/gz_lines.h"

namespace simcuda {
namespace {

std::uint64_t number(const std::string& text) { return std::stoull(text); }

// One recorded program: its device, with all but some pages held back, and its pool.
class Program {
 public:
  // "program NUMBER PAGES THRESHOLD OPPORTUNISTIC INTERNAL STREAMS...".
  explicit Program(const std::vector<std::string>& head)
      : device_(h200_config(StartState::Plain)), name_(head[1]) {
    for (StreamId& stream : streams_)
      stream = device_.create_stream(StreamKind::NonBlocking, 0).stream;
    // Other programs of the process used the streams before, in this order.
    for (std::size_t i = 6; i < head.size(); ++i) {
      const StreamId stream = streams_[number(head[i])];
      const AllocationOutcome outcome = device_.allocate_async(512, stream, kDefaultPool, 0);
      REQUIRE(device_.deallocate_async(outcome.address, stream, 0).status == Status::Ok);
    }
    REQUIRE(device_.synchronize_device(0).status == Status::Ok);
    REQUIRE(device_.trim_pool(kDefaultPool, 0).status == Status::Ok);
    const std::uint64_t held_pages = device_.free_bytes() / kPageBytes - number(head[2]);
    REQUIRE(device_.allocate(held_pages * kPageBytes).status == Status::Ok);
    pool_ = device_.create_pool(0).pool;
    MemoryPool& pool = *device_.pool(pool_);
    pool.set_release_threshold(number(head[3]));
    pool.set_allow_opportunistic(head[4] == "1");
    pool.set_allow_internal_dependencies(head[5] == "1");
  }

  // Whether the answer is the recorded one.
  bool answers(const std::vector<std::string>& line) {
    now_ns_ += 10'000;
    const std::string wanted = line[0] == "a" ? line[4] : "";
    const std::string got = act(line);
    const MemoryUsage usage = device_.pool(pool_)->usage();
    const std::vector<std::string> figures{std::to_string(usage.reserved_bytes / kChunkBytes),
                                           std::to_string(usage.used_bytes),
                                           std::to_string(device_.free_bytes() / kPageBytes)};
    return got == wanted && std::equal(figures.begin(), figures.end(), line.end() - 3);
  }

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Block {
    std::uint64_t address = 0;
    StreamId stream = 0;
  };

  std::string act(const std::vector<std::string>& line) {
    if (line[0] == "a") return allocate(line);
    if (line[0] == "f") {
      free(number(line[1]), streams_[number(line[2])]);
    } else if (line[0] == "s") {
      (void)device_.synchronize_stream(streams_[number(line[1])], now_ns_);
    } else if (line[0] == "trim") {
      (void)device_.trim_pool(pool_, 0);
    } else {
      // "end": what is live is freed first.
      while (line[0] == "end" && !live_.empty()) {
        free(live_.begin()->first, live_.begin()->second.stream);
      }
      (void)device_.synchronize_device(now_ns_);
    }
    return "";
  }

  std::string allocate(const std::vector<std::string>& line) {
    const StreamId stream = streams_[number(line[3])];
    const AllocationOutcome outcome =
        device_.allocate_async(number(line[2]), stream, pool_, now_ns_);
    if (outcome.status == Status::OutOfMemory) return "E2";
    if (first_address_ == 0) first_address_ = outcome.address;
    live_[number(line[1])] = {.address = outcome.address, .stream = stream};
    char text[17];
    std::snprintf(text, sizeof text, "%llx",
                  static_cast<unsigned long long>(outcome.address - first_address_));
    return text;
  }

  void free(std::uint64_t id, StreamId stream) {
    (void)device_.deallocate_async(live_.at(id).address, stream, now_ns_);
    live_.erase(id);
  }

  Device device_;
  std::string name_;
  PoolId pool_ = 0;
  StreamId streams_[3] = {};
  std::uint64_t now_ns_ = 0;
  std::uint64_t first_address_ = 0;
  std::map<std::uint64_t, Block> live_;
};

TEST_CASE("a pool at full memory answers call by call as recorded") {
  std::unique_ptr<Program> program;
  std::uint64_t program_count = 0;
  std::uint64_t line_count = 0;
  std::uint64_t failure_count = 0;
  bool equal = true;
  for (const std::string& text : read_gz_lines("tests/golden/simcuda/pool/full_memory.log.gz")) {
    if (text.starts_with('#')) continue;
    const std::vector<std::string> line = split(text, ' ');
    if (line[0] == "program") {
      program = std::make_unique<Program>(line);
      ++program_count;
      equal = true;
      continue;
    }
    ++line_count;
    failure_count += text.find(" E2 ") != std::string::npos ? 1 : 0;
    if (!equal) continue;
    equal = program->answers(line);
    INFO("program " << program->name() << ", first difference at: " << text);
    CHECK(equal);
  }
  CHECK(program_count == 11);
  CHECK(line_count == 15272);
  CHECK(failure_count > 500);
}

}  // namespace
}  // namespace simcuda
