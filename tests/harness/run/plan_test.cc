// The matrix of a run: the product, which config string goes to which allocator, shards, seeds, and
// the messages for whoever asks for something that does not exist.
#include "harness/core/run/plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"

namespace allocmark {
namespace {

std::optional<ErrorText> complain(std::string_view conf, std::string_view reason) {
  return ErrorText{.what = std::string(reason),
                   .where = "key of " + std::string(conf),
                   .wanted = "",
                   .got = "",
                   .next = ""};
}

// An allocator that needs a config string, which can follow its name.
PlanAllocator make_pluggable() {
  return {.name = "pluggable",
          .conf_keys = {"library", "malloc", "free"},
          .argument_keys = {"library", "malloc", "free"},
          .check_conf = [](std::string_view conf) {
            return conf.starts_with("library:") && conf.find("missing") == std::string_view::npos
                       ? std::nullopt
                       : complain(conf, "no library");
          }};
}

// Three allocators: one with two keys, one with another, one with none.
std::vector<PlanAllocator> make_known() {
  return {{.name = "caching",
           .conf_keys = {"max_split_size_mb", "garbage_collection_threshold"},
           .check_conf =
               [](std::string_view conf) {
                 return conf.starts_with("max_split_size_mb:") && !conf.ends_with(":bad") &&
                                conf.find(';') == std::string_view::npos
                            ? std::nullopt
                            : complain(conf, "caching cannot");
               }},
          {.name = "async",
           .conf_keys = {"release_threshold_mb"},
           .check_conf =
               [](std::string_view conf) {
                 return conf.starts_with("release_threshold_mb:") ? std::nullopt
                                                                  : complain(conf, "async cannot");
               }},
          {.name = "native", .conf_keys = {}, .check_conf = [](std::string_view conf) {
             return complain(conf, "native has no keys");
           }}};
}

PlanRequest make_request() {
  PlanRequest request;
  request.workloads = {{.text = "w1", .recorded = true}, {.text = "w2", .recorded = false}};
  request.allocators = {"native", "caching", "async"};
  request.capacities = {"unlimited", "1.05x"};
  request.seeds = {1};
  request.device = "sim:h200";
  return request;
}

std::string error_of_plan(const PlanRequest& request) {
  try {
    static_cast<void>(make_plan(request, make_known()));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::uint64_t count(const Plan& plan, const std::string& allocator, const std::string& conf) {
  return static_cast<std::uint64_t>(std::count_if(
      plan.cells.begin(), plan.cells.end(),
      [&](const CellKey& key) { return key.allocator == allocator && key.conf == conf; }));
}

TEST_CASE("a plan is the product of its axes") {
  const Plan plan = make_plan(make_request(), make_known());
  REQUIRE(plan.cells.size() == 12);
  CHECK(plan.notes.empty());
  CHECK(plan.cells.front().workload == "w1");
  CHECK(plan.cells.front().allocator == "native");
  CHECK(plan.cells.front().conf.empty());
  CHECK(plan.cells.front().device == "sim:h200");
  CHECK(plan.cells.front().on_oom == "skip");
  CHECK(plan.cells.back().workload == "w2");
  CHECK(plan.cells.back().capacity == "1.05x");
}

TEST_CASE("caching without a release is the workload's own, by its explicit name") {
  std::vector<PlanAllocator> known = make_known();
  for (const char* name : {"caching@2.11", "caching@2.15"}) {
    known.push_back(known.front());
    known.back().name = name;
  }
  PlanRequest request = make_request();
  request.workloads = {{.text = "old", .recorded = true, .caching = "caching@2.11"},
                       {.text = "made", .recorded = true}};
  request.capacities = {"unlimited"};
  request.allocators = {"caching", "native"};
  request.confs = {"unset", "caching=max_split_size_mb:1"};
  const Plan plan = make_plan(request, known);
  REQUIRE(plan.cells.size() == 6);
  CHECK(count(plan, "caching@2.11", "") == 1);
  CHECK(count(plan, "caching@2.11", "max_split_size_mb:1") == 1);
  CHECK(count(plan, "caching", "max_split_size_mb:1") == 1);
  CHECK(plan.cells.front().allocator == "caching@2.11");
  CHECK(plan.cells.back().workload == "made");
  CHECK(plan.notes.empty());
  // A release that is named stays, and one that was named besides is not planned twice.
  request.workloads.pop_back();
  request.allocators = {"caching", "caching@2.11", "caching@2.15"};
  request.confs = {};
  const Plan named = make_plan(request, known);
  CHECK(named.cells.size() == 2);
  CHECK(count(named, "caching@2.15", "") == 1);
  request.allocators = {"caching@2.15"};
  request.confs = {"caching=max_split_size_mb:1"};
  CHECK_THROWS_AS(make_plan(request, known), UsageError);
}

TEST_CASE("what is left out is counted over workloads of all releases") {
  std::vector<PlanAllocator> known = make_known();
  known.push_back(known.front());
  known.back().name = "caching@2.11";
  PlanRequest request = make_request();
  request.workloads = {{.text = "old", .recorded = true, .caching = "caching@2.11"},
                       {.text = "made", .recorded = true}};
  request.allocators = {"caching", "async"};
  request.confs = {"max_split_size_mb:1", "unset"};
  const Plan plan = make_plan(request, known);
  CHECK(plan.cells.size() == 12);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes.front().find("4 combinations") != std::string::npos);
}

TEST_CASE("an allocator can come with its config string, which is then its only one") {
  std::vector<PlanAllocator> known = make_known();
  known.push_back(make_pluggable());
  PlanRequest request = make_request();
  request.allocators = {"native", "pluggable:a.so,m", "pluggable:b c.so", "pluggable:a.so,m"};
  const Plan plan = make_plan(request, known);
  CHECK(plan.cells.size() == 12);
  CHECK(count(plan, "pluggable", "library:a.so,malloc:m") == 4);
  CHECK(count(plan, "pluggable", "library:[b c.so]") == 4);
  CHECK(count(plan, "native", "") == 4);
  request.allocators = {"caching", "pluggable:a.so"};
  request.confs = {"unset", "max_split_size_mb:1", "pluggable=library:b.so"};
  CHECK_THROWS_AS(make_plan(request, known), UsageError);  // the last has nobody to go to
  request.allocators = {"caching", "pluggable"};
  const Plan mixed = make_plan(request, known);
  CHECK(count(mixed, "caching", "") == 4);
  CHECK(count(mixed, "caching", "max_split_size_mb:1") == 4);
  CHECK(count(mixed, "pluggable", "library:b.so") == 4);
  CHECK(mixed.cells.size() == 12);
}

TEST_CASE("an allocator that needs a config string says so before anything runs") {
  std::vector<PlanAllocator> known = make_known();
  known.push_back(make_pluggable());
  const auto message = [&](const std::vector<std::string>& allocators) -> std::string {
    PlanRequest request = make_request();
    request.allocators = allocators;
    try {
      static_cast<void>(make_plan(request, known));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  CHECK(message({"native", "pluggable"}).find("no library") != std::string::npos);
  CHECK(message({"pluggable"}).find("no library") != std::string::npos);
  CHECK(message({"pluggable:missing.so"}).find("no library") != std::string::npos);
  CHECK(message({"pluggable:a,b,c,d"}).find("too many values") != std::string::npos);
  CHECK(message({"native:a"}).find("takes nothing") != std::string::npos);
  CHECK(message({"plugable:a"}).find("pluggable") != std::string::npos);
}

TEST_CASE("recorded workloads have one seed, generated ones all") {
  PlanRequest request = make_request();
  request.allocators = {"native"};
  request.capacities = {"unlimited"};
  request.seeds = {4, 9};
  const Plan plan = make_plan(request, make_known());
  REQUIRE(plan.cells.size() == 3);
  CHECK(plan.cells[0].seed == 0);
  CHECK(plan.cells[1].seed == 4);
  CHECK(plan.cells[2].seed == 9);
}

TEST_CASE(
    "a config string goes only to allocators that accept it, and the plan says what is left out") {
  PlanRequest request = make_request();
  request.confs = {"unset", "max_split_size_mb:32", "release_threshold_mb:1"};
  const Plan plan = make_plan(request, make_known());
  CHECK(plan.cells.size() == 5 * 4);
  CHECK(count(plan, "native", "") == 4);
  CHECK(count(plan, "caching", "max_split_size_mb:32") == 4);
  CHECK(count(plan, "async", "max_split_size_mb:32") == 0);
  CHECK(count(plan, "async", "release_threshold_mb:1") == 4);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0].find("left out: 16 combinations") == 0);
  CHECK(plan.notes[0].find("'max_split_size_mb:32' only with caching") != std::string::npos);
}

TEST_CASE("an allocator that no config string fits is named") {
  PlanRequest request = make_request();
  request.confs = {"max_split_size_mb:32"};
  const Plan plan = make_plan(request, make_known());
  CHECK(plan.cells.size() == 4);
  REQUIRE(plan.notes.size() == 3);
  CHECK(plan.notes[1].find("allocator native altogether") != std::string::npos);
}

TEST_CASE("a scoped config string goes to its allocator alone") {
  PlanRequest request = make_request();
  request.confs = {"", "caching=max_split_size_mb:32", "async=unset"};
  const Plan plan = make_plan(request, make_known());
  CHECK(count(plan, "caching", "max_split_size_mb:32") == 4);
  CHECK(count(plan, "caching", "") == 4);
  CHECK(count(plan, "async", "") == 4);
  CHECK(plan.cells.size() == 16);
  CHECK(plan.notes.empty());

  request.confs = {"cachin=max_split_size_mb:32"};
  CHECK(error_of_plan(request).find("caching") != std::string::npos);
  request.allocators = {"native"};
  request.confs = {"caching=max_split_size_mb:32"};
  CHECK(error_of_plan(request).find("add --allocator caching") != std::string::npos);
}

TEST_CASE(
    "a config string that nobody accepts shows the complaint of the allocator whose keys it has") {
  PlanRequest request = make_request();
  request.confs = {"max_split_size_mb:128;garbage_interval:5"};
  const std::string one = error_of_plan(request);
  CHECK(one.find("caching cannot") != std::string::npos);
  CHECK(one.find("async cannot") == std::string::npos);

  request.confs = {"not_a_key_at_all:1"};
  const std::string all = error_of_plan(request);
  CHECK(all.find("caching cannot") != std::string::npos);
  CHECK(all.find("async cannot") != std::string::npos);
  CHECK(all.find("native has no keys") != std::string::npos);
}

TEST_CASE("unknown allocators and bad capacities are refused with what is allowed") {
  PlanRequest request = make_request();
  request.allocators = {"cachign"};
  CHECK(error_of_plan(request).find("caching") != std::string::npos);
  for (const char* text : {"2y", "-1x", "0x", "x", "nanx", "12QiB"}) {
    request = make_request();
    request.capacities = {text};
    INFO(text);
    CHECK(error_of_plan(request) != "no error");
  }
}

TEST_CASE("asking twice for the same cell gives it once") {
  PlanRequest request = make_request();
  request.workloads = {{.text = "w1", .recorded = true}, {.text = "w1", .recorded = true}};
  request.allocators = {"native", "native"};
  const Plan plan = make_plan(request, make_known());
  CHECK(plan.cells.size() == 2);
  CHECK(plan.notes.size() == 1);
}

TEST_CASE("shards are disjoint and complete") {
  PlanRequest request = make_request();
  request.seeds = {1, 2, 3, 4, 5};
  const std::vector<CellKey> cells = make_plan(request, make_known()).cells;
  for (const std::uint64_t part_count : {1u, 2u, 7u, 36u, 50u}) {
    std::set<std::string> ids;
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < part_count; ++i) {
      for (const CellKey& key : take_shard(cells, {.index = i, .count = part_count})) {
        ids.insert(key.id());
        ++total;
      }
    }
    INFO(part_count);
    CHECK(ids.size() == 36);
    CHECK(total == 36);
  }
}

TEST_CASE("NAME=CONF is split where a name stands, and nowhere inside of a config string") {
  CHECK(split_scope("caching=max_split_size_mb:32").allocator == "caching");
  CHECK(split_scope("caching=max_split_size_mb:32").conf == "max_split_size_mb:32");
  CHECK(split_scope("path:/a=b").allocator.empty());
  CHECK(split_scope("path:/a=b").conf == "path:/a=b");
  CHECK(split_scope("unset").conf == "unset");
  CHECK(split_scope("native=").allocator == "native");
}

TEST_CASE("an edited scenario is another cell") {
  const auto only_cell = [](const std::string& definition) {
    PlanRequest request = make_request();
    request.workloads = {{.text = "one", .recorded = false, .definition = definition}};
    request.allocators = {"native"};
    request.capacities = {"unlimited"};
    request.seeds = {1};
    request.confs = {};
    return make_plan(request, make_known()).cells.at(0);
  };
  const CellKey before = only_cell("comb:count=4");
  CHECK(before.workload == "one");
  CHECK(before.workload_text() == "comb:count=4");
  CHECK(before.id() == only_cell("comb:count=4").id());
  CHECK(before.id() != only_cell("comb:count=6").id());
  CHECK(before.id() != only_cell("").id());
}

TEST_CASE("shard texts are i/n and nothing else") {
  CHECK(parse_shard("1/1").index == 0);
  CHECK(parse_shard("3/8").index == 2);
  CHECK(parse_shard("3/8").count == 8);
  for (const char* text : {"", "/", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/ 2"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_shard(text), UsageError);
  }
}

TEST_CASE("seed texts are a count, a list or ranges") {
  using Seeds = std::vector<std::uint64_t>;
  CHECK(parse_seeds("3") == Seeds{1, 2, 3});
  CHECK(parse_seeds("5,9") == Seeds{5, 9});
  CHECK(parse_seeds("5-7,1") == Seeds{5, 6, 7, 1});
  CHECK(parse_seeds("7-7") == Seeds{7});
  CHECK(parse_seeds("18446744073709551615-18446744073709551615").size() == 1);
  for (const char* text : {"", "0", "a", "1,", ",1", "3-1", "-1", "1-", "1000000000",
                           "0-18446744073709551615", "18446744073709551616,1"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_seeds(text), UsageError);
  }
}

}  // namespace
}  // namespace allocmark
