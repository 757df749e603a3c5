// A bundle as it is read: an archive or a folder flows in; its files by name flow out, and what is
// wrong with it. Nothing is unpacked to the disk under a name of the bundle. What a bundle must
// hold stands in results/BUNDLES.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "results/run_file.h"
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

struct OpenedBundle {
  std::string damage = {};                     // of the archive
  std::vector<std::string> unsafe_names = {};  // "../x: leads out of the bundle"
  std::vector<std::string> too_large = {};     // files that are longer than of their kind
  BundleFiles files = {};                      // the other ones with safe names
};

// An archive, or the folder that one was unpacked to. Throws FileError where there is none, and
// UsageError where the path is neither.
[[nodiscard]] TarContents read_bundle(const std::string& path);

[[nodiscard]] OpenedBundle open_bundle(TarContents contents);

// The raw run of a bundle ("" as prefix) or of its baseline ("base."), with what else went on
// during it among its environment's warnings. Throws UsageError for what is no run.
[[nodiscard]] RunFile bundled_run(const BundleFiles& files, const std::string& prefix,
                                  CellDetail detail = CellDetail::Whole);

}  // namespace allocmark
