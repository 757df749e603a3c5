// See job_release.h.
#include "harness/shell/question/job_release.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/recorded/releases.h"
#include "harness/core/recorded/self_check.h"
#include "harness/core/replay/kernel_source.h"
#include "results/columns/columns.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/recording.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

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
  const std::size_t device = snapshot.main_device();
  if (snapshot.entry_count(device) == 0) return {};
  const DeviceHistory history(snapshot, device);
  const caching::Rules& found = *recognise(history, snapshot.settings).settings.settings.rules;
  JobRelease release{
      .rules = &found, .possible = releases_placing_as(found), .basis = "", .is_known = true};
  std::vector<std::string> names;
  for (const caching::Rules* one : release.possible) names.push_back(one->name());
  release.basis = fmt::format("one of {} by where blocks lie", fmt::join(names, ", "));
  if (names.size() == 1) release.basis = "by where blocks lie";
  return release;
}

// The file of a workload that is one recording by itself, with or without kernels of ours; several
// processes may be of several releases.
std::string only_file(const std::string& workload) {
  const std::vector<std::string> files = trace_files_of_workload(workload);
  if (files.size() != 1) return "";
  const std::string said = define_workload_with_kernels(workload);
  const std::string_view text = said.empty() ? workload : said;
  const std::string whole = "file:" + files[0];
  const bool is_alone = text == whole || text.starts_with(whole + "+");
  return is_alone ? files[0] : "";
}

// Jobs that are told in one sentence.
struct SameRelease {
  const JobRelease* release;
  std::vector<std::string> names;
};
std::vector<SameRelease> by_release(const std::vector<JobOfRelease>& jobs) {
  std::vector<SameRelease> groups;
  for (const JobOfRelease& job : jobs) {
    const auto same = std::ranges::find_if(groups, [&](const SameRelease& group) {
      return group.release->rules == job.release.rules && group.release->basis == job.release.basis;
    });
    if (same == groups.end()) {
      groups.push_back({.release = &job.release, .names = {job.workload}});
    } else {
      same->names.push_back(job.workload);
    }
  }
  return groups;
}

std::string few_of(const std::vector<std::string>& names) {
  constexpr std::size_t kNamedMax = 3;
  if (names.size() <= kNamedMax) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kNamedMax, ", "),
                     names.size() - kNamedMax);
}

}  // namespace

JobRelease find_release(const ReleaseQuestion& question) {
  if (!question.given.empty()) {
    return one_release(caching::require_rules(question.given, "--pytorch"), "as given");
  }
  if (!question.recorded.empty()) {
    if (JobRelease release = recorded_release(question.recorded); release.rules != nullptr) {
      return release;
    }
  }
  if (const std::string path = only_file(question.workload);
      !path.empty() && recording_kind(path) == RecordingKind::PytorchSnapshot) {
    if (JobRelease release = snapshot_release(path); release.rules != nullptr) return release;
  }
  JobRelease newest = one_release(caching::newest_rules(), "the newest that is modelled");
  newest.is_known = false;
  return newest;
}

std::string allocator_of(const JobRelease& release) {
  return release.is_known ? release.rules->allocator() : std::string(kBaselineAllocator);
}

std::string allocator_for(const std::string& name, const std::vector<std::string>& workloads) {
  if (name != kBaselineAllocator) return name;
  std::string found;
  for (const std::string& workload : workloads) {
    const std::string recorded = open_path_or_workload(workload, 1)->header().pytorch;
    const std::string one =
        allocator_of(find_release({.workload = workload, .recorded = recorded}));
    if (!found.empty() && one != found) return name;
    found = one;
  }
  return found.empty() ? name : found;
}

std::vector<std::string> release_notes(const std::vector<JobOfRelease>& jobs) {
  std::vector<std::string> notes;
  for (const auto& [release, names] : by_release(jobs)) {
    notes.push_back(fmt::format("{}: 'caching' is simulated as {}, {}", few_of(names),
                                release->rules->allocator(), release->basis));
    if (release->rules == &caching::newest_rules()) continue;
    notes.back() +=
        fmt::format("; -a {} asks about the newest release", caching::newest_rules().allocator());
  }
  return notes;
}

}  // namespace allocmark
