// See stray_word.h.
#include "harness/cli/stray_word.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "allocators/registry.h"
#include "harness/run/runtime_select.h"
#include "harness/run/suites.h"
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

}  // namespace allocmark
