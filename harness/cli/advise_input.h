// What 'advise' and 'fit' share: the options that name a job, and the table of a search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocators/caching/release.h"
#include "harness/advise/search.h"
#include "harness/cli/parse.h"

namespace CLI {
class App;
}

namespace allocmark {

struct JobOptions {
  std::string workload;
  std::string device = "sim:h200";
  std::vector<std::string> confs;
  std::string pytorch;  // its release; empty: the newest
  std::uint64_t seed = 1;
  std::string format = "table";
  std::string target;  // of a server's requests, "p99=2s"; empty: none
};
void add_job_options(CLI::App* app, JobOptions* job);

// The release of PyTorch that the job runs on. Throws UsageError where it is not known.
[[nodiscard]] const caching::Rules& release_of(const JobOptions& job);

// "caching", or that release of it.
[[nodiscard]] std::string allocator_of(const JobOptions& job);

// A path that names a file is file:PATH.
[[nodiscard]] std::string workload_of(const std::string& word);

// The job's workload, with the figures of the device's card where it is a server.
[[nodiscard]] std::string placed_workload(const JobOptions& job, const std::string& device,
                                          const std::string& gpu_name);

// The simulated device that a search for `device` runs on; a GPU's memory is simulated.
[[nodiscard]] std::string search_device(const std::string& device, std::uint64_t memory_bytes);

// Largest device that least capacities are looked for on, so that a job that does not fit the card
// is told how much it needs. With many streams it is smaller: each takes address space as large as
// the device.
[[nodiscard]] std::string roomy_device(const std::string& device, std::uint64_t stream_count);

// Config strings as given ("unset" is the empty one), checked; `otherwise` where none were.
[[nodiscard]] std::vector<std::string> chosen_confs(const JobOptions& job,
                                                    std::vector<std::string> otherwise);

// Rows of text under a heading, in columns; numbers are aligned to the right.
[[nodiscard]] std::string text_table(const std::vector<std::vector<std::string>>& rows);

// To stderr, where the job is a recording whose file does not say all.
void print_search_notes(const SearchResult& result);

[[nodiscard]] std::string milliseconds(double value_ns);

}  // namespace allocmark
