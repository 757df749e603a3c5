// What 'allocmark qualify' finds out, as data: figures, their limits, verdicts per test, GPU and
// node. Raw answers flow in from the child processes that measure; judge.h turns them into
// verdicts; writers.h prints them. TESTS.md of this folder defines every test and figure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace allocmark::qualify {

// From best to worst, but for Skip, which says nothing about the GPU.
enum class Verdict : std::uint8_t { Skip, Pass, Warn, Fail };
[[nodiscard]] std::string_view to_string(Verdict verdict);

// A line of the thresholds file.
struct Limit {
  std::optional<double> warn = {}, fail = {};  // beyond these the figure is WARN or FAIL
  bool is_min = false;                         // the figure must not be below, else not above
  std::string unit = {};
  std::string meaning = {};
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Figure {
  std::string name = {};                   // what was measured: "cudaMalloc 2.00 MiB, P50"
  std::string threshold = {};              // key in the thresholds file; empty: told, not judged
  std::optional<double> value = {};        // nothing: could not be measured, and `note` says why
  std::optional<double> measured_ns = {};  // the time itself, where the value is a share of one
  std::string note = {};
  bool optional = false;  // not being measurable is normal here (a GPU without ECC)
  Limit limit = {};       // set by the judge, as is the verdict
  Verdict verdict = Verdict::Skip;
  friend bool operator==(const Figure&, const Figure&) = default;
};

// In the note of a figure without a threshold that was measured beside others, with the reason why
// it is not judged. Tables only count these.
inline constexpr std::string_view kOnlyReported = "only reported";

// What a child process answers.
struct TestAnswer {
  std::vector<Figure> figures = {};
  std::string failure = {};  // the test could not be carried through, which is a FAIL
  std::string skip = {};     // why the test says nothing, where nothing failed
  bool unsafe = false;       // no other test may touch this GPU
  std::map<std::string, double> readings = {};    // facts for a later test
  std::map<std::string, std::string> texts = {};  // facts for the report: who the GPUs are
  double virtual_s = 0;                           // that it took on a simulated GPU
  friend bool operator==(const TestAnswer&, const TestAnswer&) = default;
};

struct TestResult {
  std::string test = {};
  std::string gpu = {};  // "cuda:0", "sim:h200/1"; empty: of the whole node
  Verdict verdict = Verdict::Skip;
  std::string reason = {};  // what decided the verdict; empty for PASS
  std::vector<Figure> figures = {};
  double wall_s = 0;
};

// Stable names of tests, for those who collect results: "gpu/latency", "node/gpus".
[[nodiscard]] std::string test_id(const TestResult& result);

// Texts are empty where they are not known, and where the report is to be anonymous.
struct GpuFacts {
  int index = 0;
  std::string label = {};  // "cuda:0"
  std::string name = {};   // of the model
  std::string uuid = {}, pci_bus_id = {}, serial = {}, vbios = {};
  std::string uuid_hash = {};
  std::uint64_t memory_bytes = 0;
};

struct NodeFacts {
  std::string name = {};
  std::string machine_type = {};    // as the machine's maker calls it
  std::string driver_version = {};  // "580.159.04"
};

struct GpuReport {
  GpuFacts facts = {};
  Verdict verdict = Verdict::Skip;
  std::vector<TestResult> tests = {};
};

struct Report {
  NodeFacts node = {};
  bool is_anonymous = false;
  std::string level, device, version, started_utc, finished_utc, thresholds_path;
  std::string environment;  // of the host, as a line of JSON; empty: not known
  double wall_s = 0;
  std::vector<GpuReport> gpus;
  std::vector<TestResult> node_tests;
  Verdict verdict = Verdict::Skip;
  ExitCode exit_code = ExitCode::NotReady;
};

// What a skipped test's reason begins with where every machine like this one skips it.
inline constexpr std::string_view kOneGpuOnly = "there is one GPU only";
inline constexpr std::string_view kNoSibling = "no other GPU of this model was measured";
inline constexpr std::string_view kNoBaseline = "measured, not judged: there is no baseline for ";
inline constexpr std::string_view kNoMemoryCells = "a simulated GPU has no memory cells: ";
// What a warned test's reason begins with where its time was cut, so that it may have no figures.
inline constexpr std::string_view kCutShort = "did not end within ";

// The tests whose failure says that the machine was not in a state to be judged.
inline constexpr std::string_view kPreconditionsTest = "preconditions";

}  // namespace allocmark::qualify
