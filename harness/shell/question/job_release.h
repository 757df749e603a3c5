// Which release of PyTorch a job is simulated with, for every command: what the user and the
// recording say flows in; rules, and the name of an allocator, flow out.
#pragma once

#include <string>
#include <vector>

#include "allocators/caching/release.h"

namespace allocmark {

struct ReleaseQuestion {
  std::string given{};     // --pytorch; empty: none
  std::string workload{};  // as in 'run --workload'
  std::string recorded{};  // what the trace's header says; empty: nothing
};

struct JobRelease {
  const caching::Rules* rules = nullptr;  // what is simulated
  // What the job may run on; a key must be known to all of them.
  std::vector<const caching::Rules*> possible{};
  std::string basis;      // "as given", "the newest"
  bool is_known = false;  // not just the newest
};

// As given, else as the recording says, else by where a snapshot's blocks lie, else the newest.
[[nodiscard]] JobRelease find_release(const ReleaseQuestion& question);

// "caching", or the release of it.
[[nodiscard]] std::string allocator_of(const JobRelease& release);

// The allocator `name` for a job of these workloads: `caching` without a release is that of the
// job, where all workloads are of one; else it stays as it is. For commands without --pytorch.
[[nodiscard]] std::string allocator_for(const std::string& name,
                                        const std::vector<std::string>& workloads);

struct JobOfRelease {
  std::string workload;
  JobRelease release;
};

// For people, a note for each release: "gpt2_train_amp: caching is simulated as caching@2.11, as
// the recording says; ...".
[[nodiscard]] std::vector<std::string> release_notes(const std::vector<JobOfRelease>& jobs);

}  // namespace allocmark
