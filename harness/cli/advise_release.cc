#include "harness/cli/advise_release.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "allocators/caching/config.h"
#include "harness/why/self_check.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/recording.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

constexpr std::string_view kFile = "file:";

JobRelease one_release(const caching::Rules& rules, std::string basis) {
  return {.rules = &rules, .possible = {&rules}, .basis = std::move(basis), .is_known = true};
}

// A version as PyTorch writes it into a recording; nothing known of it: the newest.
JobRelease recorded_release(const std::string& version) {
  const std::optional<caching::ReadRelease> read = caching::read_release(version);
  if (!read) return {};
  std::string basis = "as the recording says";
  if (!read->note.empty()) basis = fmt::format("for the recording's {}: {}", version, read->note);
  return one_release(caching::require_rules(read->number, "# torch"), std::move(basis));
}

// Releases that put blocks in the same places as the snapshot.
JobRelease snapshot_release(const std::string& path) {
  const MemorySnapshot snapshot = read_memory_snapshot(path);
  const std::size_t device = snapshot.busiest_device();
  if (snapshot.entry_count(device) == 0) return {};
  const DeviceHistory history(snapshot, device);
  const caching::Rules& found = *recognise(history, snapshot.settings).settings.settings.rules;
  JobRelease release{.rules = &found, .possible = {}, .basis = "", .is_known = true};
  std::vector<std::string> names;
  for (const caching::Rules& rules : caching::all_rules()) {
    if (rules.tie_break != found.tie_break) continue;
    release.possible.push_back(&rules);
    names.push_back(rules.name());
  }
  release.basis = fmt::format("by where blocks lie it is one of {}", fmt::join(names, ", "));
  if (names.size() == 1) release.basis = "by where blocks lie";
  return release;
}

bool has_key(const std::vector<ConfPair>& pairs, std::string_view word) {
  return std::ranges::any_of(pairs, [&](const ConfPair& pair) {
    return pair.key == word || pair.key + ":" + pair.value == word;
  });
}

}  // namespace

JobRelease find_release(const JobOptions& job, const std::string& recorded) {
  if (!job.pytorch.empty()) {
    return one_release(caching::require_rules(job.pytorch, "--pytorch"), "as given");
  }
  if (!recorded.empty()) {
    if (JobRelease release = recorded_release(recorded); release.rules != nullptr) return release;
  }
  const std::string workload = workload_of(job.workload);
  const std::vector<std::string> files = workload_files(workload);
  // One recording by itself; several processes may be of several releases.
  if (files.size() == 1 && workload == std::string(kFile) + files[0]) {
    const std::string& path = files[0];
    if (recording_kind(path) == RecordingKind::PytorchSnapshot) {
      if (JobRelease release = snapshot_release(path); release.rules != nullptr) return release;
    }
  }
  JobRelease newest = one_release(caching::newest_rules(), "the newest that is modelled");
  newest.is_known = false;
  return newest;
}

std::string allocator_of(const JobRelease& release) {
  return release.is_known ? release.rules->allocator() : "caching";
}

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
