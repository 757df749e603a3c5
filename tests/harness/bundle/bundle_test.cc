// Goal: a bundle that was tampered with, cut short, mixed up or made from too little is never
// called publishable, and the rule that says so is the one it breaks. Method: a sound bundle of a
// small run, and faults planted into it one by one; most are planted by someone who then makes the
// hashes right again.
#include "harness/tools/bundle/bundle.h"

#include <cstddef>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/tools/bundle/bundle_check.h"
#include "tests/catch.h"
#include "tests/harness/bundle/sound_bundle.h"
#include "tests/support/temporary_folder.h"
#include "workloads/open_workload.h"
#include "workloads/trace/trace_hash.h"

namespace allocmark {

using namespace sound_bundle;

TEST_CASE("SHA-256 gives the standard's examples") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a sound bundle keeps every rule, and the same run gives the same bytes") {
  const TemporaryFolder folder;
  const BundleFiles files = bundle_of(sound_cells());
  CHECK(broken(sealed(files)).empty());
  CHECK(rules_with(check_bundle(sealed(files), kVersion), RuleOutcome::Kept).size() == 19);
  for (const char* name : {"a.tar.zst", "a.tar.gz", "a.tar"}) {
    write_tar(folder.path(name), bundle_archive(files));
    const std::string bytes = folder.read(name);
    write_tar(folder.path(name), bundle_archive(bundle_of(sound_cells())));
    CHECK(folder.read(name) == bytes);
    const TarContents contents = read_bundle(folder.path(name));
    CHECK(contents.damage.empty());
    CHECK(broken(contents).empty());
  }
}

TEST_CASE("every rule is in the documentation with its question") {
  const std::string text = read_file("results/BUNDLES.md");
  for (const CheckedRule& rule : check_bundle({}, kVersion).rules) {
    std::string row = "| `" + rule.name + "` | " + rule.question + " |";
    INFO(row);
    CHECK(text.find(row) != std::string::npos);
  }
}

TEST_CASE("an archive that is cut short anywhere is not whole") {
  const TemporaryFolder folder;
  for (const char* name : {"a.tar.zst", "a.tar.gz", "a.tar"}) {
    write_tar(folder.path(name), bundle_archive(bundle_of(sound_cells())));
    const std::string bytes = folder.read(name);
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, bytes.size() / 3,
                                     bytes.size() / 2, bytes.size() - 1100}) {
      write_file(folder.path(name), bytes.substr(0, length));
      INFO(name << " of " << length << " bytes");
      CHECK(broken(read_bundle(folder.path(name))).count("archive-whole") == 1);
    }
  }
}

TEST_CASE("a changed header, too much to unpack and other files are refused") {
  const TemporaryFolder folder;
  write_tar(folder.path("a.tar"), bundle_archive(bundle_of(sound_cells())));
  std::string bytes = folder.read("a.tar");
  CHECK(read_tar(folder.path("a.tar"), {.size_bytes_max = 1000}).damage.find("more than") !=
        std::string::npos);
  bytes[20] = 'X';
  write_file(folder.path("a.tar"), bytes);
  CHECK(broken(read_bundle(folder.path("a.tar"))).count("archive-whole") == 1);
  CHECK_THROWS_AS(read_bundle(folder.path("nothing.tar.zst")), FileError);
  write_file(folder.path("a.zip"), bytes);
  CHECK_THROWS_AS(read_bundle(folder.path("a.zip")), UsageError);
}

TEST_CASE("a name that leads out of the bundle is never taken") {
  for (const char* name :
       {"allocmark-bundle/../x", "/etc/x", "allocmark-bundle//x", "x", "allocmark-bundle/a\\b",
        "allocmark-bundle/\x1b[31m", "allocmark-bundle/results.jsonl"}) {
    TarContents contents = sealed(bundle_of(sound_cells()));
    contents.files.push_back({name, "x"});
    INFO(name);
    CHECK(broken(contents) == Names{"names-safe"});
  }
  TarContents linked = sealed(bundle_of(sound_cells()));
  linked.others.push_back("allocmark-bundle/link");
  CHECK(broken(linked) == Names{"names-safe"});
}

TEST_CASE("missing, extra and changed files are found by their hashes") {
  const TarContents sound = sealed(bundle_of(sound_cells()));
  for (std::size_t at = 0; at < sound.files.size(); ++at) {
    TarContents contents = sound;
    contents.files.erase(contents.files.begin() + static_cast<std::ptrdiff_t>(at));
    INFO(sound.files[at].name);
    CHECK(broken(contents).count("files-complete") == 1);
    contents = sound;
    contents.files[at].text = contents.files[at].text.whole() + " ";
    const Names names = broken(contents);
    CHECK((names.count("hashes-match") == 1 || names.count("files-complete") == 1));
  }
  TarContents extra = sound;
  extra.files.push_back({"allocmark-bundle/extra.txt", "x"});
  CHECK(broken(extra) == Names{"files-known"});
  // What is read whole has a bound, so that it fits into memory.
  extra.files.back() = {"allocmark-bundle/policy.json", std::string((64U << 20) + 1, ' ')};
  CHECK(broken(extra) == Names{"files-known"});
  CHECK(render_check(check_bundle(extra, kVersion)).find("more than the 64.0 MiB") !=
        std::string::npos);
}

TEST_CASE("what was made from the raw results is made again, even where the hashes are right") {
  BundleFiles files = bundle_of(sound_cells());
  replace(files["table.csv"], "caching", "cachimg");
  CHECK(broken(sealed(files)) == Names{"tables-recomputed"});
  files = bundle_of(sound_cells());
  replace(files["report.md"], "caching", "cachimg");
  CHECK(broken(sealed(files)) == Names{"tables-recomputed"});
  files = bundle_of(sound_cells());
  replace(files[kBundleComparison], "\"passed\": true", "\"passed\": false");
  CHECK(broken(sealed(files)) == Names{"verdicts-recomputed"});
  files = bundle_of(sound_cells());
  files["policy.json"] = "{\"effect_min\": -1}";
  CHECK(broken(sealed(files)) == Names{"verdicts-recomputed"});
  files = bundle_of(sound_cells());
  replace(files["report.html"], "content=\"", "content=\"0");
  CHECK(broken(sealed(files)) == Names{"page-of-results"});
  files = bundle_of(sound_cells());
  replace(files[kBundleManifest], "00000000000000aa", "00000000000000ab");
  CHECK(broken(sealed(files)) == Names{"texts-unchanged", "work-same"});
}

TEST_CASE("a table of another version is not called wrong, and not right either") {
  BundleFiles files = bundle_of(sound_cells());
  files["table.txt"] = files["table.txt"].whole() + "made with another layout\n";
  const BundleCheck check = check_bundle(sealed(files), "10.0.0");
  CHECK(rules_with(check, RuleOutcome::Broken).empty());
  CHECK(rules_with(check, RuleOutcome::NotChecked) == Names{"tables-recomputed"});
  CHECK(check.exit_code == ExitCode::CellsIncomplete);
  CHECK(check_bundle(sealed(bundle_of(sound_cells())), "10.0.0").exit_code == ExitCode::Pass);
}

TEST_CASE(
    "raw results that are no results, or are cut short, break their rule and stop those that need "
    "them") {
  for (const char* text : {"", "{", "null\n", "[1]\n{}\n", "{\"kind\":\"environment\"}\n"}) {
    BundleFiles files = bundle_of(sound_cells());
    files["results.jsonl"] = text;
    const BundleCheck check = check_bundle(sealed(files), kVersion);
    INFO(text << "\n" << render_check(check));
    CHECK(rules_with(check, RuleOutcome::Broken).count("results-whole") == 1);
    CHECK(rules_with(check, RuleOutcome::NotChecked).count("cells-consistent") == 1);
  }
  BundleFiles files = bundle_of(sound_cells());
  files["results.jsonl"] =
      files["results.jsonl"].whole().substr(0, files["results.jsonl"].size_bytes() - 40);
  CHECK(broken(sealed(files)).count("results-whole") == 1);
  files = bundle_of(sound_cells());
  files["plan.json"] = "{}";
  CHECK(rules_with(check_bundle(sealed(files), kVersion), RuleOutcome::NotChecked)
            .count("plan-kept") == 1);
}

TEST_CASE("a workload that can be made again must give the same events") {
  const std::string comb = "comb:size_bytes=2MiB,count=8,ask_bytes=16MiB";
  const std::string hash = fmt::format("{:016x}", trace_hash(*open_workload(comb, 1)));
  const auto checked = [](const std::string& workload, const std::string& trace_hash_text) {
    Cells cells = sound_cells();
    for (CellResult& cell : cells) {
      cell.key.workload = workload, cell.trace_hash = trace_hash_text;
    }
    return check_bundle(sealed(bundle_of(cells)), kVersion);
  };
  CHECK(rules_with(checked(comb, hash), RuleOutcome::Broken).empty());
  CHECK(rules_with(checked(comb, hash), RuleOutcome::NotChecked).empty());
  CHECK(rules_with(checked(comb, "00000000000000aa"), RuleOutcome::Broken) ==
        Names{"traces-regenerated"});
  CHECK(rules_with(checked("no_such_workload", hash), RuleOutcome::NotChecked) ==
        Names{"traces-regenerated"});
}

TEST_CASE("a run that is still being written is not bundled") {
  const TemporaryFolder folder;
  write_run(folder.path("run"), sound_cells());
  std::string text = read_file(results_path(folder.path("run")));
  write_file(results_path(folder.path("run")), text.substr(0, text.size() - 30));
  CHECK_THROWS_AS(collect_bundle({.run = folder.path("run")}, kVersion), UsageError);
  CHECK_THROWS_AS(collect_bundle({.run = folder.path("none")}, kVersion), FileError);
}

}  // namespace allocmark
