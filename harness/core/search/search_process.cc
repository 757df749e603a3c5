// See search_process.h.
#include "harness/core/search/search_process.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <future>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/field_count.h"
#include "base/json_text.h"
#include "harness/job/job.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// A new field is said below, too.
static_assert(field_count<SettingFacts>() == 12 && field_count<SearchResult>() == 12);

Json known(const std::optional<std::uint64_t>& value) { return value ? Json(*value) : Json(); }

Json to_json(const SettingFacts& facts) {
  return {{"conf", facts.conf},
          {"oom_count", facts.oom_count},
          {"idle_oom_count", known(facts.idle_oom_count)},
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

Json to_json(const SearchResult& result) {
  Json settings = Json::array();
  for (const SettingFacts& facts : result.settings) settings.push_back(to_json(facts));
  Json forbids = Json::array();
  for (const ForbiddenKey& one : result.forbids) {
    forbids.push_back({{"key", one.key}, {"why", one.why}});
  }
  return Json{{"event_count", result.event_count},
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
              {"forbids", forbids}};
}

// What a process of a search does: the facts of each setting when it is done, and the whole result
// at last.
void search(const SearchSpec& spec, const Tell<SearchResult>& tell) {
  tell(search_settings(spec, tell));
}

constexpr Job<SearchSpec, SearchResult> kSearch{
    .name = "search", .what = "the search", .run = search, .opens_device = false};

SearchResult run_part(const SearchSpec& spec, const SearchPlace& place,
                      const std::function<void()>& on_setting) {
  SearchResult so_far;
  const auto keep = [&](SearchResult result) {
    if (so_far.settings.size() == spec.confs.size()) return;  // the whole result, at last
    on_setting();
    result.settings.insert(result.settings.begin(), so_far.settings.begin(), so_far.settings.end());
    so_far = std::move(result);
  };
  // Modelled time is read here, never the host's. Settings are compared by sums of few calls, in
  // which draws would differ more than settings do.
  const JobPlace process{.program_path = place.program_path,
                         .device = place.device,
                         .environment = {kWarmHostCaches, {"SIMCUDA_COSTS", "mean"}},
                         .handed_fd = place.handed_fd};
  return ask_job_until(kSearch, spec, process, place.interrupt, keep).value_or(so_far);
}

}  // namespace

Json to_told_json(const SearchResult& result, bool at_capacity) {
  constexpr std::array kAtCapacity{"oom_count", "peak_bytes", "driver_ns_per_step",
                                   "calls_per_step", "driver_ns"};
  Json json = to_json(result);
  if (!at_capacity) json["capacity_bytes"] = nullptr;
  for (Json& setting : json["settings"]) {
    const bool is_counted = at_capacity && setting["pass_count"] > 0 && setting["failure"] == "";
    for (const char* const name : kAtCapacity) {
      if (!is_counted) setting[name] = nullptr;
    }
    if (setting["least_bytes"].is_null()) setting["unsettled_bytes"] = nullptr;
  }
  return json;
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

extern const JobEntry kSearchJob;
constinit const JobEntry kSearchJob = job_entry<kSearch>();

}  // namespace allocmark
