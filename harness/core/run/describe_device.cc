// See environment.h: what a device is, from a process that has its runtime.
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "harness/core/device/cards.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/job/job.h"
#include "harness/job/serve.h"
#include "results/json.h"

namespace allocmark {
namespace {

// A driver that does not answer within this time does not work.
constexpr double kDescribeTimeoutS = 30;

std::string format_cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// What a profile says of where it was measured: the GPU, and how fast its host is where that is
// known.
void add_profile_facts(const SimulatedCard& card, const std::string& path, Environment* facts) {
  const std::string text = read_file(path, kSettingsInput);
  facts->profile_name = card.profile;
  facts->profile_hash = text_hash(text);
  const JsonSource source{.where = path,
                          .what = "this is not the profile of a device",
                          .wanted = "what 'allocmark profile' writes",
                          .next = "measure it again: allocmark profile"};
  const nlohmann::json profile = parse_json(text, source);
  try {
    if (card.borrows_times()) {
      facts->times_borrowed_from = profile.at("device").at("name").get<std::string>();
    }
    const nlohmann::json about = profile.value("about", nlohmann::json::object());
    facts->profile_host_reference_ns = about.value("host_reference_ns", 0.0);
    facts->profile_host_reference_basis = about.value("host_reference_basis", std::string());
    facts->profile_clock_overhead_ns = about.value("clock_ns_taken_off", 0.0);
  } catch (const nlohmann::json::exception& error) {
    refuse_json(source, json_reason(error));
  }
}

void describe(const std::string& device, const Tell<std::string>& tell) {
  void* pointer = nullptr;
  check_device_call(cudaMalloc(&pointer, 1), "cudaMalloc");
  check_device_call(cudaFree(pointer), "cudaFree");
  int index = 0;
  cudaDeviceProp properties{};
  int driver_version = 0;
  int runtime_version = 0;
  check_device_call(cudaGetDevice(&index), "cudaGetDevice");
  check_device_call(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  check_device_call(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion");
  check_device_call(cudaRuntimeGetVersion(&runtime_version), "cudaRuntimeGetVersion");
  Environment facts;
  fill_build(&facts);
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    facts.warnings.push_back(reason);
  }
  facts.device = device;
  facts.gpu_name = properties.name;
  facts.gpu_memory_bytes = properties.totalGlobalMem;
  facts.driver_version = format_cuda_version(driver_version);
  facts.runtime_version = format_cuda_version(runtime_version);
  if (is_simulated(device)) {
    add_profile_facts(parse_simulated_device(device), profile_path(device), &facts);
  } else {
    facts.gpu_uuid_hash = text_hash({properties.uuid.bytes, std::size(properties.uuid.bytes)});
  }
  tell(to_json_line(facts) + "\n");
}

// Programs of other builds are asked the same way: the answer is the line of an environment.
constexpr Job<std::string, std::string> kDescribe{
    .name = "describe-device", .what = "the device's description", .run = describe};

}  // namespace

DeviceAnswer describe_device(std::string_view device, const std::string& program_path) {
  const ChildOutcome outcome = run_child(command_of(kDescribe, {},
                                                    {.program_path = program_path,
                                                     .device = std::string(device),
                                                     .timeout_s = kDescribeTimeoutS}));
  DeviceAnswer answer;
  if (outcome.timed_out) {
    answer.failure = fmt::format("the CUDA driver did not answer within {} s", kDescribeTimeoutS);
  } else if (outcome.signal_number != 0 || outcome.exit_code != 0) {
    answer.failure = error_of(outcome, "asking for it").what;
  } else {
    try {
      answer.facts = environment_from_json(
          std::string_view(outcome.result).substr(0, outcome.result.find('\n')),
          "the device's description");
    } catch (const UsageError& error) {
      answer.failure =
          fmt::format("{} is no allocmark of this version: {}", program_path, error.what());
    }
  }
  while (!answer.failure.empty() && answer.failure.back() == '\n') answer.failure.pop_back();
  return answer;
}

extern const JobEntry kDescribeDeviceJob;
constinit const JobEntry kDescribeDeviceJob = job_entry<kDescribe>();

}  // namespace allocmark
