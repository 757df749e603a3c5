// Many nodes' qualifications, one row a node, whatever became of it: judged, cut short, damaged,
// silent, of another day, or under a name that two machines have. Folders flow in; rows with a
// status and what to do flow out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/qualify/result.h"

namespace allocmark::fleet {

enum class NodeStatus : std::uint8_t {
  Judged,
  Damaged,    // its file is no whole qualification
  CutShort,   // some of its tests ended, the qualification did not
  NoAnswer,   // nothing came
  NameTwice,  // another machine has the same name
  Older,      // the same machine has a newer one
  OtherTime,  // it is of another day than the others
};
[[nodiscard]] std::string_view to_string(NodeStatus status);

// What to do about a node; nothing here does it.
enum class Action : std::uint8_t { Use, Watch, Retry, Look, Drain };
[[nodiscard]] std::string_view to_string(Action action);

// A GPU that differs from the others of its kind.
struct Outlier {
  std::string gpu;  // its label
  std::string measure;
  double value = 0, median = 0;  // ns, or as the figure's unit
  double factor = 0;             // how many times worse than the median
  double z = 0;                  // distance from the median in robust deviations
  qualify::Verdict verdict = qualify::Verdict::Warn;
};

struct NodeRow {
  std::string name;
  std::string path;
  NodeStatus status = NodeStatus::Judged;
  std::string problem;  // why it was not judged
  std::string clock;    // what is wrong with its clock; empty: nothing
  std::optional<qualify::Report> report;
  std::vector<Outlier> outliers;
  qualify::Verdict verdict = qualify::Verdict::Skip;
  Action action = Action::Use;
  std::string reason;  // what decided the action
};

struct ReadOptions {
  std::vector<std::string> expected;  // names that must answer
  double within_s = 24 * 3600;        // of the median start, else it is of another time
  std::int64_t now_s = 0;             // seconds since 1970, by the clock of who merges
  std::string version = {};           // of who merges: its own reports have all tests
};

// Each path is a node's folder (with qualify.json, or what a qualification that was cut short
// left), a qualify.json itself, or a folder of such folders. Rows by name. Throws FileError for a
// path that is not there, and UsageError where nothing of this kind is.
[[nodiscard]] std::vector<NodeRow> read_nodes(const std::vector<std::string>& paths,
                                              const ReadOptions& options);

// One name a line; what follows a # is a remark.
[[nodiscard]] std::vector<std::string> read_names(const std::string& path);

// Fills in verdict, action and reason from report, outliers, clock and status.
void decide(std::vector<NodeRow>& rows);

}  // namespace allocmark::fleet
