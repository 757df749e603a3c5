#include "harness/tools/bundle/bundle_signature.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "base/input_file.h"
#include "base/own_process.h"
#include "base/stored_text.h"
#include "harness/job/child_process.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

constexpr double kKeygenTimeout_s = 60;
// What a signature is for: one over something else does not hold.
constexpr const char* kNamespace = "allocmark";

std::string find_keygen() {
  if (std::string found = find_program("ssh-keygen"); !found.empty()) return found;
  throw EnvironmentError({.what = "bundles are signed and verified by ssh-keygen",
                          .where = "PATH",
                          .wanted = "ssh-keygen of OpenSSH 8.2 or later",
                          .got = "none",
                          .next = "install it (Debian: apt-get install openssh-client)"});
}

// It asks nobody: a key with a passphrase comes from an agent.
ChildOutcome run_keygen(std::vector<std::string> words, StoredText input = {}) {
  words.insert(words.begin(), {find_keygen(), "-Y"});
  return run_child({.argv = std::move(words),
                    .environment = environment_with(
                        {{"SSH_ASKPASS", "/bin/false"}, {"SSH_ASKPASS_REQUIRE", "force"}}),
                    .input = std::move(input),
                    .timeout_s = kKeygenTimeout_s});
}

std::string said(const ChildOutcome& outcome) {
  if (outcome.timed_out) return fmt::format("no end after {:.0f} s", kKeygenTimeout_s);
  return printable(last_output(outcome));
}

// The first line of what it printed.
std::string first_line(const ChildOutcome& outcome) {
  return outcome.stderr_tail.substr(0, outcome.stderr_tail.find_first_of("\r\n"));
}

void require_file(const std::string& path, const std::string& wanted, const std::string& next) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return;
  throw FileError({.what = "cannot verify who made the bundle",
                   .where = path,
                   .wanted = wanted,
                   .got = "no such file",
                   .next = next});
}

}  // namespace

std::string sign_bundle(const std::string& archive, const std::string& key) {
  const std::string signature = archive + ".sig";
  // It would ask before it replaces one, which is of an older bundle.
  std::error_code ignored;
  std::filesystem::remove(signature, ignored);
  const ChildOutcome outcome = run_keygen({"sign", "-f", key, "-n", kNamespace, archive});
  if (outcome.exit_code == 0) return signature;
  throw EnvironmentError({.what = "the bundle is written, and not signed",
                          .where = "--sign " + key,
                          .wanted = "a private key, or the .pub of one that ssh-agent holds",
                          .got = said(outcome),
                          .next = "a key with a passphrase: ssh-add it and name its .pub"});
}

Signature find_signer(const std::string& archive, const std::string& signers) {
  const std::string path = archive + ".sig";
  require_file(archive, "the archive that was signed", "a folder has no signature");
  require_file(path, "its signature", "ask who made it, or leave --signers away");
  require_file(signers, "lines with a name and a public key", "see results/BUNDLES.md");
  const ChildOutcome found = run_keygen({"find-principals", "-s", path, "-f", signers});
  if (found.exit_code != 0) return {.problem = "none of these signers made it: " + said(found)};
  const std::string name = first_line(found);
  const ChildOutcome verified =
      run_keygen({"verify", "-f", signers, "-I", name, "-n", kNamespace, "-s", path},
                 StoredText::of_file(archive, kArchiveInput));
  if (verified.exit_code != 0) return {.problem = said(verified)};
  return {.signer = name};
}

}  // namespace allocmark
