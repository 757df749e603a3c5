// A bundle: one file with everything that a published result rests on. A run's folder (and the run
// it is compared with) flows in; files flow out, or flow back in from an archive. What a bundle
// must hold and what is checked stands in results/BUNDLES.md.
#pragma once

#include <string>
#include <vector>

#include "base/stored_text.h"
#include "harness/core/bundled/bundle_files.h"
#include "results/compare/compare.h"
#include "results/compare/interleaved.h"
#include "results/schema.h"
#include "workloads/trace/archive.h"

namespace allocmark {

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
