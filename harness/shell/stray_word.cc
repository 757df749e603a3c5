// See stray_word.h.
#include "harness/shell/stray_word.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/run/suites.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

bool names_one(const std::string& name, const std::vector<WorkloadListing>& listings) {
  return std::any_of(listings.begin(), listings.end(), [&](const WorkloadListing& listing) {
    return listing.name == name || listing.name.starts_with(name + ":");
  });
}

bool is_config_key(const std::string& key) {
  const auto& entries = backend_registry();
  return std::any_of(entries.begin(), entries.end(), [&](const BackendEntry& entry) {
    return std::find(entry.conf_keys.begin(), entry.conf_keys.end(), key) != entry.conf_keys.end();
  });
}

// "batch=8": a key of a generator, and no path, option or NAME=STRING of a config string.
bool is_generator_key(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) return false;
  const auto is_key_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     is_key_letter) &&
         word.find(':') == std::string::npos;
}

bool is_suite(const std::string& name) {
  const auto known = suites();
  return std::any_of(known.begin(), known.end(),
                     [&](const Suite& suite) { return suite.name == name; });
}

bool is_allocator(const std::string& name) {
  const auto& entries = backend_registry();
  return std::any_of(entries.begin(), entries.end(),
                     [&](const BackendEntry& entry) { return entry.name == name; });
}

}  // namespace

std::string option_for(const std::string& word, const std::vector<std::string>& options) {
  const std::string head = word.substr(0, word.find(':'));
  std::error_code ignored;
  std::string meant;
  if (head == "file" || names_one(word, list_workloads()) || names_one(head, list_workloads())) {
    meant = "--workload " + word;
  } else if (std::filesystem::is_regular_file(word, ignored)) {
    meant = "--workload file:" + word;
  } else if (names_one(word, list_scenarios())) {
    meant = "--scenario " + word;
  } else if (is_suite(word)) {
    meant = "--suite " + word;
  } else if (is_allocator(head)) {
    meant = "--allocator " + word;
  } else if (head == "cuda" || head == "sim") {
    meant = "--device " + word;
  } else if (is_config_key(head)) {
    meant = "--conf " + word;
  } else if (word.ends_with('x') || word == "unlimited" || word.ends_with("iB")) {
    meant = "--capacity " + word;
  }
  if (meant.empty()) return "";
  const std::string option = meant.substr(0, meant.find(' '));
  if (std::ranges::find(options, option) != options.end()) {
    return fmt::format("did you mean {}?", meant);
  }
  return option == "--conf" ? "a config string is one word, with commas: KEY:VALUE,KEY:VALUE;" : "";
}

std::string joined_keys_hint(const std::vector<std::string>& words) {
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& before = words[at - 1];
    const std::string head = before.substr(0, before.find(':'));
    if (!is_generator_key(words[at]) || !names_one(head, list_workloads())) continue;
    std::string joined = before;
    if (!joined.ends_with(',') && !joined.ends_with(':')) joined += joined == head ? ":" : ",";
    joined += words[at];
    for (++at; at < words.size() && is_generator_key(words[at]); ++at) joined += "," + words[at];
    return fmt::format("a workload is one word, with commas: did you mean {}?", joined);
  }
  return "";
}

void refuse_split_workloads(const std::vector<std::string>& workloads) {
  for (std::size_t at = 1; at < workloads.size(); ++at) {
    if (!is_generator_key(workloads[at])) continue;
    const std::string hint = joined_keys_hint(workloads);
    throw UsageError({.what = fmt::format("'{}' is no workload", workloads[at]),
                      .where = "--workload",
                      .wanted = "a generator, file:PATH, a recorded trace or a scenario",
                      .next = hint.empty() ? "see: allocmark list workloads" : hint});
  }
}

}  // namespace allocmark
