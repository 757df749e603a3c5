// Goal: what is written is read back exactly, and nothing else is taken for it. Method: write
// sample.h's full structs, read them, write again and compare the text; then damage lines one way
// at a time.
#include "results/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/sample.h"
#include "tests/support/text_checks.h"

using namespace allocmark;
using nlohmann::json;

namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The message of the error that reading the line gives; empty where there is none.
std::string cell_error(std::string_view line) {
  try {
    (void)cell_result_from_json(line, "r.jsonl:7");
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

// Adds the paths of values that are as in a result in which nothing was set.
void add_unset(const json& value, const json& unset, const std::string& path,
               std::vector<std::string>& paths) {
  if (!value.is_structured() || value.empty() || (value.is_array() && !value[0].is_object())) {
    const bool is_kind = path.ends_with("/kind") || path.ends_with("/schema_version");
    if (value.is_null() || (value == unset && !is_kind)) paths.push_back(path);
    return;
  }
  const auto items = value.items();
  for (const auto& [key, item] : items) {
    const bool there = unset.is_array() ? !unset.empty() : unset.contains(key);
    const json none;
    add_unset(item,
              !there             ? none
              : unset.is_array() ? unset[0]
                                 : unset[key],
              path + "/" + key, paths);
  }
}

}  // namespace

TEST_CASE("every field of the sample is set, so that one that is lost on its way shows") {
  CellResult unset;
  unset.oom_first = OomEvent{};
  unset.growth = MemoryGrowth{};
  unset.requests = RequestLatency{};
  unset.passes = {PassSummary{}};
  unset.size_classes = {SizeClassLatency{}};
  std::vector<std::string> paths;
  add_unset(json::parse(to_json_line(sample::cell())), json::parse(to_json_line(unset)), "cell",
            paths);
  add_unset(json::parse(to_json_line(sample::environment())),
            json::parse(to_json_line(Environment{})), "environment", paths);
  CHECK(paths == std::vector<std::string>{});
}

TEST_CASE("histograms are read in the quick way and by the parser alike") {
  CellResult cell = sample::cell();
  REQUIRE(!cell.passes.empty());
  cell.passes[0].allocate_buckets = {{.index = 0, .count = 7}, {.index = 640, .count = 1}};
  const std::string line = to_json_line(cell);
  // A blank is JSON, and not as we write it.
  const std::string spaced =
      replaced(line, "\"allocate_latency_histogram\":[", "\"allocate_latency_histogram\": [");
  CHECK(cell_result_from_json(line, "r").passes[0].allocate_buckets ==
        cell.passes[0].allocate_buckets);
  CHECK(to_json_line(cell_result_from_json(spaced, "r")) == line);
  const auto with_list = [&](const char* list) {
    return cell_error(replaced(line, "_latency_histogram\":[0,7,640,1]",
                               std::string("_latency_histogram\":") + list));
  };
  for (const char* list : {"[0,7,0,1]", "[0,0]", "[0]", "[]", "[0,7,99999,1]", "[0,7,-1,1]", "7",
                           "[[0,7]]", "[0,18446744073709551615,1,1]", "[0,18446744073709551616]",
                           "[300,1000000000000000000]", "[0,1099511627776,1,1]", "[0,7,640,1"}) {
    INFO(list);
    const std::string error = with_list(list);
    const bool named = error.find("histogram") != std::string::npos;
    CHECK((named || error.find("no whole JSON") != std::string::npos));
  }
}

TEST_CASE("a list among the counters is no histogram, whatever it is called") {
  CellResult cell = sample::cell();
  cell.counters = {{"a_histogram", 5}};
  const std::string line = to_json_line(cell);
  CHECK(cell_error(replaced(line, "\"a_histogram\":5", "\"a_histogram\":[1,2]"))
            .find("counters.a_histogram") != std::string::npos);
}

TEST_CASE("a cell read back from its line is written as the same line") {
  const std::string line = to_json_line(sample::cell());
  const CellResult read = cell_result_from_json(line, "r.jsonl:2");
  CHECK(to_json_line(read) == line);
  CHECK(read.key == sample::key());
  CHECK(read.status == CellStatus::OomStopped);
  CHECK(read.capacity_bytes == 9007199254740993u);
  CHECK(read.oom_first->stream == 4294967295u);
  CHECK(read.oom_cause_counts ==
        std::vector<std::uint64_t>{21, 22, 23, 24, 25, 26, 27, 28, 29, 30});
  CHECK(read.deallocate.driver.p999_ns == 1800);
  CHECK(read.counters[1] == std::pair<std::string, std::int64_t>{"drift", -4});
  CHECK(read.size_classes[0].allocate.total.p99_ns == 900);
  CHECK(read.passes[0].wall_ns == 4.5);
  CHECK(read.passes[0].allocator_ns_per_step == 123.25);
  CHECK(read.passes[0].request_latency_ns_p99 == 2.25e6);
  CHECK(read.passes[0].allocate_buckets ==
        LatencyBuckets{{.index = 0, .count = 3}, {.index = 2751, .count = 357}});
  CHECK(read.passes[0].deallocate_buckets == LatencyBuckets{{.index = 640, .count = 240}});
}

TEST_CASE("an environment and a key read back from their lines are written as the same lines") {
  const std::string line = to_json_line(sample::environment());
  CHECK(to_json_line(environment_from_json(line, "r.jsonl:1")) == line);
  const std::string key_line = to_json_line(sample::key());
  CHECK(cell_key_from_json(key_line, "pipe:1") == sample::key());
}

TEST_CASE("what is not known is null and is read back as not known") {
  CellResult cell = sample::cell();
  cell.reserved_bytes_peak.reset();
  cell.oom_first.reset();
  cell.allocate.total = {};
  cell.allocator_ns_per_step = 0;
  const std::string line = to_json_line(cell);
  CHECK(contains(line, "\"reserved_bytes_peak\":null"));
  CHECK(contains(line, "\"oom_first\":null"));
  CHECK(contains(line, "\"allocate_latency_count\":0,\"allocate_latency_ns_p50\":null"));
  CHECK(contains(line, "\"allocator_ns_per_step\":null"));
  const CellResult read = cell_result_from_json(line, "r.jsonl:2");
  CHECK_FALSE(read.reserved_bytes_peak.has_value());
  CHECK_FALSE(read.oom_first.has_value());
  CHECK(read.allocate.total.p50_ns == 0);
  CHECK(read.allocator_ns_per_step == 0);
}

TEST_CASE("numbers that are not finite are written as null, never as NaN or Infinity") {
  CellResult cell = sample::cell();
  cell.wall_s = std::numeric_limits<double>::infinity();
  cell.allocate.total.p99_ns = std::numeric_limits<double>::quiet_NaN();
  const std::string line = to_json_line(cell);
  CHECK(contains(line, "\"wall_s\":null"));
  CHECK(contains(line, "\"allocate_latency_ns_p99\":null"));
  CHECK(std::isnan(cell_result_from_json(line, "r.jsonl:2").wall_s));
}

TEST_CASE("hostile names stay on one line and come back unchanged, bad UTF-8 is replaced") {
  CellResult cell = sample::cell();
  cell.key.workload = "a|b\n<script>,\"x\"\r\t\\";
  const std::string line = to_json_line(cell);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(cell_result_from_json(line, "r.jsonl:2").key.workload == cell.key.workload);

  cell.key.workload = "file:\xff\xfe.csv";
  const CellResult read = cell_result_from_json(to_json_line(cell), "r.jsonl:2");
  CHECK(read.key.workload == "file:\xEF\xBF\xBD\xEF\xBF\xBD.csv");
  CHECK(read.key.id() == cell.key.id());
}

TEST_CASE("a cell id is stable across versions and differs where any field of the key differs") {
  CHECK(CellKey{}.id() == "453d36330800ac71");
  CHECK(sample::key().id() == "7db1804f80853877");
  CHECK(sample::key().id_by_name() == "2bf54ba4e79c4cbb");
  std::set<std::string> ids{sample::key().id()};
  for (std::string CellKey::*field : {&CellKey::workload, &CellKey::allocator, &CellKey::conf,
                                      &CellKey::device, &CellKey::capacity, &CellKey::on_oom,
                                      &CellKey::workload_definition, &CellKey::workload_files}) {
    CellKey changed = sample::key();
    changed.*field += "x";
    ids.insert(changed.id());
  }
  CellKey changed = sample::key();
  changed.seed = 1;
  ids.insert(changed.id());
  changed = sample::key();
  std::swap(changed.workload, changed.allocator);
  ids.insert(changed.id());
  CellKey split;
  split.workload = "a", split.allocator = "b";
  ids.insert(split.id());
  split.workload = "ab", split.allocator = "";
  ids.insert(split.id());
  CHECK(ids.size() == 13);
}

TEST_CASE("every cut of a line is an error that names the file and line") {
  const std::string line = to_json_line(sample::cell());
  for (std::size_t length = 0; length < line.size(); length += 17) {
    CHECK(contains(cell_error(line.substr(0, length)), "r.jsonl:7: "));
  }
}

TEST_CASE("histograms that no run can have are refused, and lines of schema 1.0 have none") {
  const std::string line = to_json_line(sample::cell());
  const std::string good = "\"allocate_latency_histogram\":[0,3,2751,357]";
  for (const char* bad : {"[]", "[1]", "[0,3,2752,357]", "[0,3,0,357]", "[0,0]", "[-1,3]", "{}",
                          "[0,3,1,18446744073709551615]", "[4294967295,3]", "[0,1.5]",
                          "[300,1000000000000000000]", "[0,1099511627776,1,1]"}) {
    INFO(bad);
    CHECK(contains(
        cell_error(replaced(line, good, std::string("\"allocate_latency_histogram\":") + bad)),
        "'passes[0].allocate_latency_histogram'"));
  }
  const std::string old = replaced(line, "," + good, "");
  CHECK(cell_error(old).empty());
}

TEST_CASE("passes of schema before 1.4 do not store what they cost") {
  const std::string line = to_json_line(sample::cell());
  const std::string old =
      replaced(line,
               ",\"allocator_ns_per_step\":123.25,\"allocator_scaled_ns_per_step\":130.5,"
               "\"request_latency_ns_p99\":2250000.0",
               "");
  const CellResult read = cell_result_from_json(old, "r.jsonl:7");
  CHECK(read.passes[0].allocator_ns_per_step == 0);
  CHECK(read.passes[0].request_latency_ns_p99 == 0);
}

TEST_CASE("wrong types, ranges, names and missing keys are named") {
  const std::string line = to_json_line(sample::cell());
  CHECK(contains(cell_error(replaced(line, "\"oom_count\":255", "\"oom_count\":-255")),
                 "'oom_count'"));
  CHECK(contains(cell_error(replaced(line, "\"oom_count\":255", "\"oom_count\":\"3\"")),
                 "got \"3\""));
  CHECK(contains(cell_error(replaced(line, "\"oom_count\":255", "\"oom_count\":3.5")),
                 "whole number"));
  CHECK(
      contains(cell_error(replaced(line, "\"oom_count\":255", "\"oom_count\":null")), "got null"));
  CHECK(contains(cell_error(replaced(line, "\"pass_count\":6", "\"pass_count\":4294967296")),
                 "4294967295"));
  CHECK(contains(cell_error(replaced(line, "\"oom_stopped\"", "\"fine\"")),
                 "one of ok, oom_stopped"));
  CHECK(contains(cell_error(replaced(line, "\"oom_count\":255,", "")), "'oom_count' is missing"));
  CHECK(contains(cell_error(replaced(line, "\"id\":9", "\"id\":[]")), "'oom_first.id'"));
  CHECK(contains(cell_error(replaced(line, "\"wall_s\":0.03", "\"wall_s\":1e999")), "r.jsonl:7"));
  CHECK(contains(cell_error(replaced(line, "\"drift\":-4", "\"drift\":18446744073709551615")),
                 "'counters.drift'"));
  CHECK(contains(cell_error(replaced(line, "\"stop\"", "\"skip\"")), "cell_id"));
  CHECK(contains(cell_error("[1]"), "no JSON object"));
  CHECK(contains(cell_error(to_json_line(sample::environment())), "another kind"));
  CHECK(contains(cell_error(std::string(100000, '[')), "r.jsonl:7"));
}

TEST_CASE(
    "unknown keys are taken from a newer minor version only, another major version is refused") {
  const std::string version = "\"" + std::string(kSchemaVersion) + "\"";
  const std::string line = to_json_line(sample::cell());
  const std::string extended =
      replaced(line, "\"oom_count\":255", "\"oom_count\":3,\"new_metric\":1");
  CHECK(contains(cell_error(extended), "'new_metric' is not known"));
  CHECK(cell_error(replaced(extended, version, "\"1.999.0\"")).empty());
  CHECK(contains(cell_error(replaced(line, version, "\"2.0.0\"")), "another schema version"));
  CHECK(contains(cell_error(replaced(line, version, "\"1.0\"")), "another schema version"));
  CHECK(contains(cell_error(replaced(line, version, "1")), "another schema version"));
}

TEST_CASE("a line of an older minor version may lack nullable keys") {
  const std::string line = to_json_line(sample::cell());
  const CellResult read =
      cell_result_from_json(replaced(line, "\"retry_count\":1,", ""), "r.jsonl:7");
  CHECK_FALSE(read.retry_count.has_value());
}

TEST_CASE("a line's kind is found without reading the line fully") {
  CHECK(json_line_kind(to_json_line(sample::environment())) == "environment");
  CHECK(json_line_kind(to_json_line(sample::cell())) == "cell");
  CHECK_FALSE(json_line_kind("{\"kind\":").has_value());
  CHECK_FALSE(json_line_kind("{\"kind\":3}").has_value());
}

TEST_CASE("statuses and causes have names that lead back to them") {
  for (const char* name :
       {"ok", "oom_stopped", "skipped", "failed", "crashed", "timed_out", "interrupted"}) {
    CHECK(to_string(parse_cell_status(name).value()) == name);
  }
  for (const char* name :
       {"capacity", "rounding", "stranded", "fragmentation", "unknown", "pending"}) {
    CHECK(to_string(parse_oom_cause(name).value()) == name);
  }
  CHECK_FALSE(parse_cell_status("OK").has_value());
}

TEST_CASE("what a scenario said and a trace file held is stored, and old lines keep their id") {
  CellKey key;
  key.workload = "w";
  key.allocator = "null";
  key.device = "sim:h200";
  key.capacity = "unlimited";
  const std::string old_line = to_json_line(key);
  CHECK(old_line.find("workload_definition") == std::string::npos);
  CHECK(old_line.find("0ba9f66b0ef348df") != std::string::npos);
  key.workload_definition = "comb:count=4";
  const std::string line = to_json_line(key);
  CHECK(cell_key_from_json(line, "line") == key);
  CHECK(cell_key_from_json(line, "line").id() != cell_key_from_json(old_line, "line").id());
  key.workload_definition.clear();
  key.workload_files = "comb:count=4";
  CHECK(cell_key_from_json(to_json_line(key), "line") == key);
  CHECK(key.id() != cell_key_from_json(line, "line").id());
}
