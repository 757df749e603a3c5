// Reads and adds to results.jsonl. A line is one write, so a killed process leaves at most its last
// line cut short.
#include "results/run_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "results/cell_summary.h"
#include "results/json.h"
#include "results/schema_version.h"

namespace allocmark {
namespace {

[[noreturn]] void refuse_results(const std::string& path, std::string what, std::string got,
                                 std::string next) {
  throw FileError(
      {.what = std::move(what), .where = path, .got = std::move(got), .next = std::move(next)});
}

constexpr std::size_t kChunkBytes = kMiB;

bool is_part(const CellResult& cell) { return cell.passes_to_come > 0; }
bool is_part(const CellOutline& cell) { return cell.is_part; }

// Adds cells so that the last one of a key counts.
class CellSet {
 public:
  CellSet(RunFile& run, CellDetail detail) : run_(run), detail_(detail) {}

  void add(CellResult cell, const LinePlace& line) {
    if (detail_ == CellDetail::Outline) {
      add_to(run_.outlines, outline_of(cell), line);
    } else {
      if (detail_ == CellDetail::Summary) summarize(&cell);
      add_to(run_.cells, std::move(cell), line);
    }
  }

 private:
  template <typename Cell>
  void add_to(std::vector<Cell>& cells, Cell cell, const LinePlace& line) {
    // By name: a scenario that was edited before the run went on has its last results.
    const auto [place, is_new] = index_by_id_.try_emplace(cell.key.id_by_name(), cells.size());
    if (is_new) {
      cells.push_back(std::move(cell));
      run_.places.push_back(line);
    } else {
      // What was measured of another edition of a scenario or trace file is no result of this run.
      const bool is_other = cells[place->second].key.id() != cell.key.id();
      if (is_other || is_part(cells[place->second])) {
        run_.replaced_parts.push_back(run_.places[place->second]);
      }
      cells[place->second] = std::move(cell);
      run_.places[place->second] = line;
      ++run_.replaced_line_count;
    }
  }

  RunFile& run_;
  CellDetail detail_;
  std::unordered_map<std::string, std::size_t> index_by_id_;
};

// Takes the lines of a file one after the other.
class RunParser {
 public:
  RunParser(std::string path, CellDetail detail, WholeCellWatcher watcher = {})
      : path_(std::move(path)), watcher_(std::move(watcher)), cells_(run_, detail) {}

  // A line without its newline; `ended` says whether it had one. False where it was cut short.
  bool add(std::string_view line, bool ended) {
    ++line_number_;
    if (!ended && line_number_ > 1 && !json_line_kind(line)) {
      run_.torn = true;
      run_.torn_line = line_number_;
      return false;
    }
    const std::string where = fmt::format("{}:{}", path_, line_number_);
    if (line_number_ == 1) {
      run_.environment = environment_from_json(line, where);
      const auto version = parse_schema_version(run_.environment.schema_version);
      run_.oldest_minor = run_.newest_minor = version ? version->minor : 0;
    } else {
      std::uint32_t minor = 0;
      CellResult cell = cell_result_from_json(line, where, &minor);
      run_.oldest_minor = std::min(run_.oldest_minor, minor);
      run_.newest_minor = std::max(run_.newest_minor, minor);
      if (watcher_) watcher_(cell);
      cells_.add(
          std::move(cell),
          {.begin_bytes = run_.whole_bytes, .size_bytes = line.size(), .number = line_number_});
    }
    run_.whole_bytes += line.size() + (ended ? 1 : 0);
    run_.newline_missing = !ended;
    return true;
  }

  RunFile finish() {
    if (line_number_ > 0) return std::move(run_);
    throw UsageError({.what = "the results file is empty",
                      .where = path_,
                      .wanted = "the results.jsonl that 'allocmark run' writes",
                      .next = "start a new folder with --out DIR"});
  }

 private:
  std::string path_;
  WholeCellWatcher watcher_;
  RunFile run_;
  CellSet cells_;
  std::uint64_t line_number_ = 0;
};

// Hands over the whole lines of the text, and says how many bytes they had.
std::size_t add_lines(std::string_view text, RunParser& parser) {
  std::size_t begin = 0;
  for (std::size_t newline = 0; (newline = text.find('\n', begin)) != std::string_view::npos;
       begin = newline + 1) {
    parser.add(text.substr(begin, newline - begin), true);
  }
  return begin;
}

// The next `size_bytes` of a file, or what is left of it; a run's file does not fit into memory.
void copy_bytes(InputFile& from, std::uint64_t size_bytes, OutputFile& to) {
  std::vector<char> chunk(kChunkBytes);
  while (size_bytes > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(chunk.size(), size_bytes);
    const std::size_t count = from.read(std::span(chunk).first(wanted));
    if (count == 0) return;
    to.write({chunk.data(), count});
    size_bytes -= count;
  }
}

}  // namespace

RunFile read_run_file(const std::string& path, CellDetail detail, const WholeCellWatcher& watcher) {
  if (std::filesystem::is_directory(path)) {
    refuse_results(path, "the results file is a folder", {}, "Give the results.jsonl in it.");
  }
  InputFile file(path, kResultsInput);
  return parse_run_file([&](std::span<char> into) { return file.read(into); }, path, detail,
                        watcher);
}

RunFile parse_run_file(const ByteSource& next, const std::string& path, CellDetail detail,
                       const WholeCellWatcher& watcher) {
  RunParser parser(path, detail, watcher);
  std::string text;
  std::vector<char> chunk(kChunkBytes);
  while (const std::size_t count = next(chunk)) {
    text.append(chunk.data(), count);
    text.erase(0, add_lines(text, parser));
    if (text.size() <= kLineBytesMax) continue;
    throw UsageError({.what = "a line is too long for a result",
                      .where = path,
                      .wanted = fmt::format("at most {}", format_bytes(kLineBytesMax)),
                      .got = "a longer one",
                      .next = "give the results.jsonl that 'allocmark run' writes"});
  }
  if (!text.empty()) parser.add(text, false);
  return parser.finish();
}

void drop_replaced_parts(const std::string& path) {
  std::vector<LinePlace> parts = read_run_file(path, CellDetail::Summary).replaced_parts;
  if (parts.empty()) return;
  std::ranges::sort(parts, {}, &LinePlace::begin_bytes);
  InputFile whole(path, kResultsInput);
  OutputFile file(path);
  std::uint64_t kept_to = 0;
  for (const LinePlace& part : parts) {
    copy_bytes(whole, part.begin_bytes - kept_to, file);
    kept_to = part.begin_bytes + part.size_bytes + 1;
    whole.seek(kept_to);
  }
  copy_bytes(whole, std::numeric_limits<std::uint64_t>::max(), file);
  file.finish();
}

RunFileWriter RunFileWriter::create(const std::string& path, const Environment& environment) {
  RunFileWriter writer(LineFile::create(path));
  writer.file_.append(to_json_line(environment));
  return writer;
}

RunFileWriter RunFileWriter::resume(const std::string& path) {
  const RunFile run = read_run_file(path, CellDetail::Summary);
  // A whole last line that lacks only its newline gets it.
  RunFileWriter writer(LineFile::resume(path, run.whole_bytes));
  if (run.newline_missing) writer.file_.append({});
  return writer;
}

void RunFileWriter::append(const CellResult& cell) { file_.append(to_json_line(cell)); }

}  // namespace allocmark
