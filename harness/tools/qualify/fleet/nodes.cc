// See nodes.h.
#include "harness/tools/qualify/fleet/nodes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include "base/error.h"
#include "base/input_file.h"
#include "base/median.h"
#include "harness/tools/qualify/judge.h"
#include "harness/tools/qualify/report_json.h"

namespace allocmark::fleet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReportName = "qualify.json";
constexpr const char* kTestsName = "tests.jsonl";
constexpr InputKind kReportInput{.name = "a qualification", .size_bytes_max = 64 * kMiB};
// Clocks are kept within seconds of each other; files may be written late.
constexpr double kClockSlackS = 120;

std::string duration_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f} minutes", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.1f} hours", seconds / kHour);
  return fmt::format("{:.1f} days", seconds / kDay);
}

// When the file was last written, seconds since 1970.
std::optional<std::int64_t> written_at(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  const auto since_now = time - fs::file_time_type::clock::now();
  const auto system = std::chrono::system_clock::now() + since_now;
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

// What cannot be if the node's clock and those of the file server and of this machine agree. A file
// that was written later than it says may have been copied, so that proves nothing.
std::string clock_problem(const qualify::Report& report, const std::string& path,
                          const ReadOptions& options) {
  const auto started = qualify::utc_seconds(report.started_utc);
  const auto finished = qualify::utc_seconds(report.finished_utc);
  if (!started || !finished) return "its times are no times: '" + report.started_utc + "'";
  const auto gone = static_cast<double>(*finished - *started);
  if (std::abs(gone - report.wall_s) > kClockSlackS) {
    return fmt::format("its clock was set meanwhile: {} by it, {} in truth",
                       gone < 0 ? "backwards" : duration_text(gone), duration_text(report.wall_s));
  }
  const auto ahead = static_cast<double>(*finished - options.now_s);
  if (ahead > kClockSlackS) {
    return fmt::format("its clock is {} ahead of this machine's", duration_text(ahead));
  }
  const auto written = written_at(path);
  if (written && static_cast<double>(*finished - *written) > kClockSlackS) {
    return fmt::format("its clock is {} ahead of the file's time",
                       duration_text(static_cast<double>(*finished - *written)));
  }
  return "";
}

NodeRow read_report(const std::string& path, const std::string& fallback_name,
                    const ReadOptions& options) {
  NodeRow row;
  row.name = fallback_name;
  row.path = path;
  try {
    row.report = qualify::report_from_json(read_file(path, kReportInput), path);
    if (!row.report->node.name.empty()) row.name = row.report->node.name;
    row.clock = clock_problem(*row.report, path, options);
    row.problem = qualify::contradiction_of(*row.report, options.version);
    if (!row.problem.empty()) row.status = NodeStatus::Damaged;
  } catch (const Error& error) {
    row.status = NodeStatus::Damaged;
    row.problem = error.what();
  }
  return row;
}

// A folder that some node was to fill, but has no report.
NodeRow read_rest(const fs::path& folder) {
  NodeRow row;
  row.name = folder.filename().string();
  row.path = folder.string();
  row.status = NodeStatus::NoAnswer;
  row.problem = "its folder is empty: it never began, or hangs in its first test";
  const fs::path tests = folder / kTestsName;
  std::error_code error;
  if (fs::is_regular_file(tests, error)) {
    const std::string lines = read_file(tests.string(), kReportInput);
    row.status = NodeStatus::CutShort;
    row.problem = fmt::format("it was ended after {} tests", std::ranges::count(lines, '\n'));
  }
  return row;
}

bool is_node(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) || fs::is_regular_file(path / kReportName, error) ||
         fs::is_regular_file(path / kTestsName, error);
}

// A report, a folder with one, or a folder that was to get one.
NodeRow read_node(const fs::path& path, const ReadOptions& options) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    return read_report(path.string(), path.stem().string(), options);
  }
  const fs::path report = path / kReportName;
  if (!fs::is_regular_file(report, error)) return read_rest(path);
  return read_report(report.string(), path.filename().string(), options);
}

void add_path(const std::string& text, const ReadOptions& options, std::vector<NodeRow>& rows) {
  const fs::path path(text);
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw FileError({.what = "there is no such file or folder",
                     .where = text,
                     .wanted = "a node's folder, or one with such folders"});
  }
  std::vector<fs::path> nodes;
  if (is_node(path)) {
    nodes.push_back(path);
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (entry.is_directory(error) || entry.path().extension() == ".json") {
        nodes.push_back(entry.path());
      }
    }
    std::ranges::sort(nodes);
  }
  for (const fs::path& node : nodes) rows.push_back(read_node(node, options));
}

std::set<std::string> gpus_of(const NodeRow& row) {
  std::set<std::string> gpus;
  for (const qualify::GpuReport& gpu : row.report->gpus) gpus.insert(gpu.facts.uuid_hash);
  return gpus;
}

// Of two reports of one machine the newer counts; two machines of one name are named.
void find_namesakes(std::vector<NodeRow>& rows) {
  std::map<std::string, std::vector<NodeRow*>> by_name;
  for (NodeRow& row : rows) {
    if (row.report) by_name[row.name].push_back(&row);
  }
  for (auto& [name, same] : by_name) {
    std::ranges::sort(same, [](const NodeRow* a, const NodeRow* b) {
      return a->report->finished_utc > b->report->finished_utc;
    });
    for (std::size_t i = 1; i < same.size(); ++i) {
      if (gpus_of(*same[i]) == gpus_of(*same.front())) {
        same[i]->status = NodeStatus::Older;
        same[i]->problem = "the same machine's newer one is " + same.front()->path;
        continue;
      }
      for (NodeRow* row : {same.front(), same[i]}) {
        row->status = NodeStatus::NameTwice;
        row->problem = fmt::format("two machines say that they are {}: {} and {}", name,
                                   same.front()->path, same[i]->path);
      }
    }
  }
}

void find_other_times(std::vector<NodeRow>& rows, double within_s) {
  std::vector<double> starts;
  for (const NodeRow& row : rows) {
    const auto start = row.report ? qualify::utc_seconds(row.report->started_utc) : std::nullopt;
    if (start) starts.push_back(static_cast<double>(*start));
  }
  const double middle = median(starts);
  for (NodeRow& row : rows) {
    const auto start = row.report ? qualify::utc_seconds(row.report->started_utc) : std::nullopt;
    if (!start || row.status != NodeStatus::Judged) continue;
    const double off_s = static_cast<double>(*start) - middle;
    if (std::abs(off_s) <= within_s) continue;
    row.status = NodeStatus::OtherTime;
    row.problem = fmt::format("it is {} {} than the others: of another day, or its clock is wrong",
                              duration_text(std::abs(off_s)), off_s < 0 ? "older" : "newer");
  }
}

void add_silent(const std::vector<std::string>& expected, std::vector<NodeRow>& rows) {
  std::set<std::string> known;
  for (const NodeRow& row : rows) known.insert(row.name);
  for (const std::string& name : expected) {
    if (!known.insert(name).second) continue;
    NodeRow row;
    row.name = name;
    row.status = NodeStatus::NoAnswer;
    row.problem = "nothing came from it";
    rows.push_back(std::move(row));
  }
}

// "gpu/latency cuda:0 0000:61:00.0 serial 4711".
std::string test_text(const qualify::PlacedTest& placed) {
  std::string text = test_id(*placed.test);
  if (placed.gpu == nullptr) return text;
  const qualify::GpuFacts& facts = placed.gpu->facts;
  text += " " + facts.label;
  if (!facts.pci_bus_id.empty()) text += " " + facts.pci_bus_id;
  if (!facts.serial.empty()) text += " serial " + facts.serial;
  return text;
}

std::string worst_reason(const qualify::Report& report) {
  const std::vector<qualify::PlacedTest> tests = qualify::all_tests(report);
  const auto worst = std::ranges::max_element(
      tests, {}, [](const qualify::PlacedTest& placed) { return placed.test->verdict; });
  if (worst == tests.end() || worst->test->verdict < qualify::Verdict::Warn) return "";
  return test_text(*worst) + ": " + worst->test->reason;
}

void decide_judged(NodeRow& row) {
  const qualify::Report& report = *row.report;
  row.verdict = report.verdict;
  row.reason = worst_reason(report);
  if (report.exit_code == ExitCode::Regression) row.action = Action::Drain;
  if (report.exit_code == ExitCode::NotReady) row.action = Action::Retry;
  for (const qualify::PlacedTest& placed : qualify::all_tests(report)) {
    if (!qualify::leaves_open(*placed.test)) continue;
    row.verdict = std::max(row.verdict, qualify::Verdict::Warn);
    if (row.reason.empty()) row.reason = test_text(placed) + ": " + placed.test->reason;
  }
  for (const Outlier& outlier : row.outliers) {
    const bool worse = outlier.verdict > row.verdict || row.reason.empty();
    row.verdict = std::max(row.verdict, outlier.verdict);
    if (outlier.verdict == qualify::Verdict::Fail && row.action != Action::Drain) {
      row.action = Action::Drain;
      row.reason.clear();
    }
    if (worse || row.reason.empty()) {
      row.reason = fmt::format("{}: {} is {:.2f} times that of its kind (z {:.1f})", outlier.gpu,
                               outlier.measure, outlier.factor, outlier.z);
    }
  }
  if (!row.clock.empty()) {
    row.verdict = std::max(row.verdict, qualify::Verdict::Warn);
    if (row.reason.empty()) row.reason = row.clock;
  }
  if (row.action == Action::Use && row.verdict == qualify::Verdict::Warn) {
    row.action = Action::Watch;
  }
}

}  // namespace

std::string_view to_string(NodeStatus status) {
  constexpr std::array<std::string_view, 7> kNames = {
      "judged", "damaged", "cut_short", "no_answer", "name_twice", "older", "other_time"};
  return kNames.at(static_cast<std::size_t>(status));
}

std::string_view to_string(Action action) {
  constexpr std::array<std::string_view, 5> kNames = {"use", "watch", "retry", "look", "drain"};
  return kNames.at(static_cast<std::size_t>(action));
}

std::vector<std::string> read_names(const std::string& path) {
  const std::string text = read_file(path, kSettingsInput);
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (first != std::string::npos) names.push_back(line.substr(first, last - first + 1));
    at = end + 1;
  }
  return names;
}

std::vector<NodeRow> read_nodes(const std::vector<std::string>& paths, const ReadOptions& options) {
  std::vector<NodeRow> rows;
  for (const std::string& path : paths) add_path(path, options, rows);
  if (rows.empty()) {
    throw UsageError({.what = "nothing to merge was found",
                      .where = paths.front(),
                      .wanted = "folders that 'allocmark qualify --out' or 'run --out' filled",
                      .next = "see: allocmark merge --help"});
  }
  find_namesakes(rows);
  find_other_times(rows, options.within_s);
  add_silent(options.expected, rows);
  std::ranges::stable_sort(rows,
                           [](const NodeRow& a, const NodeRow& b) { return a.name < b.name; });
  return rows;
}

void decide(std::vector<NodeRow>& rows) {
  for (NodeRow& row : rows) {
    if (row.status == NodeStatus::Judged) {
      decide_judged(row);
      continue;
    }
    row.reason = row.problem;
    row.verdict = qualify::Verdict::Skip;
    row.action = row.status == NodeStatus::NameTwice ? Action::Look
                 : row.status == NodeStatus::Older   ? Action::Use
                                                     : Action::Retry;
  }
}

}  // namespace allocmark::fleet
