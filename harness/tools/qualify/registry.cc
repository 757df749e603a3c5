// The tests of 'allocmark qualify', one line each, in the order in which they run; TESTS.md of
// this folder says what each one measures.
#include <array>

#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

constexpr std::array<TestEntry, 10> kTests = {{
    {"preconditions", "the GPU is in a state to be judged", Scope::GpusTogether, 0, false,
     run_preconditions},
    {"capacity", "free memory can be allocated, in large and small pieces", Scope::GpusTogether,
     0.05, true, run_capacity},
    {"latency", "driver calls take as long as on other GPUs of the model", Scope::GpusInTurn, 0.15,
     true, run_latency},
    {"threads", "several threads at a time", Scope::GpusInTurn, 0.05, true, run_threads},
    {"processes", "several processes at a time", Scope::GpusInTurn, 0.05, false, run_processes},
    {"gpus", "all GPUs at a time", Scope::Node, 0, false, run_gpus},
    {"integrity", "memory keeps what is written to it", Scope::GpusTogether, 0.5, true,
     run_integrity},
    {"recovery", "the GPU works on when it is full, and is whole again after", Scope::GpusTogether,
     0.1, true, run_recovery},
    {"leaks", "no memory is lost by allocating and freeing", Scope::GpusTogether, 0.1, true,
     run_leaks},
    {"health", "no errors, throttling or loss of memory during the tests", Scope::GpusTogether, 0,
     false, run_health},
}};

constexpr std::array<TestEntry, 3> kHelpers = {{
    {"devices", "what GPUs there are", Scope::Node, 0, false, run_devices},
    {"pairs_worker", "one of several processes", Scope::GpusTogether, 0, true, run_pairs_worker},
}};

}  // namespace

std::span<const TestEntry> registry() { return kTests; }
std::span<const TestEntry> helpers() { return kHelpers; }

}  // namespace allocmark::qualify
