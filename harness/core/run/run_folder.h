// The folder of a run: plan.json (what was asked for) and results.jsonl (the environment, then one
// line per finished cell). Results flow in one by one and are in the file before append returns, so
// nothing measured is lost by a later failure; a run that was broken off flows out again through
// resume.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "base/output_file.h"
#include "harness/core/cell/cell.h"
#include "harness/core/run/file_marks.h"
#include "harness/core/run/folder_lock.h"
#include "results/run_file.h"
#include "results/schema.h"

namespace allocmark {

// What a run was asked to do; the settings that all its cells share, and every cell of all its
// shards.
struct RunManifest {
  std::string title;  // "suite default", used in reports
  std::uint32_t pass_count = 3;
  double width_max = 0;  // as in CellSpec, with pass_count_max
  std::uint32_t pass_count_max = 0;
  VerifyLevel verify = VerifyLevel::Edges;
  std::uint64_t timeout_s = 0;
  bool in_rounds = false;  // the passes of each cell are spread over the run (rounds.h)
  bool timelines = false;  // each cell leaves one
  std::vector<CellKey> cells;
  // What ran the cells, so that they can be run again; empty in plans of older versions.
  FileMark program = {};
  std::vector<FileMark> files = {};  // that its cells name: plugins, traces
};

[[nodiscard]] std::string to_json(const RunManifest& manifest);
[[nodiscard]] RunManifest manifest_from_json(const std::string& text, const std::string& where);

// Throws FileError where a file is named in place of a run's folder.
void require_run_folder(const std::string& path);

// Throws FileError where the folder holds no run.
[[nodiscard]] RunManifest read_manifest(const std::string& folder);

// The cells of its plan, in their order; none where the folder holds no plan that can be read.
[[nodiscard]] std::vector<CellKey> planned_cells(const std::string& folder);

// The only writer of its folder while it lives: a second one, in whatever process, is refused with
// an EnvironmentError that says who writes.
class RunFolder {
 public:
  // A new folder; one that exists must be empty.
  [[nodiscard]] static RunFolder create(const std::string& folder, const RunManifest& manifest,
                                        const Environment& environment);

  // A folder left by an earlier run. Its finished cells are kept; crashed, timed-out and failed
  // ones are to be run again, and those whose scenario or trace file was edited since, as notes()
  // say. Throws UsageError saying what differs where its results would not be comparable with new
  // ones. One that was killed before its first line of results begins anew.
  [[nodiscard]] static RunFolder resume(const std::string& folder, const RunManifest& manifest,
                                        const Environment& environment);

  // The one or the other.
  [[nodiscard]] static RunFolder open(bool resumes, const std::string& folder,
                                      const RunManifest& manifest, const Environment& environment) {
    return resumes ? resume(folder, manifest, environment) : create(folder, manifest, environment);
  }

  // Throws FileError naming the path where the line cannot be written; the file then still
  // ends with a whole line.
  void append(const CellResult& result) { file_.append(result); }

  // Every cell has ended: lines that were results so far go.
  void finish();

  // Results kept from the earlier run.
  [[nodiscard]] const std::vector<CellResult>& kept() const { return kept_; }

  // For people: which scenarios and trace files were edited since the earlier run.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  RunFolder(std::string folder, FolderLock lock, RunFileWriter file)
      : folder_(std::move(folder)), lock_(std::move(lock)), file_(std::move(file)) {}

  static RunFolder begin_anew(const std::string& folder, FolderLock lock,
                              const RunManifest& manifest, const Environment& environment);

  std::string folder_;
  FolderLock lock_;
  RunFileWriter file_;
  std::vector<CellResult> kept_;
  std::vector<std::string> notes_;
};

// DIR/results.jsonl.
[[nodiscard]] std::string results_path(const std::string& folder);

// Ok, stopped by an OOM, or skipped: running it again would tell nothing new.
[[nodiscard]] bool is_finished(CellStatus status);
// That, and all of its passes were made.
[[nodiscard]] bool is_finished(const CellResult& cell);

// What differs between two environments so that their results should not stand in one table:
// "git_sha: was a1, is b2".
[[nodiscard]] std::vector<std::string> environment_differences(const Environment& before,
                                                               const Environment& now);

}  // namespace allocmark
