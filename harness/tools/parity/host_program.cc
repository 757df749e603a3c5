// See host_program.h.
#include "harness/tools/parity/host_program.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "base/bytes.h"
#include "base/random.h"

namespace allocmark {
namespace {

using host_caching::Address;
using host_caching::HostStatistics;
using host_caching::PinnedBlock;
using host_caching::Stream;

constexpr std::uint64_t kStreamCount = 3;
constexpr std::uint64_t kConfSeed = 0x686f7374;  // apart from the operations' numbers
constexpr int kFirstMinorWithPools = 11;

struct ConfChoice {
  std::string_view key;
  std::array<std::string_view, 4> values;
};
// 128 MiB and less, so that a reserved segment fits beside the blocks.
constexpr std::array kConfChoices = {
    ConfChoice{"pinned_use_cuda_host_register", {"True", "True", "False", "True"}},
    ConfChoice{"pinned_num_register_threads", {"1", "2", "8", "128"}},
    ConfChoice{"pinned_use_background_threads", {"True", "True", "False", "True"}},
    ConfChoice{"pinned_reserve_segment_size_mb", {"1", "16", "64", "128"}},
    ConfChoice{"pinned_max_round_threshold_mb", {"0", "1", "5", "64"}},
    ConfChoice{"pinned_max_cached_size_mb", {"0", "1", "16", "100"}},
};

const caching::Rules& rules_of(const HostProgram& program) {
  return caching::require_rules(program.pytorch, "--pytorch");
}

std::string random_conf(Random& random, const caching::Rules& rules) {
  std::string conf;
  if (random.below(4) == 0) return conf;
  for (const ConfChoice& choice : kConfChoices) {
    const caching::ConfigKey* const key = caching::find_config_key(choice.key);
    if (key == nullptr || !key->known_to(rules) || random.below(3) != 0) continue;
    conf += fmt::format("{}{}:{}", conf.empty() ? "" : ",", choice.key,
                        choice.values[random.below(choice.values.size())]);
  }
  return conf;
}

// Sizes around powers of two, small ones as often as large ones, and others between.
std::uint64_t random_size(Random& random) {
  const std::uint64_t kind = random.below(100);
  if (kind == 0) return 0;
  if (kind == 1) return std::uint64_t{1} << random.between(34, 58);
  const std::uint64_t power = std::uint64_t{1} << random.below(kind < 90 ? 27 : 33);
  if (kind < 50) return std::max<std::uint64_t>(1, power + random.below(3) - 1);
  return random.between(1, power);
}

// The counters that differ, of both sides.
std::pair<std::string, std::string> differing(const HostStatistics& theirs,
                                              const HostStatistics& ours) {
  std::pair<std::string, std::string> texts;
  const auto add = [](std::string& text, const HostStatistics& from, const HostStatistics& other) {
    for (const auto& counter : from) {
      if (std::ranges::find(other, counter) == other.end())
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", counter.first, counter.second);
    }
  };
  add(texts.first, theirs, ours);
  add(texts.second, ours, theirs);
  return texts;
}

class CachePair {
 public:
  CachePair(const HostProgram& program, const OtherHostCache& other)
      : random_(program.seed),
        rules_(rules_of(program)),
        other_(other),
        driver_(host_room_bytes(program)),
        settings_(settings_of(program)),
        ours_(driver_, settings_) {
    result_.conf = host_conf(program);
  }

  HostLiveResult run(std::uint64_t operation_count) {
    while (result_.operation.empty() && result_.operation_count < operation_count) {
      operation_.clear();
      act();
      if (operation_.empty()) continue;
      ++result_.operation_count;
      compare_counters();
    }
    return std::move(result_);
  }

 private:
  struct Live {
    Address address = 0;
    std::uint64_t size_bytes = 0;
  };

  static caching::Settings settings_of(const HostProgram& program) {
    return caching::parse_strict(host_conf(program), rules_of(program)).settings;
  }

  // One random operation; leaves operation_ empty where the one that was drawn does not apply.
  void act() {
    const std::uint64_t kind = random_.below(1000);
    // Programs fill the machine and empty it again.
    const std::uint64_t allocations = result_.operation_count / 512 % 2 == 0 ? 480 : 300;
    if (kind < allocations) return allocate();
    if (kind < 600) return use();
    if (kind < 860) return deallocate();
    if (kind < 930) return hold_or_release();
    if (kind < 960) return pass();
    if (kind < 975) return capture();
    if (kind < 985) return plain("empty_cache", other_.empty_cache, [&] { ours_.empty_cache(); });
    if (kind < 990) return plain("reset_peak", other_.reset_peak, [&] { ours_.reset_peak(); });
    if (kind < 995)
      return plain("reset_accumulated", other_.reset_accumulated,
                   [&] { ours_.reset_accumulated(); });
    change();
  }

  template <typename Ours>
  void plain(std::string_view name, const std::function<void()>& theirs, Ours ours) {
    operation_ = name;
    theirs();
    ours();
  }

  void allocate() {
    const std::uint64_t size_bytes = random_size(random_);
    operation_ = fmt::format("allocate {} bytes", size_bytes);
    const std::uint64_t pin_calls = driver_.pin_calls();
    const PinnedBlock theirs = other_.allocate(size_bytes);
    const PinnedBlock ours = ours_.allocate(size_bytes);
    if (theirs.address != ours.address || theirs.size_bytes != ours.size_bytes) {
      return differs(fmt::format("{} bytes at {:#x}", theirs.size_bytes, theirs.address),
                     fmt::format("{} bytes at {:#x}", ours.size_bytes, ours.address));
    }
    if (ours.address == 0) {
      result_.refusal_count += size_bytes > 0 ? 1 : 0;
      return;
    }
    ++result_.block_count;
    result_.reused_count += driver_.pin_calls() == pin_calls ? 1 : 0;
    live_.push_back({.address = ours.address, .size_bytes = size_bytes});
  }

  void use() {
    const bool is_known = random_.below(50) != 0;
    if (is_known && live_.empty()) return;
    const Address address = is_known ? live_[random_.below(live_.size())].address : 1;
    const Stream stream = random_.below(kStreamCount);
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
    operation_ = fmt::format("deallocate {:#x} of {} bytes", block.address, block.size_bytes);
    other_.deallocate(block.address);
    ours_.deallocate(block.address);
  }

  // A stream that is held finishes nothing.
  void hold_or_release() {
    const Stream stream = random_.below(kStreamCount);
    const bool holds = random_.below(2) == 0;
    operation_ = fmt::format("{} stream {}", holds ? "hold" : "release", stream);
    for (host_caching::CountingDriver* const driver : {other_.driver, &driver_}) {
      holds ? driver->hold(stream) : driver->release(stream);
    }
  }

  void pass() {
    plain("pass of the background thread", other_.background_pass,
          [&] { ours_.background_pass(); });
  }

  void capture() {
    if (rules_.minor < kFirstMinorWithPools) return;
    if (capturing_ != 0) {
      capturing_ = 0;
      return plain("end_capture", other_.end_capture, [&] { ours_.end_capture(); });
    }
    const bool releases = !pools_.empty() && random_.below(3) == 0;
    if (releases) {
      const std::uint64_t pool = pools_.back();
      pools_.pop_back();
      operation_ = fmt::format("release_pool {}", pool);
      other_.release_pool(pool);
      return ours_.release_pool(pool);
    }
    const bool again = !pools_.empty() && random_.below(4) == 0;
    capturing_ = again ? pools_[random_.below(pools_.size())] : ++last_pool_;
    // A pool that captures share is released as often as it was begun.
    pools_.push_back(capturing_);
    ++result_.capture_count;
    operation_ = fmt::format("begin_capture into pool {}", capturing_);
    other_.begin_capture(capturing_);
    ours_.begin_capture(capturing_);
  }

  void change() {
    const std::string conf = random_conf(random_, rules_);
    operation_ = fmt::format("change settings to '{}'", conf);
    ++result_.change_count;
    const std::string theirs = other_.change(conf);
    const std::string ours = caching::change_like_pytorch(settings_, conf);
    ours_.change(settings_);
    if (theirs != ours) differs(theirs, ours);
  }

  void compare_counters() {
    if (!result_.operation.empty()) return;
    const HostStatistics theirs = other_.statistics();
    const HostStatistics ours = ours_.statistics();
    result_.counter_count += ours.size();
    if (theirs == ours) return;
    auto [their_text, our_text] = differing(theirs, ours);
    differs(std::move(their_text), std::move(our_text));
  }

  void differs(std::string theirs, std::string ours) {
    result_.operation = operation_;
    result_.theirs = std::move(theirs);
    result_.ours = std::move(ours);
  }

  Random random_;
  const caching::Rules& rules_;
  const OtherHostCache& other_;
  host_caching::CountingDriver driver_;
  caching::Settings settings_;
  host_caching::HostCache ours_;
  std::vector<Live> live_{};
  std::vector<std::uint64_t> pools_{};  // that are not released, one entry per capture into them
  std::uint64_t capturing_ = 0;
  std::uint64_t last_pool_ = 0;
  std::string operation_{};
  HostLiveResult result_{};
};

}  // namespace

std::string host_conf(const HostProgram& program) {
  Random random(program.seed ^ kConfSeed);
  return random_conf(random, rules_of(program));
}

std::uint64_t host_room_bytes(const HostProgram& program) {
  return program.seed % 3 == 0 ? 4 * kGiB : 512 * kGiB;
}

HostLiveResult compare_host_caches(const HostProgram& program, const OtherHostCache& other) {
  return CachePair(program, other).run(program.operation_count);
}

}  // namespace allocmark
