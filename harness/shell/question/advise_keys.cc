#include "harness/shell/question/advise_keys.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "allocators/caching/config.h"

namespace allocmark {
namespace {

bool has_key(const std::vector<ConfPair>& pairs, std::string_view word) {
  return std::ranges::any_of(pairs, [&](const ConfPair& pair) {
    return pair.key == word || pair.key + ":" + pair.value == word;
  });
}

}  // namespace

std::vector<std::string> allowed_settings(std::vector<std::string> settings, const JobOptions& job,
                                          const JobRelease& release,
                                          const std::vector<ForbiddenKey>& forbids) {
  std::erase_if(settings, [&](const std::string& conf) {
    if (conf.empty()) return false;
    const auto refuses = [&](const caching::Rules* rules) {
      return caching::parse_strict(conf, *rules).error.has_value();
    };
    const std::vector<ConfPair> pairs = caching::parse_strict(conf, *release.rules).pairs;
    return std::ranges::any_of(release.possible, refuses) ||
           std::ranges::any_of(job.without, [&](const auto& key) { return has_key(pairs, key); }) ||
           std::ranges::any_of(forbids,
                               [&](const ForbiddenKey& one) { return has_key(pairs, one.key); });
  });
  return settings;
}

std::string left_out_text(const JobOptions& job, const std::vector<ForbiddenKey>& forbids) {
  std::vector<std::string> parts;
  for (const ForbiddenKey& one : forbids) {
    parts.push_back(one.why.empty() ? one.key : fmt::format("{} ({})", one.key, one.why));
  }
  for (const std::string& key : job.without) parts.push_back(key + " (--without)");
  const char* head = job.confs.empty() ? "left out" : "the job cannot have";
  return parts.empty() ? "" : fmt::format("{}: {}", head, fmt::join(parts, "; "));
}

std::string since_text(const std::vector<std::string>& confs) {
  constexpr int kOldestMinor = 9;
  std::set<std::string> parts;
  for (const std::string& conf : confs) {
    for (const ConfPair& pair : caching::parse_strict(conf).pairs) {
      const caching::ConfigKey* key = caching::find_config_key(pair.key);
      if (key == nullptr || key->since_minor <= kOldestMinor) continue;
      parts.insert(
          fmt::format("{}: since PyTorch 2.{}; earlier releases raise an error at the "
                      "first CUDA call",
                      key->name, key->since_minor));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace allocmark
