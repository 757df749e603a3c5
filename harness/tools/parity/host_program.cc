// See host_program.h.
#include "harness/tools/parity/host_program.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kConfSeed = 0x686f7374;  // apart from the operations' numbers

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

}  // namespace

const caching::Rules& host_rules(const PairProgram& program) {
  return caching::require_rules(program.rules, "--pytorch");
}

std::string host_conf(const PairProgram& program) {
  Random random(program.seed ^ kConfSeed);
  return random_host_conf(random, host_rules(program));
}

std::string random_host_conf(Random& random, const caching::Rules& rules) {
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

std::uint64_t host_room_bytes(const PairProgram& program) {
  return program.seed % 3 == 0 ? 4 * kGiB : 512 * kGiB;
}

std::uint64_t random_host_size(Random& random) {
  const std::uint64_t kind = random.below(100);
  if (kind == 0) return 0;
  if (kind == 1) return std::uint64_t{1} << random.between(34, 58);
  const std::uint64_t power = std::uint64_t{1} << random.below(kind < 90 ? 27 : 33);
  if (kind < 50) return std::max<std::uint64_t>(1, power + random.below(3) - 1);
  return random.between(1, power);
}

std::string counters_not_in(const host_caching::HostStatistics& from,
                            const host_caching::HostStatistics& other) {
  std::string text;
  for (const auto& counter : from) {
    if (std::ranges::find(other, counter) != other.end()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", counter.first, counter.second);
  }
  return text;
}

}  // namespace allocmark
