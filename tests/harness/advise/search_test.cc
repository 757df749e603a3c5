// The search on simcuda: least capacities against passes at every page, and what it refuses.
#include "harness/core/search/search.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/search/grid.h"
#include "harness/core/search/search_process.h"
#include "harness/core/search/search_progress.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

constexpr const char* kJob = "churn:live_bytes=256MiB,size_min=64KiB,size_max=16MiB,events=3000";

std::uint64_t failures_at(const std::string& workload, const std::string& conf,
                          std::uint64_t bytes) {
  return search_settings({.workload = workload,
                          .capacity = std::to_string(bytes) + "B",
                          .confs = {conf},
                          .finds_least = false})
      .settings.front()
      .oom_count;
}

// A trace with one large request on each of so many streams.
// Streams that a setting has addresses for: each reserves 9/8 of the device, 0.15 TiB. simcuda's
// area has 40 TiB, under ThreadSanitizer 15.
#ifdef __SANITIZE_THREAD__
constexpr int kManyStreams = 20;
#else
constexpr int kManyStreams = 100;
#endif

std::string many_streams(int count) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("allocmark_streams_" + std::to_string(getpid()) + "_" + std::to_string(count) + ".csv"))
          .string();
  std::ofstream file(path);
  file << "op,id,size,stream\n";
  for (int i = 0; i < count; ++i) file << "alloc," << i + 1 << ",20971520," << i << "\n";
  return path;
}

TEST_CASE("the least capacity is that of passes at every page around it") {
  for (const std::string conf :
       {"", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4"}) {
    const SearchResult result = search_settings({.workload = kJob, .confs = {conf}});
    const SettingFacts& facts = result.settings.front();
    INFO(conf);
    REQUIRE(facts.least_bytes.has_value());
    CHECK(facts.unsettled_bytes == 0);
    const std::uint64_t least_bytes = *facts.least_bytes;
    CHECK(failures_at(kJob, conf, least_bytes - kDevicePageBytes) > 0);
    for (std::uint64_t page = 0; page < 24; ++page) {
      CHECK(failures_at(kJob, conf, least_bytes + page * kDevicePageBytes) == 0);
    }
  }
}

TEST_CASE("a job of several processes is searched, each with an allocator of its own") {
  const std::string text = std::string(kJob) + " beside " + kJob;
  const SearchResult result =
      search_settings({.workload = text,
                       .confs = {"", "expandable_segments:True", "backend:cudaMallocAsync"},
                       .settle_count_max = 1});
  REQUIRE(result.settings.size() == 3);
  CHECK(result.needed_bytes > 0);
  CHECK(result.settings[0].least_bytes >= result.needed_bytes);
  CHECK(result.settings[0].failure.empty());
  // The driver's pools give each other memory, which real processes' do not.
  CHECK_FALSE(result.settings[2].failure.empty());
  CHECK(result.settings[2].oom_count == result.allocate_count);
}

TEST_CASE("two searches of the same find the same memory") {
  const SearchSpec spec{.workload = kJob, .confs = {"", "max_split_size_mb:64"}};
  const SearchResult one = search_settings(spec);
  const SearchResult two = search_settings(spec);
  for (std::size_t at = 0; at < one.settings.size(); ++at) {
    CHECK(one.settings[at].least_bytes == two.settings[at].least_bytes);
  }
}

TEST_CASE("a search tells each setting that is done") {
  std::size_t told_count = 0;
  const SearchResult result = search_settings(
      {.workload = kJob, .confs = {"", "max_split_size_mb:64"}, .finds_least = false},
      [&](const SearchResult& one) {
        CHECK(one.settings.size() == 1);
        CHECK(one.needed_bytes > 0);
        ++told_count;
      });
  CHECK(told_count == result.settings.size());
}

TEST_CASE("a search passes on what a recording does not say") {
  const SearchResult result =
      search_settings({.workload = "file:tests/golden/snapshots/streams_recorded.pickle.gz",
                       .confs = {""},
                       .finds_least = false});
  REQUIRE(result.notes.size() == 2);
  CHECK(result.notes[0].starts_with("375 blocks were given back while another stream used them"));
  CHECK(search_settings({.workload = kJob, .confs = {""}, .finds_least = false}).notes.empty());
}

TEST_CASE("a search passes on what the job says of itself") {
  const SearchResult result =
      search_settings({.workload = "colocate:gpt2-124m,layers=1,cycles=1,steps=1,requests=1",
                       .confs = {},
                       .finds_least = false});
  REQUIRE(result.forbids.size() == 1);
  CHECK(result.forbids[0].key == "expandable_segments");
  CHECK(search_settings({.workload = "gpt2_beam", .confs = {}, .finds_least = false}).pytorch ==
        "2.11.0+cu130");
}

TEST_CASE("progress is told from the start, then a line per tenth") {
  const auto text_of = [](bool on_terminal, double seconds_per_unit) {
    char text[4096] = {};
    std::FILE* const out = fmemopen(text, sizeof text, "w");
    REQUIRE(out != nullptr);
    double seconds = 0;
    {
      SearchProgress progress(out, on_terminal, "searching", 20,
                              [&] { return seconds += seconds_per_unit; });
      for (int unit = 0; unit < 20; ++unit) progress.add(1);
    }
    std::fclose(out);
    return std::string(text);
  };
  CHECK(text_of(false, 0.1).empty());
  const std::string lines = text_of(false, 2);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 8);
  CHECK(lines.starts_with("searching: 30 %, about 28 s left\nsearching: 40 %, about 24 s left\n"));
  CHECK(lines.ends_with("searching: 100 %, about 0 s left\n"));
  CHECK(text_of(true, 0.1).find("searching: 5 %, about 2 s left") != std::string::npos);
}

TEST_CASE("a first line comes after 3 s although nothing is done, and then one a minute") {
  char text[4096] = {};
  std::FILE* const out = fmemopen(text, sizeof text, "w");
  REQUIRE(out != nullptr);
  double seconds = 0;
  {
    SearchProgress progress(out, false, "searching 40 settings", 40, [&] { return seconds; });
    for (seconds = 1; seconds <= 70; ++seconds) progress.tick();
    progress.add(1);
  }
  std::fclose(out);
  CHECK(std::string(text) ==
        "searching 40 settings: 0 % after 3 s\nsearching 40 settings: 0 % after 1 min 3 s\n");
}

TEST_CASE("what no pass measured is null to those who read it, not 0") {
  SearchResult result{.step_count = 3, .capacity_bytes = 7};
  result.settings.push_back({.conf = "", .oom_count = 0, .pass_count = 4, .least_bytes = 100});
  result.settings.push_back({.conf = "max_split_size_mb:128", .pass_count = 1});
  result.settings.push_back({.conf = "backend:cudaMallocAsync", .failure = "it aborted"});
  using Json = nlohmann::json;
  const Json fit = to_told_json(result, false);
  CHECK(fit["capacity_bytes"].is_null());
  for (const Json& setting : fit["settings"]) {
    for (const char* const name :
         {"oom_count", "peak_bytes", "driver_ns_per_step", "calls_per_step", "driver_ns"}) {
      INFO(name);
      CHECK(setting[name].is_null());
    }
  }
  CHECK(fit["settings"][0]["unsettled_bytes"] == 0);
  CHECK(fit["settings"][1]["unsettled_bytes"].is_null());

  const Json advise = to_told_json(result, true);
  CHECK(advise["capacity_bytes"] == 7);
  CHECK(advise["settings"][0]["oom_count"] == 0);
  CHECK(advise["settings"][0]["driver_ns_per_step"] == 0);
  CHECK(advise["settings"][2]["oom_count"].is_null());
}

TEST_CASE("the grid holds 16 and 40 settings, each once and none in conflict") {
  const std::vector<std::string> all = all_settings();
  CHECK(single_settings().size() == 16);
  CHECK(all.size() == 40);
  for (const std::string& conf : all) {
    CHECK(std::count(all.begin(), all.end(), conf) == 1);
    const bool both = conf.find("expandable") != conf.npos && conf.find("max_split") != conf.npos;
    CHECK_FALSE(both);
  }
}

TEST_CASE("a release is advised only what it knows") {
  const std::vector<std::string> old = all_settings(caching::require_rules("2.10", "test"));
  CHECK(old.size() > 30);
  for (const std::string& conf : old) {
    INFO(conf);
    CHECK_FALSE(find_backend("caching@2.10").check_conf(conf));
    CHECK(conf.find("large_segment_size_mb") == conf.npos);
  }
  CHECK(std::ranges::count(all_settings(), "large_segment_size_mb:64") == 1);
}

TEST_CASE("a capacity above the device is refused") {
  CHECK_THROWS_AS(search_settings({.workload = kJob, .capacity = "4TiB", .confs = {""}}),
                  UsageError);
}

// Last, as pages of destroyed streams stay with the device.
TEST_CASE("a setting that uses up the address space is told so, and the others have numbers") {
  // 9/8 of the device for each stream and pool: 600 streams are beyond any address space.
  const SearchResult result = search_settings({.workload = "file:" + many_streams(600),
                                               .capacity = "unlimited",
                                               .confs = {"expandable_segments:True", ""},
                                               .finds_least = false});
  CHECK(result.settings[0].failure.find("address space is used up") != std::string::npos);
  CHECK(result.settings[0].oom_count == 600);
  CHECK(result.settings[1].failure.empty());
  CHECK(result.settings[1].oom_count == 0);
  const SearchResult fewer = search_settings({.workload = "file:" + many_streams(kManyStreams),
                                              .capacity = "unlimited",
                                              .confs = {"expandable_segments:True"},
                                              .finds_least = false});
  CHECK(fewer.settings[0].failure.empty());
  CHECK(fewer.settings[0].oom_count == 0);
}

}  // namespace
}  // namespace allocmark
