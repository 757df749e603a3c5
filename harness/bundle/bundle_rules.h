// The rules of bundle_check.h on what a bundle holds, one function each. Neither times nor checks
// allocators.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/bundle/archive.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/bundle_check.h"
#include "harness/run/run_folder.h"
#include "results/run_file.h"

namespace allocmark {

// A bundle as the rules see it.
struct BundleView {
  TarContents contents = {};
  std::vector<std::string> unsafe_names = {};  // "../x: leads out of the bundle"
  BundleFiles files = {};                      // those with safe names
  std::optional<RunFile> run = {};
  std::string run_problem = {};  // why there is no run
  std::optional<RunManifest> plan = {};
  std::string plan_problem = {};
  std::optional<InterleavedRun> turns = {};  // of an A/B run
  std::string turns_problem = {};            // why there are none though there should be
  std::string version = {};                  // this program's
};

[[nodiscard]] BundleView view_bundle(const TarContents& contents, const std::string& version);

struct BundleRule {
  const char* name;
  const char* question;
  void (*apply)(const BundleView& view, CheckedRule& rule);
};

// In bundle_quiet.cc.
void machine_quiet(const BundleView& view, CheckedRule& rule);

// In the order in which they are reported.
[[nodiscard]] std::span<const BundleRule> bundle_rules();

}  // namespace allocmark
