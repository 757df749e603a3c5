// Goal: whatever a program does, live blocks never overlap, the figures add up, and nothing is
// lost. Method: random requests, frees, events, gates and synchronisations on a small device,
// checked against plain bookkeeping here.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "harness/simcuda/core/device.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/core/sizes.h"

namespace simcuda {
namespace {

struct Block {
  std::uint64_t size_bytes = 0;
  bool from_pool = false;
  StreamId stream = 0;
};

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed)
      : random_(seed), device_(with_usable_bytes(h200_config(StartState::Plain), 256 * kMiB)) {
    for (int i = 0; i < 3; ++i) {
      const StreamKind kind = i == 0 ? StreamKind::Blocking : StreamKind::NonBlocking;
      streams_.push_back(device_.create_stream(kind, 0).stream);
    }
    pools_.push_back(device_.create_pool(0).pool);
    device_.pool(pools_[0])->set_release_threshold(128 * kMiB);
    events_ = {device_.streams().create_event(), device_.streams().create_event()};
  }

  void step() {
    now_ns_ += random_.below(300);
    const std::uint64_t choice = random_.below(100);
    if (choice < 40) {
      allocate();
    } else if (choice < 78) {
      deallocate();
    } else if (choice < 96) {
      work();
    } else {
      synchronize();
    }
    check_figures();
  }

  // Frees everything; returns the bytes that the device still holds.
  std::uint64_t end() {
    open_gate();
    now_ns_ += 1'000'000;
    while (!live_.empty()) {
      deallocate();
    }
    REQUIRE(device_.synchronize_device(now_ns_).status == Status::Ok);
    for (const PoolId pool : pools_) {
      REQUIRE(device_.trim_pool(pool, 0).status == Status::Ok);
    }
    return device_.used_bytes();
  }

  std::uint64_t failure_count() const { return failure_count_; }

 private:
  std::uint64_t random_size() {
    const std::uint64_t span = std::uint64_t{1} << (9 + random_.below(19));
    return 1 + random_.below(span);
  }
  StreamId random_stream() { return streams_[random_.below(streams_.size())]; }

  void allocate() {
    Block block = {.size_bytes = random_size(), .stream = random_stream()};
    block.from_pool = random_.below(3) != 0;
    const AllocationOutcome outcome =
        block.from_pool ? device_.allocate_async(block.size_bytes, block.stream,
                                                 pools_[random_.below(pools_.size())], now_ns_)
                        : device_.allocate(block.size_bytes);
    if (outcome.status == Status::OutOfMemory) {
      ++failure_count_;
      REQUIRE(outcome.address == 0);
      return;
    }
    REQUIRE(outcome.status == Status::Ok);
    REQUIRE(outcome.address % kUnitBytes == 0);
    const auto next = live_.lower_bound(outcome.address);
    REQUIRE((next == live_.end() || outcome.address + block.size_bytes <= next->first));
    if (next != live_.begin()) {
      REQUIRE(std::prev(next)->first + std::prev(next)->second.size_bytes <= outcome.address);
    }
    live_.emplace(outcome.address, block);
    live_bytes_ += block.size_bytes;
    const MemoryBlock found = device_.find(outcome.address + block.size_bytes - 1);
    REQUIRE(found.range.lo == outcome.address);
  }

  void deallocate() {
    if (live_.empty()) {
      return;
    }
    auto at = live_.lower_bound(random_.below(2) == 0 ? 0x302000000 + random_.below(kMiB << 14)
                                                      : 0x7f0000000000);
    at = at == live_.end() ? live_.begin() : at;
    if (!at->second.from_pool) {
      open_gate();  // cudaFree would wait for it
    }
    const Outcome outcome = at->second.from_pool
                                ? device_.deallocate_async(at->first, random_stream(), now_ns_)
                                : device_.deallocate(at->first, now_ns_);
    REQUIRE(outcome.status == Status::Ok);
    now_ns_ = std::max(now_ns_, outcome.work.host_wait_until_ns);
    live_bytes_ -= at->second.size_bytes;
    live_.erase(at);
  }

  void work() {
    StreamOrder& order = device_.streams();
    const std::uint64_t choice = random_.below(5);
    const EventId event = events_[random_.below(events_.size())];
    if (choice == 0) {
      REQUIRE(order.launch(random_stream(), random_.below(2000), now_ns_).status == Status::Ok);
    } else if (choice == 1) {
      REQUIRE(order.launch_gated(random_stream(), gate_, now_ns_).status == Status::Ok);
    } else if (choice == 2) {
      open_gate();
    } else if (choice == 3) {
      REQUIRE(order.record(event, random_stream(), now_ns_) == Status::Ok);
    } else {
      REQUIRE(order.wait(random_stream(), event, now_ns_) == Status::Ok);
    }
  }

  void open_gate() { device_.streams().open_gate(gate_++, now_ns_); }

  void synchronize() {
    open_gate();
    const std::uint64_t choice = random_.below(3);
    const Outcome outcome = choice == 0 ? device_.synchronize_device(now_ns_)
                            : choice == 1
                                ? device_.synchronize_stream(random_stream(), now_ns_)
                                : device_.synchronize_event(events_[random_.below(2)], now_ns_);
    REQUIRE(outcome.status == Status::Ok);
    now_ns_ = std::max(now_ns_, outcome.work.host_wait_until_ns);
  }

  void check_figures() {
    std::uint64_t used_bytes = 0;
    for (const PoolId pool : pools_) {
      const MemoryUsage usage = device_.pool(pool)->usage();
      used_bytes += usage.used_bytes;
      REQUIRE(usage.used_bytes <= usage.reserved_bytes);
      REQUIRE(usage.reserved_bytes <= usage.reserved_bytes_high);
    }
    REQUIRE(used_bytes <= live_bytes_);
    REQUIRE(live_bytes_ <= device_.used_bytes());
    REQUIRE(device_.used_bytes() <= 256 * kMiB);
  }

  allocmark::Random random_;
  Device device_;
  std::vector<StreamId> streams_ = {kLegacyStream};
  std::vector<PoolId> pools_ = {kDefaultPool};
  std::vector<EventId> events_;
  std::map<std::uint64_t, Block> live_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t gate_ = 1;
  std::uint64_t failure_count_ = 0;
};

TEST_CASE("random programs never get overlapping blocks and lose no memory") {
  const char* const given = std::getenv("ALLOCMARK_SEED");
  const std::uint64_t first_seed = given == nullptr ? 1 : std::stoull(given);
  const std::uint64_t seed = first_seed + GENERATE(range(0, 20));
  INFO("ALLOCMARK_SEED=" << seed);
  RandomProgram program(seed);
  for (int i = 0; i < 3000; ++i) {
    program.step();
  }
  CHECK(program.failure_count() > 0);
  // The page of the second stream stays.
  CHECK(program.end() == kPageBytes);
}

}  // namespace
}  // namespace simcuda
