// Options and tables of 'advise' and 'fit'.
#include "harness/shell/question/job_options.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/nearest.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/cards.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/search/advice.h"
#include "harness/shell/options.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "results/columns/text.h"

namespace allocmark {

void add_release_and_seed(CLI::App* app, JobOptions* job) {
  add_value(app, "--pytorch", job->pytorch, "V",
            "The release of PyTorch that the job runs on, as 2.10 [the recording's own, else the "
            "newest]");
  add_default(app, "--seed", job->seed, "N", "Seed of the workload; recorded traces have none");
}

void add_format(CLI::App* app, JobOptions* job) {
  add_format(app, &job->format, "table, markdown or json (one document)",
             {"table", "markdown", "json"});
}

void add_job_options(CLI::App* app, JobOptions* job) {
  add_value(app, "workload", job->workload, "W",
            "The job: a trace file, or a workload as in 'run --workload'")
      ->required();
  add_default(app, "-d,--device", job->device, "D",
              "The card: sim:CARD (allocmark list cards), sim:h200,memory=24GiB, or cuda:N");
  add_value(app, "-c,--conf", job->confs, "C",
            "Only these config strings, 'unset' for none [a grid of PyTorch's keys]");
  add_release_and_seed(app, job);
  add_value(app, "--target", job->target, "p99=TIME",
            "For a server: request P99 to keep, such as p99=2s; says which settings, loads and "
            "cards keep it");
  add_value(app, "--seeds", job->seed_count, "N",
            "Number of seeds, from --seed on. The longest lengths that a program can draw are "
            "always tried [advise: 3, fit: 1]")
      ->check(CLI::Range(1u, 1000u));
  add_value(app, "--without", job->without, "KEY",
            "A key, or key:value, that the job cannot have; may be repeated")
      ->allow_extra_args(false);
  add_format(app, job);
}

void check_without(const JobOptions& job) {
  const std::vector<std::string> known = caching::config_key_names();
  for (const std::string& word : job.without) {
    const std::string key = word.substr(0, word.find(':'));
    if (std::ranges::find(known, key) != known.end()) continue;
    throw UsageError(
        {.what = "no key of PyTorch's config string",
         .where = "--without",
         .wanted = "a key such as expandable_segments",
         .got = "'" + word + "'",
         .next =
             suggest(key, known, "allocmark explain --pytorch " + caching::newest_rules().name())});
  }
}

std::string workload_of(const std::string& word) {
  std::error_code ignored;  // a workload may be longer than a file's name can be
  const bool is_file = std::filesystem::is_regular_file(word, ignored);
  return is_file ? "file:" + word : word;
}

std::string placed_workload(const JobOptions& job, const std::string& device,
                            const std::string& gpu_name) {
  const std::string text = workload_of(job.workload);
  std::vector<CellKey> cells(1);
  cells.front().workload = text;
  cells.front().device = device;
  const std::string note = place_servers(&cells, gpu_name);
  if (!note.empty()) print_wrapped(stderr, "note: " + note);
  return cells.front().workload_text();
}

std::string search_device(const std::string& device, std::uint64_t memory_bytes) {
  if (is_simulated(device)) return device;
  return fmt::format("sim:h200,memory={}B", memory_bytes);
}

std::string roomy_device(const std::string& device, std::uint64_t stream_count) {
  // Expandable segments reserve 9/8 of the device for each stream and pool, small and large.
  constexpr std::uint64_t kAddressBytes = 36 * kTiB;
  const std::uint64_t room_bytes =
      std::min(kTiB, kAddressBytes / (std::max<std::uint64_t>(stream_count, 1) * 2) * 8 / 9);
  const SimulatedCard card = parse_simulated_device(device);
  // No less than the card itself has; one without a size of its own is the profile's.
  if (room_bytes < std::max(card.total_bytes, kTiB / 8)) return device;
  return fmt::format("sim:{},memory={}MiB", card.profile, room_bytes / kMiB);
}

std::vector<std::string> given_confs(const JobOptions& job, const std::string& allocator) {
  std::vector<std::string> confs;
  for (const std::string& text : job.confs) {
    confs.push_back(read_conf(find_backend(allocator), text));
    print_conf_warnings({{.allocator = allocator, .conf = confs.back()}});
  }
  return confs;
}

std::string text_table(const TableRows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t at = 0; at < row.size(); ++at) {
      widths[at] = std::max(widths[at], row[at].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t at = 0; at < row.size(); ++at) {
      line += at == 0 ? fmt::format("{:<{}}", row[at], widths[at])
                      : fmt::format("  {:>{}}", row[at], widths[at]);
    }
    text += line + "\n";
  }
  return text;
}

std::string markdown_table(const TableRows& rows) {
  std::string text;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const std::vector<std::string>& row = rows[at];
    for (std::size_t column = 0; column < row.size(); ++column) {
      const bool is_code = column == 0 && at > 0;
      text +=
          "| " + (is_code ? markdown_cell_code(row[column]) : markdown_escape(row[column])) + " ";
    }
    text += "|\n";
    if (at > 0) continue;
    for (std::size_t column = 0; column < row.size(); ++column) {
      text += column == 0 ? "| :-- " : "| --: ";
    }
    text += "|\n";
  }
  return text;
}

void print_paragraph(const JobOptions& job, const std::string& text) {
  if (text.empty()) return;
  if (job.format == "markdown") {
    fmt::print("{}\n\n", markdown_escape(text));
  } else {
    print_wrapped(stdout, text);
  }
}

void print_rows(const JobOptions& job, const TableRows& rows) {
  if (job.format == "markdown") {
    fmt::print("{}\n", markdown_table(rows));
  } else {
    print_fitted(stdout, text_table(rows) + "\n");
  }
}

void print_search_notes(const SearchResult& result) {
  for (const std::string& note : result.notes) print_wrapped(stderr, "note: " + note);
  // Settings that fail alike stand in one line.
  std::map<std::string, std::vector<std::string>> failures;
  for (const SettingFacts& facts : result.settings) {
    if (!facts.failure.empty()) failures[facts.failure].push_back(setting_text(facts.conf));
  }
  for (const auto& [reason, settings] : failures) {
    print_wrapped(stderr, fmt::format("note: {} setting{} cannot run with this job: {} ({}{})",
                                      settings.size(), settings.size() == 1 ? "" : "s", reason,
                                      settings.front(), settings.size() > 1 ? ", ..." : ""));
  }
}

nlohmann::ordered_json variants_json(std::span<const VariantSearch> others) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const VariantSearch& one : others) {
    nlohmann::ordered_json settings = nlohmann::ordered_json::array();
    for (const SettingFacts& facts : one.search.settings) {
      nlohmann::ordered_json setting = {{"conf", facts.conf},
                                        {"oom_count", facts.oom_count},
                                        {"peak_bytes", facts.peak_bytes},
                                        {"least_bytes", nullptr}};
      if (facts.least_bytes) setting["least_bytes"] = *facts.least_bytes;
      settings.push_back(std::move(setting));
    }
    json.push_back({{"name", one.variant.name},
                    {"workload", one.variant.workload},
                    {"seed", one.variant.seed},
                    {"needed_bytes", one.search.needed_bytes},
                    {"settings", std::move(settings)}});
  }
  return json;
}

std::string milliseconds(double value_ns) { return fmt::format("{:.3f}", value_ns / 1e6); }

}  // namespace allocmark
