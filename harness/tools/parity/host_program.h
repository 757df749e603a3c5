// Random operations on two caches of pinned memory, in step: HostCache and another, as a rule
// PyTorch's own. After each operation the block and every counter must be equal. Checks; times
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "base/random.h"
#include "harness/tools/parity/pair_program.h"

namespace allocmark {

[[nodiscard]] const caching::Rules& host_rules(const PairProgram& program);
// A config string for a program, from its seed: random values of the keys for pinned memory that
// the release knows, often none.
[[nodiscard]] std::string host_conf(const PairProgram& program);
[[nodiscard]] std::string random_host_conf(Random& random, const caching::Rules& rules);
// Bytes that both machines can pin, from the seed.
[[nodiscard]] std::uint64_t host_room_bytes(const PairProgram& program);
// Sizes around powers of two, small ones as often as large ones, and others between.
[[nodiscard]] std::uint64_t random_host_size(Random& random);
// "allocation.current=3 ...": those that the other has otherwise.
[[nodiscard]] std::string counters_not_in(const host_caching::HostStatistics& from,
                                          const host_caching::HostStatistics& other);

// Other: a cache with HostCache's functions, and `change`, which answers as PyTorch does.
template <typename Other>
class CachePair {
 public:
  CachePair(const PairProgram& program, Other& other, host_caching::CountingDriver& other_driver)
      : random_(program.seed),
        rules_(host_rules(program)),
        other_(other),
        other_driver_(other_driver),
        driver_(host_room_bytes(program)),
        settings_(caching::parse_strict(host_conf(program), rules_).settings),
        ours_(driver_, settings_) {
    result_.setting = fmt::format("conf '{}'", host_conf(program));
  }

  PairResult run(std::uint64_t operation_count) {
    while (result_.operation.empty() && result_.operation_count < operation_count) {
      operation_.clear();
      act();
      if (operation_.empty()) continue;
      ++result_.operation_count;
      if (result_.operation.empty()) compare_counters();
    }
    return std::move(result_);
  }

 private:
  struct Live {
    host_caching::Address address = 0;
    std::uint64_t size_bytes = 0;
  };

  // One random operation; leaves operation_ empty where the one that was drawn does not apply.
  void act() {
    const std::uint64_t kind = random_.below(1000);
    // Programs fill the machine and empty it again.
    const std::uint64_t allocations = result_.operation_count / 512 % 2 == 0 ? 480 : 300;
    if (kind < allocations) return allocate();
    if (kind < 600) return use();
    if (kind < 860) return deallocate();
    if (kind < 930) return hold_or_release();
    if (kind < 960) {
      return both("pass of the background thread", [](auto& cache) { cache.background_pass(); });
    }
    if (kind < 975) return capture();
    if (kind < 985) return both("empty_cache", [](auto& cache) { cache.empty_cache(); });
    if (kind < 990) return both("reset_peak", [](auto& cache) { cache.reset_peak(); });
    if (kind < 995) {
      return both("reset_accumulated", [](auto& cache) { cache.reset_accumulated(); });
    }
    change();
  }

  template <typename Call>
  void both(std::string operation, Call call) {
    operation_ = std::move(operation);
    call(other_);
    call(ours_);
  }

  void allocate() {
    const std::uint64_t size_bytes = random_host_size(random_);
    operation_ = fmt::format("allocate {} bytes", size_bytes);
    const std::uint64_t pin_calls = driver_.pin_calls();
    const host_caching::PinnedBlock theirs = other_.allocate(size_bytes);
    const host_caching::PinnedBlock ours = ours_.allocate(size_bytes);
    if (theirs.address != ours.address || theirs.size_bytes != ours.size_bytes) {
      return differs(fmt::format("{} bytes at {:#x}", theirs.size_bytes, theirs.address),
                     fmt::format("{} bytes at {:#x}", ours.size_bytes, ours.address));
    }
    if (ours.address == 0) {
      result_.counts["refusals"] += size_bytes > 0 ? 1 : 0;
      return;
    }
    ++result_.counts["blocks"];
    result_.counts["reused"] += driver_.pin_calls() == pin_calls ? 1 : 0;
    live_.push_back({.address = ours.address, .size_bytes = size_bytes});
  }

  void use() {
    const bool is_known = random_.below(50) != 0;
    if (is_known && live_.empty()) return;
    const host_caching::Address address = is_known ? live_[random_.below(live_.size())].address : 1;
    const host_caching::Stream stream = random_.below(kStreamCount);
    operation_ = fmt::format("use {:#x} on stream {}", address, stream);
    const bool theirs = other_.use(address, stream);
    const bool ours = ours_.use(address, stream);
    if (theirs != ours) differs(theirs ? "known" : "unknown", ours ? "known" : "unknown");
  }

  void deallocate() {
    if (live_.empty()) return;
    const std::size_t index = random_.below(live_.size());
    const Live block = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    both(fmt::format("deallocate {:#x} of {} bytes", block.address, block.size_bytes),
         [&](auto& cache) { cache.deallocate(block.address); });
  }

  // A stream that is held finishes nothing.
  void hold_or_release() {
    const host_caching::Stream stream = random_.below(kStreamCount);
    const bool holds = random_.below(2) == 0;
    operation_ = fmt::format("{} stream {}", holds ? "hold" : "release", stream);
    for (host_caching::CountingDriver* const driver : {&other_driver_, &driver_}) {
      holds ? driver->hold(stream) : driver->release(stream);
    }
  }

  void capture() {
    if (rules_.minor < kFirstMinorWithPools) return;
    if (capturing_ != 0) {
      capturing_ = 0;
      return both("end_capture", [](auto& cache) { cache.end_capture(); });
    }
    const bool releases = !pools_.empty() && random_.below(3) == 0;
    if (releases) {
      const std::uint64_t pool = pools_.back();
      pools_.pop_back();
      return both(fmt::format("release_pool {}", pool),
                  [&](auto& cache) { cache.release_pool(pool); });
    }
    const bool again = !pools_.empty() && random_.below(4) == 0;
    capturing_ = again ? pools_[random_.below(pools_.size())] : ++last_pool_;
    // A pool that captures share is released as often as it was begun.
    pools_.push_back(capturing_);
    ++result_.counts["captures"];
    both(fmt::format("begin_capture into pool {}", capturing_),
         [&](auto& cache) { cache.begin_capture(capturing_); });
  }

  void change() {
    const std::string conf = random_host_conf(random_, rules_);
    operation_ = fmt::format("change settings to '{}'", conf);
    ++result_.counts["changes"];
    const std::string theirs = other_.change(conf);
    const std::string ours = caching::change_like_pytorch(settings_, conf);
    ours_.change(settings_);
    if (theirs != ours) differs(theirs, ours);
  }

  void compare_counters() {
    const host_caching::HostStatistics theirs = other_.statistics();
    const host_caching::HostStatistics ours = ours_.statistics();
    result_.counts["counters"] += ours.size();
    if (theirs != ours) differs(counters_not_in(theirs, ours), counters_not_in(ours, theirs));
  }

  void differs(std::string theirs, std::string ours) {
    result_.differs(operation_, std::move(theirs), std::move(ours));
  }

  static constexpr std::uint64_t kStreamCount = 3;
  static constexpr int kFirstMinorWithPools = 11;

  Random random_;
  const caching::Rules& rules_;
  Other& other_;
  host_caching::CountingDriver& other_driver_;
  host_caching::CountingDriver driver_;
  caching::Settings settings_;
  host_caching::HostCache ours_;
  std::vector<Live> live_{};
  std::vector<std::uint64_t> pools_{};  // that are not released, one entry per capture into them
  std::uint64_t capturing_ = 0;
  std::uint64_t last_pool_ = 0;
  std::string operation_{};
  PairResult result_{};
};

// The other cache must be new, with the settings host_conf(), on a machine with that room.
template <typename Other>
[[nodiscard]] PairResult compare_host_caches(const PairProgram& program, Other& other,
                                             host_caching::CountingDriver& other_driver) {
  return CachePair<Other>(program, other, other_driver).run(program.operation_count);
}

}  // namespace allocmark
