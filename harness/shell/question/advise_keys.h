// Which keys of PyTorch's config string an answer may name: what the job's release knows and the
// job does not forbid.
#pragma once

#include <string>
#include <vector>

#include "harness/core/search/search.h"
#include "harness/shell/question/job_options.h"
#include "harness/shell/question/job_release.h"

namespace allocmark {

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
