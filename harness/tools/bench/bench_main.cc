// allocmark_bench: what allocators cost per request and what allocmark itself costs, as a Google
// Benchmark program, so that its flags, its JSON and its compare.py work as ever. Command line in;
// Google Benchmark's report out.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/tools/bench/benchmarks.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

constexpr const char* kHelp =
    R"(allocmark_bench: what allocators cost, and what allocmark itself costs

  pair/ALLOCATOR/conf:C/size:BYTES/threads:N   one allocate and one deallocate, from the cache
  cold/...                                     the same, with the cache emptied before each pair
  hits/ALLOCATOR/conf:C/WORKLOAD               a workload's cache hits, in turns with c10's
  replay/ALLOCATOR/conf:C/recorder:on|off/WORKLOAD   events through the replayer
  long/null/churn                              a long trace: generated, compiled and replayed
  generate/WORKLOAD                            a workload's events alone
  clock                                        an empty timed region

  --benchmark_filter=^hits/   only these
  --device DEVICE     auto (a GPU if there is one, else sim:h200), cuda:N or sim:PROFILE
  --allocator NAME    only this one; may stand several times
  --conf STRING       also with this config string, for the allocators that accept it; may stand
                      several times
  --size SIZE         of pair and cold, instead of the usual ones ("4KiB"); may stand several times
  --threads COUNT     of pair, instead of 1, 2 and 4; may stand several times
  --workload W        of hits, replay and generate, instead of the usual ones; may stand several
                      times
  --events N          of long and generate (20000000)

Counters target_X say what X should be: at most that, but rates (items_per_second) at least that.
c10_X is PyTorch's own allocator where its plugin is there, c10_ratio_X our part of it. On a
simulated device Time is the host's, with the simulator's own share in simulator_ns; what the driver
would have taken is driver_modelled_ns. All flags of Google Benchmark work beside these:

)";

struct CommandLine {
  std::string device = "auto";
  BenchOptions options;
  bool help = false;
};

std::uint64_t number_of(const char* flag, const std::string& text, std::uint64_t min,
                        std::uint64_t max, const char* wanted) {
  const std::optional<std::uint64_t> value = parse_bytes_or_count(text);
  if (value && *value >= min && *value <= max) return *value;
  throw UsageError({.what = "a flag's value is not allowed",
                    .where = flag,
                    .wanted = wanted,
                    .got = "'" + text + "'",
                    .next = "--help shows all flags"});
}

struct Flag {
  std::string_view name;
  std::function<void(const std::string& value)> set;
};

// Takes our flags, "--flag VALUE" or "--flag=VALUE", out of `arguments`; what remains is Google
// Benchmark's.
void take_flags(std::vector<std::string>& arguments, const std::vector<Flag>& flags) {
  std::vector<std::string> rest;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string& argument = arguments[index];
    const std::string name = argument.substr(0, argument.find('='));
    const auto flag = std::ranges::find(flags, name, &Flag::name);
    if (flag == flags.end()) {
      rest.push_back(argument);
    } else if (name.size() < argument.size()) {
      flag->set(argument.substr(name.size() + 1));
    } else if (++index < arguments.size()) {
      flag->set(arguments[index]);
    } else {
      throw UsageError(
          {.what = "a flag has no value", .where = name, .next = "--help shows all flags"});
    }
  }
  arguments = rest;
}

CommandLine read_command_line(std::vector<std::string>& arguments) {
  CommandLine line;
  BenchOptions& options = line.options;
  using Text = const std::string&;
  take_flags(
      arguments,
      {{"--device", [&](Text text) { line.device = text; }},
       {"--allocator", [&](Text text) { options.allocators.push_back(find_backend(text).name); }},
       {"--conf", [&](Text text) { options.confs.push_back(text); }},
       {"--size",
        [&](Text text) {
          options.sizes_bytes.push_back(
              number_of("--size", text, 1, UINT64_MAX, "a size such as 4096 or 2MiB"));
        }},
       {"--threads",
        [&](Text text) {
          options.thread_counts.push_back(static_cast<int>(
              number_of("--threads", text, 1, 1024, "a number of threads from 1 to 1024")));
        }},
       {"--workload", [&](Text text) { options.workloads.push_back(text); }},
       {"--events", [&](Text text) {
          options.event_count = number_of("--events", text, 1000, 1'000'000'000'000,
                                          "a number of events from 1000 to 1000000000000");
        }}});
  line.help = std::ranges::find(arguments, "--help") != arguments.end();
  if (options.sizes_bytes.empty()) {
    options.sizes_bytes = {512, 4 * kKiB, 256 * kKiB, 2 * kMiB, 20 * kMiB};
  }
  if (options.thread_counts.empty()) options.thread_counts = {1, 2, 4};
  return line;
}

// Those that are chosen, else the usual ones, else all.
std::vector<const BackendEntry*> chosen_entries(const BenchOptions& options,
                                                const std::vector<std::string_view>& usual) {
  std::vector<const BackendEntry*> entries;
  for (const std::string& name : options.allocators) entries.push_back(&find_backend(name));
  if (!entries.empty()) return entries;
  for (const std::string_view name : usual) entries.push_back(&find_backend(name));
  if (!entries.empty()) return entries;
  for (const BackendEntry& entry : backend_registry()) entries.push_back(&entry);
  return entries;
}

// A config string that no chosen allocator accepts is a mistake; of the refusals, one that knows a
// similar key helps most.
void check_confs(const BenchOptions& options) {
  for (const std::string& conf : options.confs) {
    std::optional<ErrorText> refusal;
    bool accepted = conf.empty();
    for (const BackendEntry* const entry : chosen_entries(options, {})) {
      const std::optional<ErrorText> error = entry->check_conf(conf);
      accepted |= !error;
      const bool has_suggestion =
          refusal && refusal->next.find("did you mean") != std::string::npos;
      refusal = error && !has_suggestion ? error : refusal;
    }
    if (!accepted) throw UsageError(refusal.value_or(ErrorText{}));
  }
}

// A misspelt one is found before anything runs.
void check_workloads(const BenchOptions& options) {
  for (const std::string& workload : options.workloads) {
    if (!open_workload(workload, /*seed=*/1)->next().empty()) continue;
    throw UsageError({.what = "the workload has no events",
                      .where = "workload '" + workload + "'",
                      .wanted = "at least one"});
  }
}

std::string resolve_device(const std::string& device) {
  if (device != "auto") return device;
  int count = 0;
  const bool have_gpu = !simcuda_loaded() && cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  (void)cudaGetLastError();
  return have_gpu ? "cuda:0" : "sim:h200";
}

// The process is started again where the device needs the other runtime, so this comes before any
// other CUDA call.
void choose_device(const std::string& device, char** argv) {
  check_device(device);
  ensure_runtime(device, argv);
  if (!is_simulated(device)) {
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(std::stoi(device.substr(device.find(':') + 1))));
  }
}

void add_context(const std::string& device) {
  cudaDeviceProp properties{};
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  benchmark::AddCustomContext("allocmark_device", device);
  benchmark::AddCustomContext("allocmark_device_name", properties.name);
  benchmark::AddCustomContext("allocmark_runtime", simcuda_loaded() ? "simcuda" : "cuda");
  benchmark::AddCustomContext("allocmark_build_type", ALLOCMARK_BUILD_TYPE);
}

void warn_of_build() {
  const std::string reason = unfit_build_reason();
  if (!reason.empty()) std::fprintf(stderr, "allocmark_bench: warning: %s\n", reason.c_str());
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  const CommandLine line = read_command_line(arguments);
  if (line.help) {
    std::fputs(kHelp, stdout);
  } else {
    check_confs(line.options);
    check_workloads(line.options);
    const std::string device = resolve_device(line.device);
    choose_device(device, argv);
    add_context(device);
    warn_of_build();
    register_stream_benchmarks(line.options);
    register_replay_benchmarks(line.options);
    register_hit_benchmarks(line.options);
    register_pair_benchmarks(line.options);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) {
    return static_cast<int>(ExitCode::Usage);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace

std::vector<BenchSide> bench_sides(const BenchOptions& options,
                                   const std::vector<std::string_view>& usual) {
  std::vector<BenchSide> sides;
  for (const BackendEntry* const entry : chosen_entries(options, usual)) {
    if (!entry->unavailable_reason().empty()) continue;
    for (const std::string& conf : options.confs) {
      const bool accepts =
          (conf.empty() && entry->argument_keys.empty()) || !entry->check_conf(conf);
      if (accepts) sides.push_back({.entry = entry, .conf = conf});
    }
  }
  return sides;
}

benchmark::internal::Benchmark* add_benchmark(
    const std::string& name, const std::function<void(benchmark::State& state)>& body) {
  return benchmark::RegisterBenchmark(name.c_str(), [body](benchmark::State& state) {
    try {
      body(state);
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  });
}

double resident_bytes_peak() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<double>(usage.ru_maxrss) * 1024 : 0;
}

std::string name_of(const BenchSide& side) {
  return side.entry->name + "/conf:" + (side.conf.empty() ? "unset" : side.conf);
}

}  // namespace allocmark

int main(int argc, char** argv) {
  try {
    return allocmark::run(argc, argv);
  } catch (const allocmark::Error& error) {
    std::fprintf(stderr, "allocmark_bench: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allocmark_bench: internal error: %s\n", error.what());
    return static_cast<int>(allocmark::ExitCode::Internal);
  }
}
