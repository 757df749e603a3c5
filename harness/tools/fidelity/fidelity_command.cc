// 'allocmark fidelity REFERENCE --workload W': how much a generated trace is like a recorded one,
// each distance one number (workloads/FIDELITY.md, "Fidelity"); and 'allocmark fidelity --all': the
// same for every recording that ships, against its targets.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "allocators/registry.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/output_file.h"
#include "harness/shell/options.h"
#include "harness/shell/registry.h"
#include "harness/tools/fidelity/fidelity.h"
#include "workloads/references.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

struct FidelityCommand {
  std::string reference;           // a recorded trace: its name, or a file
  std::string workload;            // held against it; empty = the one that the recording ships with
  std::vector<std::string> confs;  // of the replays; empty = the three of the targets
  std::uint64_t seed = 1;
  std::string format = "table";
  std::string out;   // folder for pages and numbers; empty = none
  bool all = false;  // every recording that ships
};

void add_fidelity(CLI::App* app, FidelityCommand* command) {
  add_value(app, "reference", command->reference, "REFERENCE",
            "The recorded trace: the name of one that ships, or a file");
  add_value(app, "-w,--workload", command->workload, "W",
            "The workload to compare it with [a shipped recording's own]");
  app->add_flag("--all", command->all, "Every recording that ships, one row each");
  add_value(app, "-c,--conf", command->confs, "C",
            "Config strings of caching for the replays [unset, max_split_size_mb:128, "
            "expandable_segments:True]");
  add_default(app, "--seed", command->seed, "N", "Seed of the workload")
      ->check(CLI::NonNegativeNumber);
  add_format(app, &command->format, "table or json", {"table", "json"});
  add_value(app, "-o,--out", command->out, "DIR",
            "Also write plots (NAME.html) and numbers (fidelity.json) into this folder");
  app->footer(
      "\nEach distance is one number, defined in workloads/FIDELITY.md.\n"
      "\nExit codes: 0 compared, 1 with --all a recording misses the targets, 2 usage, 3 a replay "
      "failed.\n");
}

// Two traces held against each other.
struct ProgramComparison {
  std::string reference_text, workload;
  TraceShape reference, generated;
  FidelityReport report;
  std::vector<ReplayPair> replays;
};

// How near a generator has to come to a recording.
struct Targets {
  double peak, allocs, overlap;
};
constexpr Targets kTraining = {.peak = 0.01, .allocs = 0.03, .overlap = 0.95};
constexpr Targets kInference = {.peak = 0.03, .allocs = 0.03, .overlap = 0.9};
constexpr double kReservedTarget = 0.03;

std::optional<double> reserved_change(const ReplayPair& pair) {
  if (!pair.reference.reserved_bytes_peak || !pair.generated.reserved_bytes_peak) return {};
  return static_cast<double>(*pair.generated.reserved_bytes_peak) /
             static_cast<double>(*pair.reference.reserved_bytes_peak) -
         1;
}

std::optional<double> fragmentation_difference(const ReplayPair& pair) {
  if (!pair.reference.fragmentation_share || !pair.generated.fragmentation_share) return {};
  return *pair.generated.fragmentation_share - *pair.reference.fragmentation_share;
}

std::string conf_name(const std::string& conf) { return conf.empty() ? "unset" : conf; }

// "file:PATH" where the text is a file, as cells take it.
std::string as_workload(const std::string& text) {
  std::error_code error;
  return std::filesystem::is_regular_file(text, error) ? "file:" + text : text;
}

std::vector<std::string> checked_confs(const FidelityCommand& command) {
  std::vector<std::string> confs = command.confs;
  if (confs.empty()) confs = {"unset", "max_split_size_mb:128", "expandable_segments:True"};
  for (std::string& conf : confs) {
    conf = read_conf(find_backend("caching"), conf);
  }
  return confs;
}

ProgramComparison measure(const std::string& reference, const std::string& workload,
                          std::uint64_t seed) {
  ProgramComparison out;
  out.reference_text = reference;
  out.workload = workload;
  out.reference = measure_shape(*open_path_or_workload(reference, seed));
  out.generated = measure_shape(*open_path_or_workload(workload, seed));
  out.report = compare_shapes(out.reference, out.generated);
  return out;
}

void replay(std::vector<ProgramComparison>* comparisons, const std::vector<std::string>& confs,
            std::uint64_t seed) {
  std::vector<ReplayRequest> requests;
  for (const ProgramComparison& own : *comparisons) {
    requests.push_back({.reference = as_workload(own.reference_text),
                        .generated = as_workload(own.workload),
                        .seed = seed});
  }
  std::vector<std::vector<ReplayPair>> pairs = replay_pairs(requests, confs);
  for (std::size_t i = 0; i < pairs.size(); ++i) (*comparisons)[i].replays = std::move(pairs[i]);
}

std::string replay_lines(const ProgramComparison& own) {
  std::string text;
  for (const ReplayPair& pair : own.replays) {
    const auto bytes = [](const std::optional<std::uint64_t>& value) {
      return value ? fmt::format("{}", *value) : std::string("does not fit");
    };
    const auto share = [](const std::optional<double>& value) {
      return value ? fmt::format("{:.4f}", *value) : std::string("-");
    };
    const std::optional<double> change = reserved_change(pair);
    const std::optional<double> difference = fragmentation_difference(pair);
    text += fmt::format("caching, {}\n", conf_name(pair.conf));
    text += fmt::format("{:<26} {:>20} {:>20} {:>14}\n", "  reserved peak",
                        bytes(pair.reference.reserved_bytes_peak),
                        bytes(pair.generated.reserved_bytes_peak),
                        change ? fmt::format("{:+.4f} %", *change * 100) : "-");
    text += fmt::format("{:<26} {:>20} {:>20} {:>14}\n", "  fragmentation share",
                        share(pair.reference.fragmentation_share),
                        share(pair.generated.fragmentation_share),
                        difference ? fmt::format("{:+.4f}", *difference) : "-");
  }
  return text;
}

std::string table_of(const ProgramComparison& own) {
  return fmt::format("reference  {}\ngenerated  {}\n\n", own.reference_text, own.workload) +
         to_text(own.report, own.reference, own.generated) + replay_lines(own);
}

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json to_json(const ProgramComparison& own, std::uint64_t seed) {
  const auto entry = [](const auto& reference, const auto& generated, const auto& distance) {
    return nlohmann::json{
        {"reference", reference}, {"generated", generated}, {"distance", distance}};
  };
  nlohmann::json replays = nlohmann::json::array();
  for (const ReplayPair& pair : own.replays) {
    replays.push_back({{"conf", pair.conf},
                       {"reserved_bytes_peak", entry(or_null(pair.reference.reserved_bytes_peak),
                                                     or_null(pair.generated.reserved_bytes_peak),
                                                     or_null(reserved_change(pair)))},
                       {"fragmentation_share", entry(or_null(pair.reference.fragmentation_share),
                                                     or_null(pair.generated.fragmentation_share),
                                                     or_null(fragmentation_difference(pair)))}});
  }
  return {
      {"reference", own.reference_text},
      {"workload", own.workload},
      {"seed", seed},
      {"allocs_per_step",
       entry(or_null(own.reference.allocs_per_step), or_null(own.generated.allocs_per_step),
             or_null(own.report.allocs_per_step_change))},
      {"requested_bytes_per_step",
       entry(or_null(own.reference.bytes_per_step), or_null(own.generated.bytes_per_step),
             or_null(own.report.bytes_per_step_change))},
      {"requested_bytes_peak", entry(own.reference.requested_bytes_peak,
                                     own.generated.requested_bytes_peak, own.report.peak_change)},
      {"size_overlap", own.report.size_overlap},
      {"lifetime_overlap", own.report.lifetime_overlap},
      {"curve_distance", own.report.curve_distance},
      {"replays", replays}};
}

// Which targets a comparison misses, in words; empty where none.
std::string missed_targets(const ProgramComparison& own) {
  const Targets& targets = own.workload.starts_with("infer:") ? kInference : kTraining;
  std::string missed;
  const auto check = [&missed](bool met, std::string_view name) {
    if (!met) missed += fmt::format("{}{}", missed.empty() ? "" : ", ", name);
  };
  const auto within = [](const std::optional<double>& change, double limit) {
    return !change || std::abs(*change) <= limit;
  };
  check(std::abs(own.report.peak_change) <= targets.peak, "peak");
  check(within(own.report.allocs_per_step_change, targets.allocs), "allocs");
  check(own.report.size_overlap >= targets.overlap, "overlap");
  for (const ReplayPair& pair : own.replays) {
    check(within(reserved_change(pair), kReservedTarget), "reserved, " + conf_name(pair.conf));
  }
  return missed;
}

std::string percent(const std::optional<double>& change) {
  if (!change) return "-";
  const double value = *change * 100;
  return std::abs(value) < 0.005 ? "0.00 %" : fmt::format("{:+.2f} %", value);
}

// One row per recording.
std::string overview(const std::vector<ProgramComparison>& comparisons,
                     const std::vector<std::string>& confs) {
  std::string text =
      "| recorded | peak | allocs per step | size overlap | lifetime overlap | curve |";
  std::string line = "\n| --- | ---: | ---: | ---: | ---: | ---: |";
  for (const std::string& conf : confs) {
    text += fmt::format(" reserved, {} |", conf_name(conf));
    line += " ---: |";
  }
  text += " misses |" + line + " --- |\n";
  for (const ProgramComparison& own : comparisons) {
    text += fmt::format("| `{}` | {} | {} | {:.4f} | {:.4f} | {:.4f} |", own.reference_text,
                        percent(own.report.peak_change), percent(own.report.allocs_per_step_change),
                        own.report.size_overlap, own.report.lifetime_overlap,
                        own.report.curve_distance);
    for (const ReplayPair& pair : own.replays) {
      text += fmt::format(" {} |", percent(reserved_change(pair)));
    }
    text += fmt::format(" {} |\n", missed_targets(own));
  }
  return text;
}

// A page per pair, and all numbers as JSON.
void write_folder(const std::string& folder, const std::vector<ProgramComparison>& comparisons,
                  const std::string& json) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const ProgramComparison& own : comparisons) {
    const std::string name = std::filesystem::path(own.reference.name).filename().string();
    write_file((std::filesystem::path(folder) / (name + ".html")).string(),
               fidelity_page(own.reference, own.generated, table_of(own)));
  }
  write_file((std::filesystem::path(folder) / "fidelity.json").string(), json);
}

std::vector<ProgramComparison> measure_all(const FidelityCommand& command) {
  if (command.all == !command.reference.empty()) {
    throw UsageError({.what = command.all ? "--all compares every recording that ships"
                                          : "there is nothing to compare",
                      .where = "allocmark fidelity",
                      .wanted = "one REFERENCE, or --all",
                      .got = command.reference,
                      .next = "see: allocmark fidelity --help"});
  }
  std::vector<ProgramComparison> comparisons;
  if (!command.all) {
    const std::string workload = command.workload.empty()
                                     ? std::string(find_reference(command.reference).workload)
                                     : command.workload;
    comparisons.push_back(measure(command.reference, workload, command.seed));
    return comparisons;
  }
  if (!command.workload.empty()) {
    throw UsageError({.what = "every recording has its own workload",
                      .where = "--workload",
                      .wanted = "--all without --workload",
                      .got = command.workload});
  }
  for (const Reference& reference : references()) {
    comparisons.push_back(
        measure(std::string(reference.recording), std::string(reference.workload), command.seed));
  }
  return comparisons;
}

}  // namespace

ExitCode fidelity_command(const FidelityCommand& command) {
  const std::vector<std::string> confs = checked_confs(command);
  std::vector<ProgramComparison> comparisons = measure_all(command);
  replay(&comparisons, confs, command.seed);
  nlohmann::json all = nlohmann::json::array();
  for (const ProgramComparison& own : comparisons) all.push_back(to_json(own, command.seed));
  const std::string json = json_text(command.all ? all : all.front(), 2) + "\n";
  if (!command.out.empty()) write_folder(command.out, comparisons, json);
  if (command.format == "json") {
    fmt::print("{}", json);
  } else {
    fmt::print("{}", command.all ? overview(comparisons, confs) : table_of(comparisons.front()));
  }
  const bool misses = std::ranges::any_of(
      comparisons, [](const auto& own) { return !missed_targets(own).empty(); });
  return command.all && misses ? ExitCode::Regression : ExitCode::Pass;
}

extern const CommandEntry kFidelityCommand;
constinit const CommandEntry kFidelityCommand{
    "fidelity", "Say how much a generated workload is like a recorded one",
    [](CLI::App* app) { return bind_command(app, add_fidelity, fidelity_command); }};

}  // namespace allocmark
