// See serve.h.
#include "harness/job/serve.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include "allocators/cuda/host_room.h"
#include "harness/core/device/runtime_select.h"

namespace allocmark {
namespace {

void send_text(const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(kResultFd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw EnvironmentError({.what = "cannot hand over the result",
                              .where = "file descriptor 3",
                              .wanted = "the pipe that 'allocmark run' gives to its cells",
                              .got = std::error_code(errno, std::generic_category()).message(),
                              .next = "use: allocmark run"});
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

[[noreturn]] void refuse_call(std::string_view got) {
  throw UsageError({.what = "'cell' is what 'allocmark run' starts, not for use by hand",
                    .got = std::string(got),
                    .next = "see: allocmark run --help"});
}

}  // namespace

void check_device_call(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw EnvironmentError(
      {.what = fmt::format("{} failed", call),
       .got = fmt::format("{} ({})", cudaGetErrorName(error), cudaGetErrorString(error))});
}

void select_device(std::string_view device) {
  if (is_simulated(device) != simcuda_loaded()) {
    throw EnvironmentError({.what = "the wrong CUDA runtime is loaded",
                            .where = fmt::format("device {}", device),
                            .wanted = is_simulated(device) ? "simcuda" : "the machine's own",
                            .got = simcuda_loaded() ? "simcuda" : "the machine's own",
                            .next = "check LD_LIBRARY_PATH and LD_PRELOAD"});
  }
  int index = 0;
  if (!is_simulated(device)) {
    const std::string_view number = device.substr(device.find(':') + 1);
    std::from_chars(number.data(), number.data() + number.size(), index);
  }
  const HostRoom room;
  check_device_call(cudaSetDevice(index), "cudaSetDevice");
  // Before CUDA 12 it makes no context.
  if (!is_simulated(device)) check_device_call(cudaFree(nullptr), "cudaFree");
}

void serve_job(int argc, char** argv, std::span<const JobEntry* const> entries) {
  const std::string_view parent = argc > 2 ? argv[2] : "";
  int parent_pid = 0;
  std::from_chars(parent.data(), parent.data() + parent.size(), parent_pid);
  if (parent_pid <= 0) refuse_call("");
  end_with_parent(parent_pid);
  const std::string_view name = argc > 3 ? std::string_view(argv[3]) : "--cell";
  const auto entry = std::ranges::find_if(entries, [&](const JobEntry* one) {
    return name.starts_with("--") && name.substr(2) == one->name;
  });
  if (entry == entries.end()) refuse_call(name);
  const std::string device = argc > 4 ? argv[4] : "";
  std::string request((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (request.empty()) request = device;
  if ((*entry)->opens_device) select_device(device);
  // A process that the job's allocator forked has nothing to say.
  const pid_t own = getpid();
  (*entry)->serve(request, [own](const std::string& text) {
    if (getpid() == own) send_text(text);
  });
  std::cout.flush();
  _exit(static_cast<int>(ExitCode::Pass));
}

}  // namespace allocmark
