// What 'advise' and 'fit' share: the options that name a job, and the table of a search.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/search/search.h"
#include "harness/core/search/variants.h"

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
  std::uint32_t seed_count = 0;      // 0: the command decides
  std::vector<std::string> without;  // keys that the job cannot have, checked
  std::string format = "table";
  std::string target;  // of a server's requests, "p99=2s"; empty: none
};
void add_job_options(CLI::App* app, JobOptions* job);
// Parts of it, for commands that have only these: --pytorch and --seed; --format.
void add_release_and_seed(CLI::App* app, JobOptions* job);
void add_format(CLI::App* app, JobOptions* job);

// Throws UsageError for a key that no release has.
void check_without(const JobOptions& job);

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

// Config strings as given ("unset" is the empty one), checked for that allocator.
[[nodiscard]] std::vector<std::string> given_confs(const JobOptions& job,
                                                   const std::string& allocator);

// Rows of text under a heading, in columns; numbers are aligned to the right.
using TableRows = std::vector<std::vector<std::string>>;
[[nodiscard]] std::string text_table(const TableRows& rows);

// The same as a table of Markdown; the first column is code.
[[nodiscard]] std::string markdown_table(const TableRows& rows);

// Prints a paragraph: wrapped for a terminal, or as Markdown.
void print_paragraph(const JobOptions& job, const std::string& text);
void print_rows(const JobOptions& job, const TableRows& rows);

// To stderr, where the job is a recording whose file does not say all.
void print_search_notes(const SearchResult& result);

// [{"name", "workload", "seed", "needed_bytes", "settings": [...]}].
[[nodiscard]] nlohmann::ordered_json variants_json(std::span<const VariantSearch> others);

[[nodiscard]] std::string milliseconds(double value_ns);

}  // namespace allocmark
