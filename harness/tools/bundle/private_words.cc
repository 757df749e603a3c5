// See private_words.h.
#include "harness/tools/bundle/private_words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "harness/core/run/run_folder.h"
#include "results/compare/interleaved.h"

namespace allocmark {
namespace {

constexpr std::array<std::string_view, 4> kRecords{"results.jsonl", "plan.json",
                                                   "base.results.jsonl", "interleaved.json"};
constexpr std::size_t kWordShownMax = 8;
// Of the system, the same on every machine.
constexpr std::array<std::string_view, 4> kCommonRoots{"/proc/", "/sys/", "/dev/", "/usr/"};
// What stands around a path.
constexpr std::string_view kEnds = "\"' ,;\n[]";
constexpr std::string_view kBegins = "\"' ,;\n[=:";

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string published_plan(const std::string& text, const std::string& name) {
  RunManifest plan = manifest_from_json(text, name);
  plan.program.path = file_name(plan.program.path);
  for (FileMark& file : plan.files) file.path = file_name(file.path);
  return to_json(plan);
}

// "/work/job.csv", and no "/" or "//x".
bool looks_like_path(std::string_view word) {
  const auto begins = [&](std::string_view root) { return word.starts_with(root); };
  return word.find('/', 2) != std::string_view::npos && word[1] != '/' &&
         std::ranges::none_of(kCommonRoots, begins);
}

void add_words(const std::string& name, std::string_view text, std::set<std::string>* seen,
               std::vector<PrivateWord>* found) {
  for (std::size_t at = 0; found->size() < kWordShownMax; ++at) {
    at = text.find('/', at);
    if (at == std::string_view::npos) return;
    if (at > 0 && kBegins.find(text[at - 1]) == std::string_view::npos) continue;
    std::string word(text.substr(at, text.find_first_of(kEnds, at) - at));
    at += word.size() - 1;
    if (looks_like_path(word) && seen->insert(word).second) {
      found->push_back({.file = name, .word = std::move(word)});
    }
  }
}

}  // namespace

void leave_out_paths(BundleFiles* files) {
  for (auto& [name, text] : *files) {
    if (name.ends_with("plan.json")) text = published_plan(text.whole(), name);
    if (name != kBundleTurnsPlan) continue;
    InterleavedPlan plan = interleaved_plan_from_json(text.whole(), name);
    for (InterleavedSide& side : plan.sides) side.program_path = file_name(side.program_path);
    text = to_json(plan);
  }
}

std::vector<PrivateWord> private_words(const BundleFiles& files) {
  std::set<std::string> seen;
  std::vector<PrivateWord> found;
  for (const std::string_view name : kRecords) {
    const auto file = files.find(std::string(name));
    if (file == files.end()) continue;
    file->second.each_line(
        kLineBytesMax, [&](std::string_view line) { add_words(file->first, line, &seen, &found); });
  }
  return found;
}

}  // namespace allocmark
