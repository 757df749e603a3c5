// The rule 'names-known': devices, allocators and config strings are ones that this version knows,
// in the form in which it writes them. A name that nobody knows could stand for anything, and would
// keep a cell from being made again.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/bundled/made_again.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/columns/columns.h"

namespace allocmark {
namespace {

// Why it is no name; empty where it is one.
std::string problem_of_device(const std::string& device) {
  if (is_gpu(device) || names_profile_file(device)) return "";
  const bool plain = std::ranges::all_of(device, [](unsigned char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
           std::string_view(":-._=,GMKiB").find(static_cast<char>(letter)) !=
               std::string_view::npos;
  });
  if (!is_simulated(device) || !plain) return "no device is called so";
  try {
    check_device(device);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string problem_of_conf(const CellKey& key, const BackendEntry& entry) {
  const std::string& conf = key.conf_definition.empty() ? key.conf : key.conf_definition;
  if (!is_own_allocator(key.allocator)) return "";  // its config strings can name files to load
  try {
    const std::string read = read_conf(entry, conf);
    return read == conf ? "" : fmt::format("it is written '{}'", read);
  } catch (const Error& error) {
    return error.what();
  }
}

// A config string has a name of its own where it says so ("as:NAME"), for what plugins load.
std::string problem_of_conf_name(const CellKey& key) {
  if (key.conf_definition.empty()) return "";
  const std::string pairs = "," + key.conf_definition + ",";
  const bool is_name = !is_own_allocator(key.allocator) && key.conf.starts_with("as:") &&
                       pairs.find("," + key.conf + ",") != std::string::npos;
  return is_name
             ? ""
             : fmt::format("it is no name of '{}', which the cell ran with", key.conf_definition);
}

// What the workload's name stands for here, on that device; empty where it names nothing.
std::string definition_here(const CellKey& key, const std::string& gpu_name) {
  std::vector<CellKey> placed{key};
  placed[0].workload_definition = define_workload_with_kernels(key.workload);
  (void)place_servers(&placed, gpu_name);
  return placed[0].workload_definition;
}

// A name of a file is never looked up.
bool may_name_file(std::string_view workload) {
  return workload.find('/') != std::string_view::npos || workload.find(".json") != workload.npos;
}

class Names {
 public:
  Names(const BundleView& view, CheckedRule& rule) : view_(view), rule_(rule) {}

  // `maker`: what ran the cell.
  void look_at(const CellKey& key, const Environment& maker) {
    device(key.device, maker);
    workload(key, maker);
    if (!seen_.emplace(key.allocator, key.conf, key.conf_definition).second) return;
    const BackendEntry* const entry = known_backend(key.allocator);
    if (entry == nullptr) {
      const bool is_release = key.allocator.find('@') != std::string::npos;
      const std::string finding =
          fmt::format("'{}' is no allocator of this version", key.allocator);
      // Which releases of PyTorch are there differs from machine to machine.
      return is_release ? not_checked(rule_, finding) : differs(view_, maker, finding, rule_);
    }
    for (const std::string& problem : {problem_of_conf(key, *entry), problem_of_conf_name(key)}) {
      if (problem.empty()) continue;
      differs(view_, maker, fmt::format("{} [{}]: {}", key.allocator, conf_or_unset(key), problem),
              rule_);
    }
  }

  // A cell is of what its workload is said to mean; the tables show the name alone.
  void workload(const CellKey& key, const Environment& maker) {
    const std::string& said = key.workload_definition;
    if (said.empty() || !workloads_.emplace(key.workload, said, key.device).second) return;
    if (may_name_file(key.workload)) {
      rule_.reservations.push_back(fmt::format(
          "what '{}' names is not in the bundle; it is said to mean '{}'", key.workload, said));
      return;
    }
    std::string here;
    try {
      here = definition_here(key, maker.gpu_name);
    } catch (const Error& error) {
      return not_checked(rule_, "{}", error.what());
    }
    if (here == said) return;
    const bool is_unknown = here.empty() && key.workload.find(':') == std::string::npos;
    const std::string text =
        fmt::format("workload '{}' is said to mean '{}', here it {}", key.workload, said,
                    here.empty() ? "stands for itself" : fmt::format("means '{}'", here));
    is_unknown ? not_checked(rule_, text) : differs(view_, maker, text, rule_);
  }

  void device(const std::string& name, const Environment& maker) {
    if (!devices_.insert(name).second) return;
    const std::string problem = problem_of_device(name);
    if (!problem.empty()) {
      differs(view_, maker, fmt::format("device '{}': {}", name, problem), rule_);
    }
  }

 private:
  const BundleView& view_;
  CheckedRule& rule_;
  std::set<std::string> devices_ = {};
  std::set<std::tuple<std::string, std::string, std::string>> seen_ = {};
  std::set<std::tuple<std::string, std::string, std::string>> workloads_ = {};
};

}  // namespace

void names_known(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  Names names(view, rule);
  for (const StoredRun* run : runs_of(view)) {
    const Environment& maker = run->file->environment;
    names.device(maker.device, maker);
    for (const CellResult& cell : run->file->cells) names.look_at(cell.key, maker);
  }
  if (!view.turns) return;
  for (const RoundResult& round : view.turns->rounds) {
    names.look_at(round.cell.key, view.turns->environments.at(round.side));
  }
}

}  // namespace allocmark
