// 'allocmark bundle RUN --out FILE' packs a run for publishing. It does not measure.

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "base/own_process.h"
#include "base/sha256.h"
#include "base/shell_text.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/options.h"
#include "harness/shell/output_path.h"
#include "harness/shell/pages/comparison_options.h"
#include "harness/shell/pages/report_pages.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/bundle/bundle.h"
#include "harness/tools/bundle/bundle_check.h"
#include "harness/tools/bundle/bundle_signature.h"
#include "harness/tools/bundle/private_words.h"
#include "results/run_file.h"

namespace allocmark {
namespace {

struct BundleCommand {
  std::string folder;
  std::string out;                     // the archive
  bool force = false;                  // replace it
  std::vector<std::string> baselines;  // at most one
  std::string policy, calibration;     // files, as of 'compare'; empty = none
  std::string key;                     // to sign it with; empty = it is not signed
};

void add_bundle(CLI::App* app, BundleCommand* command) {
  add_value(app, "folder", command->folder, "RUN", "A folder that 'allocmark run' wrote")
      ->required();
  add_value(app, "-o,--out", command->out, "FILE", "The bundle: a .tar.zst, .tar.gz or .tar")
      ->required();
  add_force(app, &command->force);
  add_comparison(app, &command->baselines, &command->policy, &command->calibration);
  add_value(
      app, "--sign", command->key, "KEY",
      "Sign it with this SSH key, or the .pub of one in ssh-agent, by ssh-keygen: writes FILE.sig");
  app->footer(
      "\nThe bundle is checked as 'allocmark check' does. Exit codes: 0 it can be published, 1 a "
      "rule is broken,\n3 a rule could not be checked.\n");
}

void check_name(const std::string& out) {
  for (const char* suffix : {".tar.zst", ".tar.gz", ".tar"}) {
    if (out.ends_with(suffix)) return;
  }
  throw UsageError({.what = "this kind of archive cannot be written",
                    .where = "--out",
                    .wanted = "a name that ends with .tar.zst, .tar.gz or .tar",
                    .got = out});
}

// A soak stores no cells, and neither does a run that was ended before its first one.
void require_cells(const std::string& folder) {
  require_run_folder(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(results_path(folder), ignored)) return;  // said where it is read
  if (!read_run_file(results_path(folder), CellDetail::Outline).outlines.empty()) return;
  const bool is_soak = std::filesystem::exists(std::filesystem::path(folder) / "soak", ignored);
  throw UsageError({.what = "there are no cells to bundle",
                    .where = folder,
                    .wanted = "a run with results",
                    .got = is_soak ? "a soak, whose result is soak.json" : "a run without results",
                    .next = is_soak
                                ? "publish soak.json as it is; 'allocmark run' without --for "
                                  "measures cells"
                                : "finish it: allocmark run --resume --out " + shell_word(folder)});
}

ExitCode bundle_command(const BundleCommand& command) {
  check_name(command.out);
  check_output_file(command.out, command.force, "--out");
  if (command.baselines.size() > 1) {
    throw UsageError({.what = "a bundle holds one comparison",
                      .where = "--baseline",
                      .wanted = "one run",
                      .got = fmt::format("{} runs", command.baselines.size()),
                      .next = "make a bundle for each"});
  }
  require_cells(command.folder);
  // The page is made first, so that it is of the same results as everything else. A bundle without
  // one says so.
  write_pages_of_run({.folder = command.folder,
                      .baselines = command.baselines,
                      .policy = command.policy,
                      .calibration = command.calibration},
                     stdout);
  BundleFiles files =
      collect_bundle({.run = command.folder,
                      .baseline = command.baselines.empty() ? "" : command.baselines.front(),
                      .policy = command.policy,
                      .calibration = command.calibration},
                     version_text());
  for (const PrivateWord& word : private_words(files)) {
    print_wrapped(stderr, fmt::format("note: {} names '{}', which whoever reads the bundle sees: "
                                      "run in its folder to name it without",
                                      word.file, word.word));
  }
  std::vector<StoredFile> archive = bundle_archive(std::move(files));
  const std::size_t file_count = archive.size();
  write_tar(command.out, archive);
  // What is checked is what was written.
  const BundleCheck check = check_bundle(
      read_bundle(command.out), {.version = version_text(), .program_path = own_program_path()});
  fmt::print("bundle: {}\nfiles: {}\nsha256: {}\n", command.out, file_count,
             sha256_of_file(command.out, kArchiveInput));
  if (!command.key.empty()) fmt::print("signature: {}\n", sign_bundle(command.out, command.key));
  fmt::print("{}", render_check(check));
  return check.exit_code;
}

}  // namespace

extern const CommandEntry kBundleCommand;
constinit const CommandEntry kBundleCommand{
    "bundle", "Pack a run, its report and its hashes for publishing",
    [](CLI::App* app) { return bind_command(app, add_bundle, bundle_command); }};

}  // namespace allocmark
