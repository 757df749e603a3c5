// See run_folder.h.
#include "harness/core/run/run_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "base/shell_text.h"
#include "results/json.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Plans of versions before the levels have a boolean.
VerifyLevel level_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>() ? VerifyLevel::Edges : VerifyLevel::Off;
  return parse_verify_level(json.get<std::string>()).value_or(VerifyLevel::Edges);
}

constexpr const char* kResultsName = "results.jsonl";
constexpr const char* kManifestName = "plan.json";
constexpr const char* kOrderCells = "cells";
constexpr const char* kOrderRounds = "rounds";

const char* order_name(bool in_rounds) { return in_rounds ? kOrderRounds : kOrderCells; }

std::string path_in_folder(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

void check_same_plan(const std::string& folder, const RunManifest& before, const RunManifest& now,
                     const Environment& environment_before, const Environment& environment_now) {
  std::vector<std::string> differences =
      environment_differences(environment_before, environment_now);
  if (before.pass_count != now.pass_count) {
    differences.push_back(fmt::format("passes: was {}, is {}", before.pass_count, now.pass_count));
  }
  if (before.width_max != now.width_max || before.pass_count_max != now.pass_count_max) {
    differences.push_back(fmt::format("until width: was {} (at most {} passes), is {} ({})",
                                      before.width_max, before.pass_count_max, now.width_max,
                                      now.pass_count_max));
  }
  if (before.verify != now.verify) {
    differences.push_back(
        fmt::format("verify: was {}, is {}", to_string(before.verify), to_string(now.verify)));
  }
  if (before.in_rounds != now.in_rounds) {
    differences.push_back(fmt::format("pass order: was {}, is {}", order_name(before.in_rounds),
                                      order_name(now.in_rounds)));
  }
  std::set<std::string> ids;
  for (const CellKey& key : now.cells) ids.insert(key.id_by_name());
  const auto foreign =
      std::count_if(before.cells.begin(), before.cells.end(),
                    [&](const CellKey& key) { return !ids.contains(key.id_by_name()); });
  if (foreign > 0) {
    differences.push_back(fmt::format("cells: {} of the folder's {} are not asked for now", foreign,
                                      before.cells.size()));
  }
  if (!differences.empty()) {
    std::string list;
    for (const std::string& difference : differences) list += "\n  " + difference;
    throw UsageError(
        {.what = "this folder holds another run, its results do not belong together with new ones",
         .where = folder,
         .wanted = "the same plan and environment",
         .got = list,
         .next = "start a new folder with --out DIR, or resume with the program and machine that "
                 "made it: allocmark run --resume --out " +
                 shell_word(folder)});
  }
}

std::string edit_note(const CellKey& was, const CellKey& is, std::size_t cell_count) {
  const std::string again =
      fmt::format("since this run began, so its {} cells are measured anew", cell_count);
  if (was.workload_text() == is.workload_text()) {
    return fmt::format("the trace file of '{}' changed {}: its content had hash {} and has {}",
                       is.workload, again, was.workload_files, is.workload_files);
  }
  return fmt::format("the scenario '{}' was edited {}: it was '{}', it is '{}'", is.workload, again,
                     was.workload_text(), is.workload_text());
}

// One line for each scenario that says something else than in the earlier run, and for each trace
// file with other content.
std::vector<std::string> edited_workloads(const RunManifest& before, const RunManifest& now) {
  std::map<std::string, const CellKey*> known;
  for (const CellKey& key : before.cells) known[key.id_by_name()] = &key;
  std::map<std::string, std::pair<const CellKey*, std::size_t>> edited;  // and how many cells
  for (const CellKey& key : now.cells) {
    const auto found = known.find(key.id_by_name());
    if (found == known.end() || found->second->id() == key.id()) continue;
    auto& [was, count] = edited[key.workload];
    was = found->second;
    ++count;
  }
  std::vector<std::string> notes;
  for (const CellKey& key : now.cells) {
    const auto found = edited.find(key.workload);
    if (found == edited.end()) continue;
    const auto& [was, count] = found->second;
    notes.push_back(edit_note(*was, key, count));
    edited.erase(found);
  }
  return notes;
}

// What a killed process was writing (base/output_file.h). Nobody else writes here now.
void drop_parts(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name.starts_with('.') && name.ends_with(".part") && entry.is_regular_file(ignored)) {
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace

std::string to_json(const RunManifest& manifest) {
  const auto mark_json = [](const FileMark& mark) {
    return Json{{"path", mark.path}, {"hash", mark.hash}};
  };
  Json files = Json::array();
  for (const FileMark& mark : manifest.files) files.push_back(mark_json(mark));
  Json cells = Json::array();
  for (const CellKey& key : manifest.cells) cells.push_back(parse_json(to_json_line(key)));
  Json json = {{"kind", "plan"},
               {"schema_version", kSchemaVersion},
               {"title", manifest.title},
               {"pass_count", manifest.pass_count},
               {"width_max", manifest.width_max},
               {"pass_count_max", manifest.pass_count_max},
               {"verify", to_string(manifest.verify)},
               {"timeout_s", manifest.timeout_s},
               {"pass_order", order_name(manifest.in_rounds)},
               {"program", mark_json(manifest.program)},
               {"files", files},
               {"cells", cells}};
  if (manifest.timelines) json["timelines"] = true;
  return json_text(json, 1) + "\n";
}

RunManifest manifest_from_json(const std::string& text, const std::string& where) {
  const JsonSource source{.where = where,
                          .what = "this is not the plan of a run",
                          .wanted = "the plan.json that 'allocmark run' writes",
                          .next = "start a new folder with --out DIR"};
  try {
    const Json json = parse_json(text, source);
    RunManifest manifest;
    json.at("title").get_to(manifest.title);
    json.at("pass_count").get_to(manifest.pass_count);
    manifest.width_max = json.value("width_max", 0.0);
    manifest.pass_count_max = json.value("pass_count_max", 0U);
    manifest.verify = level_of(json.at("verify"));
    json.at("timeout_s").get_to(manifest.timeout_s);
    manifest.in_rounds = json.value("pass_order", std::string(kOrderCells)) == kOrderRounds;
    manifest.timelines = json.value("timelines", false);
    const auto mark_of = [](const Json& mark) {
      return FileMark{.path = mark.at("path").get<std::string>(),
                      .hash = mark.at("hash").get<std::string>()};
    };
    if (json.contains("program")) manifest.program = mark_of(json.at("program"));
    for (const Json& mark : json.value("files", Json::array())) {
      manifest.files.push_back(mark_of(mark));
    }
    for (const Json& cell : json.at("cells")) {
      manifest.cells.push_back(cell_key_from_json(json_text(cell), where));
    }
    return manifest;
  } catch (const Json::exception& error) {
    refuse_json(source, json_reason(error));
  }
}

void require_run_folder(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  throw FileError({.what = "this is a file",
                   .where = path,
                   .wanted = "the folder that 'allocmark run' wrote",
                   .next = "of a results.jsonl, give the folder in which it lies"});
}

RunManifest read_manifest(const std::string& folder) {
  const std::string path = path_in_folder(folder, kManifestName);
  return manifest_from_json(read_file(path, kPlanInput), path);
}

std::vector<CellKey> planned_cells(const std::string& folder) {
  try {
    return read_manifest(folder).cells;
  } catch (const Error&) {  // a report needs the results alone
    return {};
  }
}

RunFolder RunFolder::create(const std::string& folder, const RunManifest& manifest,
                            const Environment& environment) {
  FolderLock lock = claim_empty_folder(
      folder, "to go on with the run in it add --resume, else choose another --out DIR");
  write_file(path_in_folder(folder, kManifestName), to_json(manifest));
  return RunFolder(folder, std::move(lock),
                   RunFileWriter::create(results_path(folder), environment));
}

namespace {

// Killed before the first line of its results was written, a run has nothing to lose.
bool has_no_line(const std::string& folder) {
  std::error_code error;
  const std::uint64_t size_bytes = fs::file_size(results_path(folder), error);
  if (error) return error == std::errc::no_such_file_or_directory;
  if (size_bytes > kLineBytesMax) return false;
  return read_file(results_path(folder), kResultsInput).find('\n') == std::string::npos;
}

constexpr const char* kNotBegun = "nothing had been measured here yet: the run begins anew";

}  // namespace

RunFolder RunFolder::begin_anew(const std::string& folder, FolderLock lock,
                                const RunManifest& manifest, const Environment& environment) {
  write_file(path_in_folder(folder, kManifestName), to_json(manifest));
  fs::remove(results_path(folder));
  RunFolder begun(folder, std::move(lock),
                  RunFileWriter::create(results_path(folder), environment));
  begun.notes_.emplace_back(kNotBegun);
  return begun;
}

RunFolder RunFolder::resume(const std::string& folder, const RunManifest& manifest,
                            const Environment& environment) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && !holds_something(folder)) {
    RunFolder begun = create(folder, manifest, environment);
    begun.notes_.emplace_back(kNotBegun);
    return begun;
  }
  // What is no run gets no lock; a run is read under it, since until then it may have grown.
  static_cast<void>(read_manifest(folder));
  FolderLock lock = FolderLock::acquire(folder);
  if (has_no_line(folder)) return begin_anew(folder, std::move(lock), manifest, environment);
  const RunManifest before = read_manifest(folder);
  RunFile file = read_run_file(results_path(folder), CellDetail::Summary);
  check_same_plan(folder, before, manifest, file.environment, environment);
  write_file(path_in_folder(folder, kManifestName), to_json(manifest));
  RunFolder resumed(folder, std::move(lock), RunFileWriter::resume(results_path(folder)));
  std::copy_if(std::make_move_iterator(file.cells.begin()),
               std::make_move_iterator(file.cells.end()), std::back_inserter(resumed.kept_),
               [](const CellResult& cell) { return is_finished(cell); });
  resumed.notes_ = edited_workloads(before, manifest);
  for (const char* name : {"", "timelines"}) drop_parts(fs::path(folder) / name);
  return resumed;
}

void RunFolder::finish() {
  try {
    drop_replaced_parts(results_path(folder_));
  } catch (const WriteError&) {
    // The file is as it was, and its readers know which lines count.
  }
}

std::string results_path(const std::string& folder) { return path_in_folder(folder, kResultsName); }

bool is_finished(CellStatus status) {
  return status == CellStatus::Ok || status == CellStatus::OomStopped ||
         status == CellStatus::Skipped;
}

bool is_finished(const CellResult& cell) {
  return is_finished(cell.status) && cell.passes_to_come == 0;
}

std::vector<std::string> environment_differences(const Environment& before,
                                                 const Environment& now) {
  std::vector<std::string> differences;
  const auto compare = [&](const char* name, const std::string& was, const std::string& is) {
    if (was != is) {
      differences.push_back(fmt::format("{}: was '{}', is '{}'", name, was, is));
    }
  };
  compare("allocmark_version", before.allocmark_version, now.allocmark_version);
  compare("git_sha", before.git_sha, now.git_sha);
  compare("build_type", before.build_type, now.build_type);
  compare("compiler", before.compiler, now.compiler);
  compare("hostname_hash", before.hostname_hash, now.hostname_hash);
  compare("cpu_model", before.cpu_model, now.cpu_model);
  compare("device", before.device, now.device);
  compare("gpu_name", before.gpu_name, now.gpu_name);
  compare("gpu_uuid_hash", before.gpu_uuid_hash, now.gpu_uuid_hash);
  compare("driver_version", before.driver_version, now.driver_version);
  compare("runtime_version", before.runtime_version, now.runtime_version);
  compare("profile_hash", before.profile_hash, now.profile_hash);
  return differences;
}

}  // namespace allocmark
