#include "harness/core/recorded/recorded_settings.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "allocators/caching/config.h"

namespace allocmark {
namespace {

// The pairs of a config string: cut at commas outside of brackets.
template <typename Action>
void for_each_pair(std::string_view conf, Action action) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= conf.size(); ++i) {
    if (i < conf.size() && conf[i] == '[') ++depth;
    if (i < conf.size() && conf[i] == ']') --depth;
    if (i < conf.size() && (conf[i] != ',' || depth > 0)) continue;
    if (i > begin) action(conf.substr(begin, i - begin));
    begin = i + 1;
  }
}

void append(std::string* list, std::string_view pair) {
  if (!list->empty()) *list += ',';
  *list += pair;
}

}  // namespace

RecordedSettings recorded_settings(const SnapshotSettings& recorded, const caching::Rules& rules) {
  RecordedSettings result;
  for_each_pair(recorded.conf, [&](std::string_view pair) {
    const bool known = caching::find_config_key(pair.substr(0, pair.find(':'))) != nullptr;
    const bool reads = known && caching::parse_pytorch(pair, rules).accepted();
    append(reads ? &result.conf : &result.unknown, pair);
  });
  const caching::PytorchConfig parsed = caching::parse_pytorch(result.conf, rules);
  result.settings.rules = &rules;
  if (parsed.accepted()) result.settings = parsed.settings;
  // The fields are what was in force at the end, whichever way it was set.
  if (!recorded.known) return result;
  caching::Settings& settings = result.settings;
  settings.max_split_size_bytes = recorded.max_split_bytes < 0
                                      ? caching::kUnlimited
                                      : static_cast<std::uint64_t>(recorded.max_split_bytes);
  settings.expandable_segments = recorded.expandable_segments;
  settings.garbage_collection_threshold = recorded.garbage_collection_threshold;
  for (const auto& [interval, divisions] : recorded.roundup_divisions) {
    std::uint64_t mib = 0;
    std::from_chars(interval.data(), interval.data() + interval.size(), mib);
    const auto index = static_cast<std::size_t>(std::bit_width(mib)) - 1;
    if (mib > 0 && index < caching::kIntervalCount)
      settings.roundup_power2_divisions[index] = divisions;
  }
  return result;
}

}  // namespace allocmark
