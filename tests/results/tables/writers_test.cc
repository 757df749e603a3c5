// Goal: what people and programs read is right, aligned and cannot be broken by names or by numbers
// that are not defined. Method: goldens of a small run with every case (sample_run.h), and rules
// checked on them.
#include "results/tables/writers.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/streams.h"
#include "results/columns/text.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/golden.h"
#include "tests/support/sample_run.h"
#include "tests/support/tables.h"
#include "tests/support/text_checks.h"

using namespace allocmark;

namespace {

constexpr const char* kCommand = "allocmark run --workload 'a b' --conf 'x:1,y:2'";

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Rows and fields of CSV text, by RFC 4180.
std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (quoted && byte == '"' && at + 1 < text.size() && text[at + 1] == '"') {
      rows.back().back() += text[++at];
    } else if (byte == '"') {
      quoted = !quoted;
    } else if (!quoted && byte == ',') {
      rows.back().emplace_back();
    } else if (!quoted && byte == '\n') {
      rows.emplace_back(1);
    } else {
      rows.back().back() += byte;
    }
  }
  rows.pop_back();
  return rows;
}

std::vector<std::string> all_texts(const std::vector<CellResult>& cells) {
  return {render_table(cells), render_markdown(sample::environment(), cells, kCommand),
          render_csv(cells), render_google_benchmark(sample::environment(), cells)};
}

// Whether "nan" or "inf" stands somewhere as a number, in any case.
bool has_not_finite(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  for (const char* word : {"nan", "inf"}) {
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) {
      const bool begins = at == 0 || !std::isalpha(static_cast<unsigned char>(text[at - 1]));
      const bool ends =
          at + 3 >= text.size() || !std::isalpha(static_cast<unsigned char>(text[at + 3]));
      if (begins && ends) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("the table is as approved") { check_golden("table.txt", render_table(sample::run())); }

TEST_CASE("the report is as approved") {
  check_golden("report.md", render_markdown(sample::environment(), sample::run(), kCommand));
}

TEST_CASE("the CSV is as approved") { check_golden("results.csv", render_csv(sample::run())); }

TEST_CASE("the Google Benchmark export is as approved") {
  check_golden("google_benchmark.json",
               render_google_benchmark(sample::environment(), sample::run()));
}

TEST_CASE("the stored lines are as approved") {
  std::string text =
      to_json_line(sample::environment()) + '\n' + to_json_line(sample::cell()) + '\n';
  for (const CellResult& cell : sample::run()) text += to_json_line(cell) + '\n';
  check_golden("results.jsonl", text);
}

namespace {

// Extreme values, and steps and requests in some cells.
std::vector<CellResult> wide_cells() {
  std::vector<CellResult> cells = sample::run();
  cells[0].allocate.total.p99_ns = 1e17;
  cells[0].requested_bytes_peak = std::numeric_limits<std::uint64_t>::max();
  cells[0].oom_count = std::numeric_limits<std::uint64_t>::max();
  cells[1].key.allocator = std::string(300, 'a');
  cells[2].key.conf = std::string(1000, 'c');
  for (CellResult& cell : cells) cell.allocator_ns_per_step = 16'234'567;
  return cells;
}

}  // namespace

TEST_CASE("no line of a table is wider than its terminal or holds control characters") {
  const std::vector<CellResult> cells = wide_cells();
  for (const std::size_t width : {40U, 60U, 80U, 100U, 132U, 160U, 200U}) {
    for (const std::string& line : lines_of(render_table(cells, {.width = width, .all = false}))) {
      INFO(width << ": " << line);
      CHECK(display_width(line) <= width);
      CHECK(std::none_of(line.begin(), line.end(),
                         [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; }));
    }
  }
}

TEST_CASE("a narrow table leaves out whole columns, those that matter least first, and says so") {
  std::vector<CellResult> cells = sample::run();
  for (CellResult& cell : cells) {
    cell.allocator_ns_per_step = 16'234'567;
    cell.packed_bytes = cell.rounded_bytes_peak = cell.requested_bytes_peak;
  }
  const std::string narrow =
      render_table(cells, {.width = 80, .all = false, .all_columns = "here/table.txt"});
  CHECK(contains(narrow, " 16.235 "));
  CHECK(contains(narrow, "Left out at 80 columns: "));
  CHECK(contains(narrow, "here/table.txt"));
  CHECK_FALSE(contains(narrow, "P99.9\n"));
  // From width to width columns are only added, and the costs are always there.
  std::set<std::string> before;
  for (const std::size_t width : {80U, 100U, 120U, 140U, 200U}) {
    const std::string table = render_table(cells, {.width = width, .all = false});
    std::set<std::string> shown;
    for (const char* name : {"per step", "OOM", "allocate", "free", "requested", "reserved",
                             "waste", "regret", "calls"}) {
      if (contains(table.substr(0, table.find("caching")), name)) shown.insert(name);
    }
    INFO(width);
    CHECK(shown.contains("per step"));
    CHECK(shown.contains("OOM"));
    CHECK(std::ranges::includes(shown, before));
    before = shown;
  }
  CHECK(before.size() == 9);
  CHECK_FALSE(contains(render_table(cells, {.width = 200, .all = false}), "Left out"));
  CHECK_FALSE(contains(render_table(wide_cells()), "Left out"));
}

TEST_CASE("a table has one unit of time for calls, and one for what is waited for") {
  std::vector<CellResult> cells = sample::run();
  for (const double fast_ns : {3.0, 3e4, 3e8}) {
    cells[0].allocate.total.p99_ns = fast_ns;
    const std::string table = render_table(cells);
    CHECK(contains(table, " us "));
    CHECK_FALSE(contains(table.substr(0, table.find("The harness")), " ns"));
  }
}

TEST_CASE("scaled values stand beside those measured where the host is of another speed") {
  const auto table = [](double scale, double scaled_ns) {
    std::vector<CellResult> cells = sample::run();
    for (CellResult& cell : cells) {
      cell.host_scale = scale;
      cell.scaled = {.allocate_p50_ns = scaled_ns};
    }
    return render_table(cells);
  };
  CHECK(contains(table(0.5, 123'456), "123.456"));
  CHECK(contains(table(0.5, 123'456), "as on the host of the card"));
  CHECK(contains(table(0.5, 123'456), "and times per step have it"));
  CHECK(contains(table(1.5, 123'456), "P50 at card"));
  CHECK_FALSE(contains(table(0.95, 123'456), "at card"));
  CHECK_FALSE(contains(table(0, 0), "at card"));
}

TEST_CASE("what private pools strand has a column where a cell has pools") {
  std::vector<CellResult> cells = sample::run();
  CHECK_FALSE(contains(render_table(cells), "stranded"));
  const auto measured = std::ranges::find_if(
      cells, [](const CellResult& cell) { return cell.status == CellStatus::Ok; });
  REQUIRE(measured != cells.end());
  constexpr std::int64_t kStrandedBytes = 1234 * (1 << 20) + (1 << 19);
  measured->counters.emplace_back("private_pools.stranded_bytes_peak", kStrandedBytes);
  CHECK(contains(render_table(cells), "stranded"));
  CHECK(contains(render_table(cells), " 1234.5 "));
}

TEST_CASE("readers get words for a cause of an OOM, not the name under which it is stored") {
  std::vector<CellResult> cells = sample::run();
  cells[0].oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 1);
  cells[0].oom_count = kOomCauseCount;
  cells[0].oom_first->cause = OomCause::Stranded;
  const std::string markdown = render_markdown(sample::environment(), cells, kCommand);
  const std::string table = render_table(cells);
  for (const std::string& text : {markdown, table}) {
    CHECK(contains(text, "kept for other streams"));
    CHECK(contains(text, "waits for events 1"));
    for (const char* const stored : {"stranded", "pending", "other_process"}) {
      INFO(stored);
      CHECK_FALSE(contains(text, stored));
    }
  }
}

TEST_CASE(
    "a config string is cut after commas, else between words, and a number stays with its unit") {
  using Lines = std::vector<std::string>;
  CHECK(wrap_conf("max_split_size_mb:32,garbage_collection_threshold:0.8", 24) ==
        Lines{"max_split_size_mb:32,", "garbage_collection_", "threshold:0.8"});
  CHECK(wrap_conf("aaaaaaaaaa", 4) == Lines{"aaaa", "aaaa", "aa"});
  CHECK(wrap_words("a card (23.5 GiB), now", 16) == "a card\n(23.5 GiB), now");
}

TEST_CASE("no cells give texts that say so") {
  const std::vector<CellResult> none;
  CHECK(render_table(none) == "No cells: nothing was measured.\n");
  CHECK(contains(render_markdown(sample::environment(), none, kCommand), "0 of 0 cells measured"));
  CHECK(parse_csv(render_csv(none)).size() == 1);
  const auto file = nlohmann::json::parse(render_google_benchmark(sample::environment(), none));
  CHECK(file["benchmarks"].empty());
}

TEST_CASE("what is not defined is never printed as a number") {
  std::vector<CellResult> cells = sample::run();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (CellResult& cell : cells) {
    cell.allocate.total.p50_ns = nan;
    cell.allocate.total.p99_ns = infinity;
    cell.deallocate.total.p50_ns = -infinity;
    cell.passes.assign(3, {.allocate_p50_ns = nan,
                           .allocate_p99_ns = infinity,
                           .deallocate_p50_ns = nan,
                           .wall_ns = nan});
    cell.harness_overhead_ns_p50 = nan;
    cell.modelled_driver_ns_total = infinity;
    cell.wall_s = nan;
  }
  for (const std::string& text : all_texts(cells)) CHECK_FALSE(has_not_finite(text));
  cells = {CellResult{}};
  for (const std::string& text : all_texts(cells)) CHECK_FALSE(has_not_finite(text));
  CHECK(has_not_finite("x: NaN,"));
}

TEST_CASE("names from outside cannot break the Markdown report") {
  const std::string text = render_markdown(sample::environment(), sample::run(), kCommand);
  // A table's rows all have as many unescaped pipes as its heading.
  std::size_t pipes = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.rfind("| ", 0) != 0) {
      pipes = 0;
      continue;
    }
    const std::size_t found = count_of(line, "|") - count_of(line, "\\|");
    if (pipes == 0) pipes = found;
    INFO(line);
    CHECK(found == pipes);
  }
  CHECK(contains(text, "a \\| b &lt;i&gt;"));
  CHECK_FALSE(contains(text, "\x1b"));
}

TEST_CASE("characters that turn the text around them are shown and not obeyed") {
  // U+202E, U+2066, U+200F, U+061C, U+2028, U+FEFF.
  for (const char* const turn : {"\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x80\x8F", "\xD8\x9C",
                                 "\xE2\x80\xA8", "\xEF\xBB\xBF"}) {
    std::vector<CellResult> cells = sample::run();
    Environment environment = sample::environment();
    cells.front().key.workload = cells.front().key.conf = cells.front().reason =
        std::string("a") + turn + "b";
    environment.warnings = {cells.front().key.conf};
    for (const std::string& text :
         {render_markdown(environment, cells, cells.front().key.conf), render_table(cells)}) {
      CHECK_FALSE(contains(text, turn));
    }
  }
  CHECK(printable("a\xE2\x80\xAE"
                  "b") == "a\\u202eb");
  CHECK(printable("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80") ==
        "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST_CASE("a command with a fence or a newline stays an indented block") {
  const std::string text =
      render_markdown(sample::environment(), sample::run(), "a ``` b\n# not a heading");
  CHECK(contains(text, "\n    a ``` b\n    # not a heading\n"));
}

TEST_CASE("CSV has one row per cell, equal widths, and names as tables show them") {
  const std::vector<CellResult> cells = sample::run();
  const auto rows = parse_csv(render_csv(cells));
  REQUIRE(rows.size() == cells.size() + 1);
  const auto column = [&](std::string_view name) {
    const auto found = std::find(rows[0].begin(), rows[0].end(), name);
    REQUIRE(found != rows[0].end());
    return static_cast<std::size_t>(found - rows[0].begin());
  };
  for (std::size_t row = 0; row < rows.size(); ++row) CHECK(rows[row].size() == rows[0].size());
  for (std::size_t index = 0; index < cells.size(); ++index) {
    CHECK(rows[index + 1][column("workload")] == printable(cells[index].key.workload));
    CHECK(rows[index + 1][column("conf")] == printable(cells[index].key.conf));
    CHECK(rows[index + 1][column("cell_id")] == cells[index].key.id());
  }
  CHECK(rows[1][column("allocate_latency_ns_p99")] == "120");
  CHECK(rows[1][column("oom_rate")] == "0.002");
  CHECK(rows[1][column("oom_first.size_bytes")] == "100663296");
  CHECK(rows[2][column("oom_first.size_bytes")].empty());
  CHECK(rows[6][column("allocate_latency_ns_p99")].empty());
  CHECK(rows[1][column("passes.2.allocate_latency_ns_p50")] == "40.4");
}

TEST_CASE("CSV holds nothing that a terminal obeys, wherever a name of a cell stands") {
  CellResult cell = sample::cell();
  const std::string hostile =
      "a\x1B[2J\r\x7F\xC2\x9B"
      "31m\xE2\x80\xAE\n=b";
  cell.key.workload = cell.key.conf = cell.key.allocator = cell.reason = hostile;
  cell.warnings = {hostile, hostile};
  cell.counters = {{hostile, 1}};
  cell.size_classes.front().size_class = hostile;
  const std::string text = render_csv(std::vector<CellResult>{cell});
  CHECK(visible_text(text) == text);
  const auto rows = parse_csv(text);
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].size() == rows[0].size());
  const std::string shown = "a\\x1b[2J\\r\\x7f\\x9b31m\\u202e\\n=b";
  CHECK(std::ranges::count(rows[1], shown) == 5);
  CHECK(std::ranges::count(rows[1], shown + "\n" + shown) == 1);
}

TEST_CASE("CSV gives lists and counters columns of their own") {
  CellResult cell = sample::cell();
  cell.size_classes[0].deallocate = sample::operation(0, 0);
  const auto rows = parse_csv(render_csv(std::vector<CellResult>{cell}));
  const auto value = [&](std::string_view name) {
    const auto found = std::find(rows[0].begin(), rows[0].end(), name);
    REQUIRE(found != rows[0].end());
    return rows[1][static_cast<std::size_t>(found - rows[0].begin())];
  };
  CHECK(value("counters.drift") == "-4");
  CHECK(value("size_classes.<=512B.allocate_latency_ns_p99") == "900");
  CHECK(value("size_classes.<=512B.deallocate_latency_ns_p99").empty());
  CHECK(value("warnings") == "debug build\ngovernor powersave");
  CHECK(value("seed") == "18446744073709551615");
}

TEST_CASE("the export has what compare.py reads: names, repetitions, times, units") {
  const auto file =
      nlohmann::json::parse(render_google_benchmark(sample::environment(), sample::run()));
  CHECK(file["context"]["json_schema_version"] == 1);
  CHECK(file["context"]["library_build_type"] == "release");
  std::size_t aggregate_count = 0;
  std::size_t error_count = 0;
  for (const auto& entry : file["benchmarks"]) {
    CHECK(entry["run_name"].is_string());
    for (const auto& [key, value] : entry.items()) {
      INFO(key);
      CHECK((value.is_number() || value.is_string() || value.is_boolean()));
    }
    if (entry.contains("error_occurred") || entry.contains("skipped")) {
      ++error_count;
      CHECK_FALSE(entry.contains("real_time"));
      continue;
    }
    CHECK(entry["real_time"].is_number());
    CHECK(entry["cpu_time"].is_number());
    CHECK(entry["time_unit"] == "ns");
    if (entry["run_type"] == "aggregate") {
      ++aggregate_count;
      CHECK(entry["aggregate_name"] == "median");
      CHECK(entry["latency_ns_p99"].is_number());
    } else {
      CHECK(entry["repetitions"] == 3);
    }
  }
  CHECK(aggregate_count == 2 * 8);
  CHECK(error_count == 2 * 2);
}
