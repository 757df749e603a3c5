// Specifications and facts as JSON lines; the processes of a search.
#include "harness/advise/search_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <future>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/field_count.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/job/child_process.h"
#include "harness/job/interrupt.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// A new field is sent below, both ways, or does not reach the other process.
static_assert(field_count<SearchSpec>() == 7 && field_count<SettingFacts>() == 11 &&
              field_count<SearchResult>() == 12);

Json known(const std::optional<std::uint64_t>& value) { return value ? Json(*value) : Json(); }

std::optional<std::uint64_t> optional_of(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::uint64_t>());
}

Json to_json(const SettingFacts& facts) {
  return {{"conf", facts.conf},
          {"oom_count", facts.oom_count},
          {"peak_bytes", facts.peak_bytes},
          {"driver_ns_per_step", facts.driver_ns_per_step},
          {"calls_per_step", facts.calls_per_step},
          {"driver_ns", facts.driver_ns},
          {"pass_count", facts.pass_count},
          {"least_bytes", known(facts.least_bytes)},
          {"unsettled_bytes", facts.unsettled_bytes},
          {"serves_below_bytes", known(facts.serves_below_bytes)},
          {"failure", facts.failure}};
}

SettingFacts facts_of(const Json& json) {
  return {.conf = json.at("conf").get<std::string>(),
          .oom_count = json.at("oom_count").get<std::uint64_t>(),
          .peak_bytes = json.at("peak_bytes").get<std::uint64_t>(),
          .driver_ns_per_step = json.at("driver_ns_per_step").get<double>(),
          .calls_per_step = json.at("calls_per_step").get<double>(),
          .driver_ns = json.at("driver_ns").get<double>(),
          .pass_count = json.at("pass_count").get<std::uint32_t>(),
          .least_bytes = optional_of(json.at("least_bytes")),
          .unsettled_bytes = json.at("unsettled_bytes").get<std::uint64_t>(),
          .serves_below_bytes = optional_of(json.at("serves_below_bytes")),
          .failure = json.at("failure").get<std::string>()};
}

[[noreturn]] void reject(const char* what, const Json::exception& error) {
  throw UsageError({.what = fmt::format("this is no {} of a search", what),
                    .where = "search",
                    .wanted = "one JSON object as this version writes it",
                    .got = error.what(),
                    .next = "build all programs from the same version"});
}

std::size_t line_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

struct Interrupted {};

// The whole lines so far joined: a setting each.
SearchResult result_so_far(std::string_view lines) {
  SearchResult joined;
  for (std::size_t end = lines.find('\n'); end != lines.npos; end = lines.find('\n')) {
    SearchResult one = search_result_from_json(lines.substr(0, end));
    lines.remove_prefix(end + 1);
    one.settings.insert(one.settings.begin(), joined.settings.begin(), joined.settings.end());
    joined = std::move(one);
  }
  return joined;
}

// The lines before the last one are a setting each.
SearchResult result_of(const ChildOutcome& outcome) {
  std::string_view lines = outcome.result;
  if (lines.ends_with('\n')) lines.remove_suffix(1);
  if (outcome.exit_code != 0 || lines.empty()) rethrow(outcome, "the search");
  return search_result_from_json(lines.substr(lines.rfind('\n') + 1));
}

SearchResult run_part(const SearchSpec& spec, const SearchPlace& place,
                      const std::function<void()>& on_setting) {
  std::vector<std::pair<std::string, std::string>> changes =
      runtime_environment(place.device, place.program_path);
  // Modelled time is read here, never the host's.
  changes.emplace_back("SIMCUDA_HOST_CACHES", "warm");
  // Settings are compared by sums of few calls, in which draws would differ more than settings do.
  changes.emplace_back("SIMCUDA_COSTS", "mean");
  std::size_t told_count = 0;
  std::string so_far;
  const auto tell = [&](const std::string& result) {
    if (place.interrupt != nullptr && place.interrupt->requested()) {
      so_far = result;
      throw Interrupted();
    }
    for (const std::size_t count = std::min(line_count(result), spec.confs.size());
         told_count < count; ++told_count) {
      on_setting();
    }
  };
  try {
    return result_of(
        run_child({.argv = {place.program_path, "cell", std::to_string(getpid()), "--search"},
                   .environment = environment_with(changes),
                   .input = to_json_line(spec)},
                  tell));
  } catch (const Interrupted&) {
    return result_so_far(so_far);
  }
}

}  // namespace

std::string to_json_line(const SearchSpec& spec) {
  return json_text(Json{{"workload", spec.workload},
                        {"seed", spec.seed},
                        {"capacity", spec.capacity},
                        {"allocator", spec.allocator},
                        {"confs", spec.confs},
                        {"finds_least", spec.finds_least},
                        {"settle_count_max", spec.settle_count_max}});
}

std::string to_json_line(const SearchResult& result) {
  Json settings = Json::array();
  for (const SettingFacts& facts : result.settings) settings.push_back(to_json(facts));
  Json forbids = Json::array();
  for (const ForbiddenKey& one : result.forbids) {
    forbids.push_back({{"key", one.key}, {"why", one.why}});
  }
  return json_text(Json{{"event_count", result.event_count},
                        {"allocate_count", result.allocate_count},
                        {"step_count", result.step_count},
                        {"stream_count", result.stream_count},
                        {"needed_bytes", result.needed_bytes},
                        {"usable_bytes", result.usable_bytes},
                        {"capacity_bytes", result.capacity_bytes},
                        {"settings", settings},
                        {"notes", result.notes},
                        {"trace_hash", result.trace_hash},
                        {"pytorch", result.pytorch},
                        {"forbids", forbids}});
}

std::string to_told_json(const SearchResult& result, bool at_capacity) {
  constexpr std::array kAtCapacity{"oom_count", "peak_bytes", "driver_ns_per_step",
                                   "calls_per_step", "driver_ns"};
  Json json = parse_json(to_json_line(result));
  if (!at_capacity) json["capacity_bytes"] = nullptr;
  for (Json& setting : json["settings"]) {
    const bool is_counted = at_capacity && setting["pass_count"] > 0 && setting["failure"] == "";
    for (const char* const name : kAtCapacity) {
      if (!is_counted) setting[name] = nullptr;
    }
    if (setting["least_bytes"].is_null()) setting["unsettled_bytes"] = nullptr;
  }
  return json_text(json);
}

SearchSpec search_spec_from_json(std::string_view text) {
  try {
    const Json json = parse_json(text);
    return {.workload = json.at("workload").get<std::string>(),
            .seed = json.at("seed").get<std::uint64_t>(),
            .capacity = json.at("capacity").get<std::string>(),
            .allocator = json.at("allocator").get<std::string>(),
            .confs = json.at("confs").get<std::vector<std::string>>(),
            .finds_least = json.at("finds_least").get<bool>(),
            .settle_count_max = json.at("settle_count_max").get<std::uint32_t>()};
  } catch (const Json::exception& error) {
    reject("specification", error);
  }
}

SearchResult search_result_from_json(std::string_view text) {
  try {
    const Json json = parse_json(text);
    SearchResult result{.event_count = json.at("event_count").get<std::uint64_t>(),
                        .allocate_count = json.at("allocate_count").get<std::uint64_t>(),
                        .step_count = json.at("step_count").get<std::uint64_t>(),
                        .stream_count = json.at("stream_count").get<std::uint64_t>(),
                        .needed_bytes = json.at("needed_bytes").get<std::uint64_t>(),
                        .usable_bytes = json.at("usable_bytes").get<std::uint64_t>(),
                        .capacity_bytes = json.at("capacity_bytes").get<std::uint64_t>(),
                        .notes = json.at("notes").get<std::vector<std::string>>(),
                        .trace_hash = json.at("trace_hash").get<std::uint64_t>(),
                        .pytorch = json.at("pytorch").get<std::string>()};
    for (const Json& one : json.at("settings")) result.settings.push_back(facts_of(one));
    for (const Json& one : json.at("forbids")) {
      result.forbids.push_back(
          {.key = one.at("key").get<std::string>(), .why = one.at("why").get<std::string>()});
    }
    return result;
  } catch (const Json::exception& error) {
    reject("result", error);
  }
}

void search_and_tell(const SearchSpec& spec,
                     const std::function<void(const std::string&)>& send_line) {
  const SearchResult result =
      search_settings(spec, [&](const SearchResult& one) { send_line(to_json_line(one) + "\n"); });
  send_line(to_json_line(result) + "\n");
}

SearchResult run_search(const SearchSpec& spec, const SearchPlace& place,
                        const std::function<void()>& on_setting) {
  const std::size_t part_count =
      std::clamp<std::size_t>(place.process_count, 1, std::max<std::size_t>(spec.confs.size(), 1));
  std::vector<SearchSpec> parts(part_count, spec);
  for (SearchSpec& part : parts) part.confs.clear();
  for (std::size_t at = 0; at < spec.confs.size(); ++at) {
    parts[at % part_count].confs.push_back(spec.confs[at]);
  }
  std::vector<std::future<SearchResult>> running;
  for (const SearchSpec& part : parts) {
    running.push_back(std::async(std::launch::async, run_part, part, place, on_setting));
  }
  std::vector<SearchResult> results;
  for (std::future<SearchResult>& one : running) results.push_back(one.get());
  // A part that was interrupted may not even know its trace.
  SearchResult joined = *std::ranges::max_element(results, {}, &SearchResult::event_count);
  joined.settings.clear();
  for (std::size_t at = 0; at < spec.confs.size(); ++at) {
    const std::vector<SettingFacts>& done = results[at % part_count].settings;
    if (at / part_count < done.size()) joined.settings.push_back(done[at / part_count]);
  }
  return joined;
}

}  // namespace allocmark
