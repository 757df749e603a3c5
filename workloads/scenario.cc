#include "workloads/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/nearest.h"
#include "base/number_text.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kKeys = {"workload", "seeds", "capacity", "on_oom", "conf"};

// A strict reader of the few shapes of TOML that scenarios use: key = "text", key = 12, key = ["a",
// "b"], key = [1, 2].
class ScenarioReader {
 public:
  explicit ScenarioReader(const std::string& path) : path_(path) {}
  [[nodiscard]] Scenario read();

 private:
  struct Value {
    bool is_text = true;
    std::string text;
  };
  [[noreturn]] void fail(std::string what, std::string wanted, std::string_view got,
                         std::string next) const;
  void read_line(std::string_view line, Scenario* scenario);
  [[nodiscard]] std::vector<Value> values(std::string_view text) const;
  [[nodiscard]] Value value(std::string_view* text) const;
  void refuse_twice(const std::string& key, const std::vector<Value>& list) const;
  void store(const std::string& key, const std::vector<Value>& values, Scenario* scenario) const;
  [[nodiscard]] std::string only_text(const std::string& key,
                                      const std::vector<Value>& values) const;
  [[nodiscard]] std::vector<std::string> texts(const std::string& key,
                                               const std::vector<Value>& values) const;

  std::string path_;
  int line_number_ = 0;
  std::string key_;  // whose value is being read
  std::vector<std::string> seen_;
};

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

void ScenarioReader::fail(std::string what, std::string wanted, std::string_view got,
                          std::string next) const {
  const bool names_key = key_.empty() || what.find("'" + key_ + "'") != std::string::npos;
  std::string where = fmt::format("{}:{}", path_, line_number_);
  if (!names_key) where += fmt::format(", key '{}'", key_);
  throw UsageError({.what = std::move(what),
                    .where = std::move(where),
                    .wanted = std::move(wanted),
                    .got = got.empty() ? "" : fmt::format("'{}'", got.substr(0, 80)),
                    .next = std::move(next)});
}

Scenario ScenarioReader::read() {
  std::istringstream file(read_file(path_, kSettingsInput));
  Scenario scenario;
  const fs::path path(path_);
  scenario.path = path_;
  scenario.name = path.stem().string();
  scenario.intent = path.parent_path().filename().string();
  std::string line;
  while (std::getline(file, line)) {
    ++line_number_;
    const std::string_view content = without_blanks(line);
    if (line_number_ == 1) {
      if (!content.starts_with("# "))
        fail("no summary", "a first line '# what it stresses'", content, "");
      scenario.summary = content.substr(2);
    }
    if (!content.empty() && content.front() != '#') read_line(content, &scenario);
  }
  line_number_ = std::max(line_number_, 1);
  if (scenario.workload.empty()) fail("no workload", "a line: workload = \"...\"", "", "");
  return scenario;
}

void ScenarioReader::read_line(std::string_view line, Scenario* scenario) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) fail("not a key and a value", "key = value", line, "");
  const std::string key(without_blanks(line.substr(0, equals)));
  if (std::ranges::find(kKeys, key) == kKeys.end()) {
    fail(fmt::format("unknown key '{}'", key), "one of workload, seeds, capacity, on_oom, conf", "",
         suggest(key, kKeys));
  }
  if (std::ranges::find(seen_, key) != seen_.end())
    fail(fmt::format("key '{}' twice", key), "one line for it", "", "");
  seen_.push_back(key);
  key_ = key;
  store(key, values(without_blanks(line.substr(equals + 1))), scenario);
  key_.clear();
}

ScenarioReader::Value ScenarioReader::value(std::string_view* text) const {
  const std::string_view whole = *text;
  if (whole.starts_with('"')) {
    const std::size_t end = whole.find('"', 1);
    const std::string_view inner = whole.substr(1, end == std::string_view::npos ? end : end - 1);
    if (end == std::string_view::npos)
      fail("text without its closing quote", "\"text\"", whole, "");
    if (inner.find('\\') != std::string_view::npos)
      fail("escape in a text", "text without backslashes", whole, "");
    text->remove_prefix(end + 1);
    return {.is_text = true, .text = std::string(inner)};
  }
  const std::size_t end = std::min(whole.find_first_of(" \t,]#"), whole.size());
  const std::string_view digits = whole.substr(0, end);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    fail("bad value", "\"text\", a whole number or a [list] of them", whole, "");
  }
  text->remove_prefix(end);
  return {.is_text = false, .text = std::string(digits)};
}

std::vector<ScenarioReader::Value> ScenarioReader::values(std::string_view text) const {
  std::vector<Value> result;
  const std::string_view whole = text;
  const bool is_list = text.starts_with('[');
  if (is_list) text = without_blanks(text.substr(1));
  while (!(is_list && text.starts_with(']'))) {
    if (text.empty()) fail("no value", "key = \"text\", a number or a [list]", whole, "");
    result.push_back(value(&text));
    text = without_blanks(text);
    if (!is_list) break;
    if (text.starts_with(',')) {
      text = without_blanks(text.substr(1));
    } else if (!text.starts_with(']')) {
      fail("list without its closing bracket", "[a, b] on one line", whole, "");
    }
  }
  if (is_list) text = without_blanks(text.substr(1));
  if (!text.empty() && text.front() != '#')
    fail("text after the value", "nothing or a comment", text, "");
  return result;
}

std::vector<std::string> ScenarioReader::texts(const std::string& key,
                                               const std::vector<Value>& list) const {
  std::vector<std::string> result;
  for (const Value& item : list) {
    if (!item.is_text)
      fail(fmt::format("bad value of key '{}'", key), "\"text\"", item.text,
           "Put quotes around it");
    result.push_back(item.text);
  }
  return result;
}

std::string ScenarioReader::only_text(const std::string& key,
                                      const std::vector<Value>& list) const {
  if (list.size() != 1) fail(fmt::format("bad value of key '{}'", key), "one \"text\"", "", "");
  return texts(key, list).front();
}

// The same thing twice would be run once, or counted twice.
void ScenarioReader::refuse_twice(const std::string& key, const std::vector<Value>& list) const {
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (list[i].text != list[j].text) continue;
      fail(fmt::format("bad value of key '{}'", key), "values that differ", list[i].text, "");
    }
  }
}

void ScenarioReader::store(const std::string& key, const std::vector<Value>& list,
                           Scenario* scenario) const {
  refuse_twice(key, list);
  if (key == "workload") {
    scenario->workload = only_text(key, list);
  } else if (key == "on_oom") {
    scenario->on_oom = only_text(key, list);
    constexpr std::string_view kPolicies[] = {"skip", "stop", "retry-after-sync"};
    if (std::ranges::find(kPolicies, scenario->on_oom) == std::end(kPolicies)) {
      fail("bad value of key 'on_oom'", "\"skip\", \"stop\" or \"retry-after-sync\"",
           scenario->on_oom, "");
    }
  } else if (key == "capacity") {
    scenario->capacities = texts(key, list);
  } else if (key == "conf") {
    scenario->confs = texts(key, list);
  } else {
    scenario->seeds.clear();
    for (const Value& item : list) {
      const std::optional<std::uint64_t> seed = number_in_text<std::uint64_t>(item.text);
      if (item.is_text || !seed)
        fail("bad value of key 'seeds'", "whole numbers below 2^64", item.text, "");
      scenario->seeds.push_back(*seed);
    }
    if (list.empty()) fail("bad value of key 'seeds'", "at least one seed", "", "");
  }
}

}  // namespace

std::vector<NamedFile> scenario_files() {
  std::vector<NamedFile> result;
  std::error_code failure;
  const std::string root = workload_data_folder() + "/scenarios";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root, failure)) {
    if (entry.path().extension() != ".toml") continue;
    result.push_back({.name = entry.path().stem().string(), .path = entry.path().string()});
  }
  std::ranges::sort(result, [](const NamedFile& a, const NamedFile& b) {
    return std::tie(a.name, a.path) < std::tie(b.name, b.path);
  });
  for (std::size_t i = 1; i < result.size(); ++i) {
    if (result[i - 1].name != result[i].name) continue;
    throw UsageError({.what = "two scenarios have the name '" + result[i].name + "'",
                      .where = result[i].path,
                      .wanted = "names that differ in all folders",
                      .got = "the name of " + result[i - 1].path,
                      .next = "Rename one of the files"});
  }
  return result;
}

Scenario read_scenario(const std::string& path) { return ScenarioReader(path).read(); }

Scenario load_scenario(std::string_view name) {
  std::vector<std::string> known;
  for (const NamedFile& file : scenario_files()) {
    if (file.name == name) return read_scenario(file.path);
    known.push_back(file.name);
  }
  throw UsageError({.what = fmt::format("unknown scenario '{}'", name),
                    .wanted = "a scenario below " + workload_data_folder() + "/scenarios",
                    .next = suggest(name, known, "allocmark list scenarios")});
}

}  // namespace allocmark
