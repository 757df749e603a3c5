// The interface of a test: what it is told, and its line in the registry. A test runs in a process
// of its own on one GPU (or, where its scope says so, starts further processes for several), gives
// everything back that it takes, and changes no setting of the machine.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/qualify/result.h"

namespace allocmark::qualify {

// What a child process is told. Travels as JSON (child.h).
struct TestSpec {
  std::string test = {};       // a name of the registry, or a helper process's
  std::string device = {};     // "cuda:0", "sim:h200": which CUDA runtime the process must have
  int gpu = 0;                 // ordinal, as cudaSetDevice takes it
  std::vector<int> gpus = {};  // all that are qualified, for tests of the node
  double seconds = 0;  // repeat the test's round until so much time has gone by; 0: one round
  std::string baseline_path = {};               // empty: by the GPU's name
  std::map<std::string, double> readings = {};  // facts of earlier tests: "before.", "during."
  friend bool operator==(const TestSpec&, const TestSpec&) = default;
};

struct TestContext {
  TestSpec spec = {};
  bool simulated = false;
};

enum class Scope : std::uint8_t {
  GpusTogether,  // one process per GPU, all GPUs at a time
  GpusInTurn,    // one process per GPU, one GPU at a time, because it measures time
  Node,          // one process that uses all GPUs
};

struct TestEntry {
  std::string_view name, summary;
  Scope scope = Scope::GpusTogether;
  double time_share = 0;      // of a level's time per GPU
  bool needs_context = true;  // the GPU is made current before it runs
  TestAnswer (*run)(const TestContext& context) = nullptr;
};

// All tests in the order in which they run. The first is the preconditions', the last is health.
[[nodiscard]] std::span<const TestEntry> registry();
// Processes that tests start: probes, monitors, workers. Not for the user.
[[nodiscard]] std::span<const TestEntry> helpers();

// The tests' entry points, for registry.cc.
[[nodiscard]] TestAnswer run_preconditions(const TestContext& context);
[[nodiscard]] TestAnswer run_capacity(const TestContext& context);
[[nodiscard]] TestAnswer run_latency(const TestContext& context);
[[nodiscard]] TestAnswer run_threads(const TestContext& context);
[[nodiscard]] TestAnswer run_processes(const TestContext& context);
[[nodiscard]] TestAnswer run_gpus(const TestContext& context);
[[nodiscard]] TestAnswer run_integrity(const TestContext& context);
[[nodiscard]] TestAnswer run_recovery(const TestContext& context);
[[nodiscard]] TestAnswer run_leaks(const TestContext& context);
[[nodiscard]] TestAnswer run_health(const TestContext& context);

// Helpers: what the GPUs are; one of several processes that allocate at the same time.
[[nodiscard]] TestAnswer run_devices(const TestContext& context);
[[nodiscard]] TestAnswer run_pairs_worker(const TestContext& context);

}  // namespace allocmark::qualify
