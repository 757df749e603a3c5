// A bundle: one file with everything that a published result rests on. A run's folder (and the run
// it is compared with) flows in; files flow out, or flow back in from an archive. What a bundle
// must hold and what is checked stands in results/BUNDLES.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "results/compare/compare.h"
#include "results/compare/interleaved.h"
#include "results/run_file.h"
#include "results/schema.h"
#include "workloads/trace/archive.h"

namespace allocmark {

// The folder that every name in the archive begins with, and the bundle's own files in it.
inline constexpr const char* kBundleFolder = "allocmark-bundle/";
inline constexpr const char* kBundleManifest = "bundle.json";
inline constexpr const char* kBundleHashes = "SHA256SUMS";
inline constexpr const char* kBundleComparison = "comparison.json";
// Of an A/B run: its plan and every process's result.
inline constexpr const char* kBundleTurnsPlan = "interleaved.json";
inline constexpr const char* kBundleRounds = "rounds.jsonl";

// By name without the folder.
using BundleFiles = std::map<std::string, StoredText>;

// The raw run of a bundle ("" as prefix) or of its baseline ("base."), with what else went on
// during it among its environment's warnings. Throws UsageError for what is no run.
[[nodiscard]] RunFile bundled_run(const BundleFiles& files, const std::string& prefix,
                                  CellDetail detail = CellDetail::Whole);

struct BundleInput {
  std::string run = {};  // a results folder
  // A results folder or results.jsonl, or the folder of the A/B run whose side B is the run; empty
  // = no comparison.
  std::string baseline = {};
  std::string policy = {};  // files; empty = none
  std::string calibration = {};
};

// Everything but SHA256SUMS. Throws FileError where a file cannot be read, and UsageError
// for a run that is still being written.
[[nodiscard]] BundleFiles collect_bundle(const BundleInput& input, const std::string& version);

// The rounds of an A/B run's bundle. Throws UsageError for what is none.
[[nodiscard]] InterleavedRun bundled_turns(const BundleFiles& files);

// "timelines/CELL_ID.json".
[[nodiscard]] std::string timeline_name(const CellKey& key);

// README.md, the same in every bundle.
[[nodiscard]] std::string bundle_readme();

// The manifest of a bundle with these files: who made it, and which work it is about.
[[nodiscard]] std::string bundle_manifest(const std::string& version,
                                          const std::vector<CellResult>& cells);

// The verdicts on files that hold a baseline. Throws UsageError where they cannot be compared.
[[nodiscard]] Comparison bundled_verdicts(const BundleFiles& files);

// A line per file, as sha256sum writes and checks them.
[[nodiscard]] std::string bundle_hashes(const BundleFiles& files);

// With SHA256SUMS added, by name: the order and bytes of the archive.
[[nodiscard]] std::vector<StoredFile> bundle_archive(BundleFiles files);

// The hash of results.jsonl that a page says it was made from; empty where it says none.
[[nodiscard]] std::string page_results_hash(const StoredText& html);

}  // namespace allocmark
