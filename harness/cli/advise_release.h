// Which release of PyTorch an answer is for, and which keys it may name. Options and what a
// recording says of itself flow in; rules and config strings flow out.
#pragma once

#include <string>
#include <vector>

#include "allocators/caching/release.h"
#include "harness/advise/search.h"
#include "harness/cli/advise_input.h"

namespace allocmark {

struct JobRelease {
  const caching::Rules* rules = nullptr;  // what is simulated
  // What the job may run on; a key must be known to all of them.
  std::vector<const caching::Rules*> possible{};
  std::string basis;      // "as given", "the newest"
  bool is_known = false;  // not just the newest
};

// As --pytorch says, else as the recording says, else by where a snapshot's blocks lie, else the
// newest.
[[nodiscard]] JobRelease find_release(const JobOptions& job, const std::string& recorded);

// "caching", or the release of it.
[[nodiscard]] std::string allocator_of(const JobRelease& release);

// Of `settings` those that every possible release takes, that --without leaves and that the job
// does not forbid.
[[nodiscard]] std::vector<std::string> allowed_settings(std::vector<std::string> settings,
                                                        const JobOptions& job,
                                                        const JobRelease& release,
                                                        const std::vector<ForbiddenKey>& forbids);

// "left out: expandable_segments (the server sleeps ...), backend (--without)"; empty where nothing
// is.
[[nodiscard]] std::string left_out_text(const JobOptions& job,
                                        const std::vector<ForbiddenKey>& forbids);

// "large_segment_size_mb: since PyTorch 2.11": the keys of these settings that not every release
// has; empty where there are none.
[[nodiscard]] std::string since_text(const std::vector<std::string>& confs);

}  // namespace allocmark
