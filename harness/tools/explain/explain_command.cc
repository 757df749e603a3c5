// 'allocmark explain CONF': what a config string means for an allocator, key by key, or what is
// wrong with it.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"
#include "allocators/caching/release.h"
#include "allocators/caching/safety.h"
#include "allocators/conf/conf.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "base/json_text.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"

namespace allocmark {
namespace {

struct ExplainCommand {
  std::string format = "table";
  std::optional<std::string> conf;
  std::string allocator = "caching";
  std::string pytorch;  // the release whose rules are asked about; empty = the newest
};

void add_explain(CLI::App* app, ExplainCommand* command) {
  app->add_option("conf", command->conf,
                  "The config string, as in PYTORCH_CUDA_ALLOC_CONF [all keys, with --pytorch]")
      ->type_name("CONF");
  app->add_option("--pytorch", command->pytorch,
                  "The release of PyTorch whose rules apply, such as 2.13 [the newest]")
      ->type_name("V");
  app->add_option("-a,--allocator", command->allocator,
                  "The allocator that takes the config string")
      ->capture_default_str()
      ->type_name("A");
  add_format(app, &command->format, "table or json (one document)", {"table", "json"});
}

// {"allocator", "conf", "valid", "error", "keys": [{"key", "value"}], "safety": [...],
// "pytorch": {...}, "dangers": [], "effects": []}; the last three of caching alone.
void print_json(const BackendEntry& entry, const std::string& conf,
                const std::optional<ErrorText>& error) {
  nlohmann::ordered_json json = {{"allocator", std::string(entry.name)},
                                 {"conf", conf},
                                 {"valid", !error.has_value()},
                                 {"error", error ? to_string(*error) : ""}};
  json["keys"] = nlohmann::ordered_json::array();
  for (const ConfPair& pair : split_conf(conf, entry.conf_keys).pairs) {
    json["keys"].push_back({{"key", std::string(pair.key)}, {"value", std::string(pair.value)}});
  }
  json["safety"] = nlohmann::ordered_json::array();
  const bool is_pytorch = family_of(entry.name) == "caching" && !error;
  for (const caching::SafetyNote* note :
       is_pytorch ? caching::safety_of(conf) : std::vector<const caching::SafetyNote*>()) {
    json["safety"].push_back({{"key", std::string(note->key)},
                              {"area", std::string(note->area)},
                              {"safe", std::string(to_string(note->safety))},
                              {"words", std::string(note->words)},
                              {"sources", std::string(note->sources)}});
  }
  if (const caching::Rules* const rules = caching::find_rules(entry.release); rules != nullptr) {
    const caching::PytorchConfig pytorch = caching::parse_pytorch(conf, *rules);
    json["pytorch"] = {{"accepts", pytorch.accepted()},
                       {"aborts_import", pytorch.aborts_process},
                       {"error", pytorch.error}};
    json["dangers"] = caching::conf_dangers(conf, *rules);
    json["effects"] = caching::conf_effects(conf, *rules);
  }
  fmt::print("{}\n", json_text(json, 1));
}

const caching::Rules& rules_of(const BackendEntry& entry) {
  return caching::require_rules(entry.release, "--pytorch");
}

const BackendEntry& entry_of(const ExplainCommand& command) {
  const bool released = !command.pytorch.empty();
  if (released && command.allocator != "caching") {
    throw UsageError({.what = "--pytorch names a release of PyTorch",
                      .where = "--allocator " + command.allocator,
                      .wanted = "no other allocator than caching",
                      .next = "leave one of the two out"});
  }
  if (!released && !command.conf) {
    throw UsageError({.what = "there is nothing to explain",
                      .where = "allocmark explain",
                      .wanted = "a config string, or --pytorch RELEASE for all keys",
                      .next = "see: allocmark explain --help"});
  }
  if (!released) return find_backend(command.allocator);
  return find_backend(caching::require_rules(command.pytorch, "--pytorch").allocator());
}

ExitCode run_explain(const ExplainCommand& command) {
  const BackendEntry& entry = entry_of(command);
  if (!command.conf) {
    print_fitted(stdout, caching::explain_keys(rules_of(entry)));
    return ExitCode::Pass;
  }
  const std::string conf = conf_of_user(*command.conf);
  const std::optional<ErrorText> error = entry.check_conf(conf);
  if (command.format == "json") {
    print_json(entry, conf, error);
    return error.has_value() ? ExitCode::Usage : ExitCode::Pass;
  }
  if (family_of(entry.name) == "caching") {
    // Says of a bad string what PyTorch itself would make of it, too.
    print_fitted(stdout, caching::explain_conf(conf, rules_of(entry)));
    return error.has_value() ? ExitCode::Usage : ExitCode::Pass;
  }
  if (error.has_value()) {
    throw UsageError(told_conf_error(*error, "CONF", conf, entry.name));
  }
  if (conf.empty()) {
    fmt::print("unset: {} runs with its defaults\n", entry.name);
  }
  for (const ConfPair& pair : split_conf(conf, entry.conf_keys).pairs) {
    fmt::print("{} = {}\n", pair.key, pair.value);
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kExplainCommand;
constinit const CommandEntry kExplainCommand{
    "explain", "Say what a config string means",
    [](CLI::App* app) { return bind_command(app, add_explain, run_explain); }};

}  // namespace allocmark
