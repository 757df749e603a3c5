// 'allocmark size SIZE...': each size in bytes, and as tables print it; with --of DEVICE also which
// share of that device's memory it is. A process of its own asks the device.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/job/job.h"
#include "harness/shell/options.h"
#include "harness/shell/registry.h"

namespace allocmark {
namespace {

struct DeviceMemory {
  std::uint64_t total_bytes = 0;
};

// The request is empty: the device is told with the place.
constexpr Job<std::string, DeviceMemory> kSize{
    .name = "size", .what = "the device", .run = [](const std::string&, const auto& tell) {
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
      tell({.total_bytes = total_bytes});
    }};

struct SizeCommand {
  std::vector<std::string> sizes;
  std::string device;
};

void add_size(CLI::App* app, SizeCommand* command) {
  add_value(app, "sizes", command->sizes, "SIZE", "Sizes with a unit, as 24GiB")->required();
  add_value(app, "--of", command->device, "D",
            "Also say which share of this device's memory it is");
}

ExitCode run_size(const SizeCommand& command) {
  DeviceMemory memory;
  if (!command.device.empty()) memory = ask_job(kSize, "", {.device = command.device});
  for (const std::string& text : command.sizes) {
    const std::optional<std::uint64_t> size_bytes = parse_bytes(text);
    if (!size_bytes) {
      throw UsageError({.what = "this is no size",
                        .where = "SIZE",
                        .wanted = "a number with a unit, as 24GiB",
                        .got = text,
                        .next = explain_bytes(text)});
    }
    fmt::print("{} {}", *size_bytes, format_bytes(*size_bytes));
    if (memory.total_bytes > 0) {
      const double share =
          static_cast<double>(*size_bytes) / static_cast<double>(memory.total_bytes);
      fmt::print(", {:.1f} % of {}", 100 * share, command.device);
    }
    fmt::print("\n");
  }
  return ExitCode::Pass;
}

}  // namespace

extern const JobEntry kSizeJob;
constinit const JobEntry kSizeJob = job_entry<kSize>();

extern const CommandEntry kSizeCommand;
constinit const CommandEntry kSizeCommand{
    "size", "Say how many bytes a size is",
    [](CLI::App* app) { return bind_command(app, add_size, run_size); }};

}  // namespace allocmark
