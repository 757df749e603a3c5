// allocmark_micro: latency of single allocations as a Google Benchmark program, so that its flags,
// its JSON and its compare.py work as ever. Command line in; Google Benchmark's report out.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/run/runtime_select.h"
#include "harness/speed/micro/pair_benchmark.h"

namespace allocmark {
namespace {

constexpr const char* kHelp =
    "allocmark_micro: latency of one allocate and one deallocate, per allocator, size and number "
    "of threads\n"
    "\n"
    "  --device DEVICE     auto (a GPU if there is one, else sim:h200), cuda:N or sim:PROFILE\n"
    "  --allocator NAME    only this one; may stand several times\n"
    "  --conf STRING       also with this config string, for the allocators that accept it; may "
    "stand several times\n"
    "  --size SIZE         this size instead of the default ones (\"4KiB\"); may stand several "
    "times\n"
    "  --threads COUNT     this number of threads instead of 1, 2 and 4; may stand several times\n"
    "\n"
    "Names read pair/ALLOCATOR/conf:STRING/size:BYTES/threads:COUNT (cached) and cold/... (cache "
    "emptied before each\n"
    "pair). On a simulated device Time is the host's, with the simulator's own share in "
    "simulator_ns; what the driver\n"
    "would have taken is driver_modelled_ns. All flags of Google Benchmark work beside these:\n\n";

struct CommandLine {
  std::string device = "auto";
  MicroOptions options;
  bool help = false;
};

// The value of "--flag VALUE" or "--flag=VALUE" at `index`, which is moved past it; nothing where
// it is another flag.
std::optional<std::string> value_of(std::string_view flag,
                                    const std::vector<std::string>& arguments, std::size_t& index) {
  const std::string& argument = arguments[index];
  if (argument == flag) {
    if (index + 1 == arguments.size()) {
      throw UsageError({.what = "a flag has no value",
                        .where = argument,
                        .wanted = {},
                        .got = {},
                        .next = "--help shows all flags"});
    }
    return arguments[++index];
  }
  const std::string prefix = std::string(flag) + "=";
  if (argument.starts_with(prefix)) {
    return argument.substr(prefix.size());
  }
  return std::nullopt;
}

std::uint64_t number_of(std::string_view flag, const std::string& text) {
  const std::optional<std::uint64_t> value = parse_bytes_or_count(text);
  const bool is_count = flag == "--threads";
  if (!value || *value == 0 || (is_count && *value > 1024)) {
    throw UsageError(
        {.what = "a flag's value is not allowed",
         .where = std::string(flag),
         .wanted = is_count ? "a number from 1 to 1024" : "a size such as 4096 or 2MiB",
         .got = "'" + text + "'",
         .next = {}});
  }
  return *value;
}

// Takes our flags out of `arguments`; what remains is Google Benchmark's.
CommandLine read_command_line(std::vector<std::string>& arguments) {
  CommandLine line;
  line.options.confs = {""};
  std::vector<std::string> rest;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    if (const auto device = value_of("--device", arguments, index)) {
      line.device = *device;
    } else if (const auto allocator = value_of("--allocator", arguments, index)) {
      line.options.allocators.emplace_back(find_backend(*allocator).name);
    } else if (const auto conf = value_of("--conf", arguments, index)) {
      line.options.confs.push_back(*conf);
    } else if (const auto size = value_of("--size", arguments, index)) {
      line.options.sizes_bytes.push_back(number_of("--size", *size));
    } else if (const auto threads = value_of("--threads", arguments, index)) {
      line.options.thread_counts.push_back(static_cast<int>(number_of("--threads", *threads)));
    } else {
      line.help |= arguments[index] == "--help";
      rest.push_back(arguments[index]);
    }
  }
  arguments = rest;
  if (line.options.sizes_bytes.empty()) {
    line.options.sizes_bytes = {512, 4 * kKiB, 256 * kKiB, 2 * kMiB, 20 * kMiB};
  }
  if (line.options.thread_counts.empty()) {
    line.options.thread_counts = {1, 2, 4};
  }
  return line;
}

// A config string that no chosen allocator accepts is a mistake; of the refusals, one that knows a
// similar key helps most.
void check_confs(const MicroOptions& options) {
  for (const std::string& conf : options.confs) {
    std::optional<ErrorText> refusal;
    bool accepted = false;
    for (const BackendEntry& entry : backend_registry()) {
      const std::vector<std::string>& chosen = options.allocators;
      if (chosen.empty() || std::find(chosen.begin(), chosen.end(), entry.name) != chosen.end()) {
        const std::optional<ErrorText> error = entry.check_conf(conf);
        accepted |= !error;
        const bool has_suggestion =
            refusal && refusal->next.find("did you mean") != std::string::npos;
        refusal = error && !has_suggestion ? error : refusal;
      }
    }
    if (!accepted) {
      throw UsageError(refusal.value_or(ErrorText{}));
    }
  }
}

std::string resolve_device(const std::string& device) {
  if (device != "auto") {
    return device;
  }
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

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  const CommandLine line = read_command_line(arguments);
  if (line.help) {
    std::fputs(kHelp, stdout);
  } else {
    check_confs(line.options);
    const std::string device = resolve_device(line.device);
    choose_device(device, argv);
    add_context(device);
    register_pair_benchmarks(line.options);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
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
}  // namespace allocmark

int main(int argc, char** argv) {
  try {
    return allocmark::run(argc, argv);
  } catch (const allocmark::Error& error) {
    std::fprintf(stderr, "allocmark_micro: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allocmark_micro: internal error: %s\n", error.what());
    return static_cast<int>(allocmark::ExitCode::Internal);
  }
}
