#include "harness/tools/run/dealt_gpus.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include "base/error.h"

namespace allocmark {

void require_gpus(const RunCommand& command, const DeviceChoice& device,
                  const std::string& program_path) {
  const auto refuse = [&](std::string wanted, std::string got, std::string next) {
    throw UsageError({.what = "cells cannot be dealt out to these GPUs",
                      .where = fmt::format("--gpus {}", command.gpu_count),
                      .wanted = std::move(wanted),
                      .got = std::move(got),
                      .next = std::move(next)});
  };
  if (command.job_count) {
    refuse("--gpus alone: each GPU runs one cell at a time", "--jobs", "leave one of them out");
  }
  if (device.device != "cuda:0") {
    refuse("the machine's GPUs from 0 on: --device auto or cuda:0", device.device,
           "simulated devices run several cells with --jobs");
  }
  for (std::uint32_t i = 1; i < command.gpu_count; ++i) {
    const DeviceChoice other = choose_device(fmt::format("cuda:{}", i), program_path);
    if (other.facts.gpu_name != device.facts.gpu_name) {
      refuse("GPUs of one model",
             fmt::format("{} and {}", device.facts.gpu_name, other.facts.gpu_name),
             "hide GPUs with CUDA_VISIBLE_DEVICES");
    }
  }
}

RunCellsOptions cells_options(const RunCommand& command, const std::string& device,
                              const std::string& program_path, const InterruptGuard* interrupt) {
  const std::uint32_t job_count = command.job_count.value_or(default_job_count(device));
  return {.program_path = program_path,
          .job_count = command.gpu_count > 0 ? command.gpu_count : job_count,
          .gpu_count = command.gpu_count,
          .interrupt = interrupt};
}

}  // namespace allocmark
