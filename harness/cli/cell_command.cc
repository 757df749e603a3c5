// The hidden command "cell": the child side of harness/run/cell_process.h. A specification comes in
// on stdin, one JSON line goes out on fd 3. With --describe-device it says instead what the device
// is; with --live it is the child side of harness/parity/live_parity.h: a program comes in, its
// answers go out; with --qualify that of harness/qualify/child.h: a test comes in, its answer goes
// out; with --conformance that of harness/conformance/conduct.h; with --threads that of
// harness/threads/threads_process.h; with --ranks that of harness/ranks/ranks_process.h; with
// --simcheck that of harness/simcheck/answers.h; with --soak that of harness/soak/soak_process.h;
// with --open it is the process of harness/run/open_driver.h.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "allocators/cuda/host_room.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "harness/advise/search_process.h"
#include "harness/cell/cell.h"
#include "harness/cli/commands.h"
#include "harness/conformance/conduct.h"
#include "harness/core/device/cards.h"
#include "harness/core/device/runtime_select.h"
#include "harness/job/child_process.h"
#include "harness/parity/live_program.h"
#include "harness/qualify/child.h"
#include "harness/qualify/run_test.h"
#include "harness/ranks/ranks_process.h"
#include "harness/run/cell_process.h"
#include "harness/run/environment.h"
#include "harness/run/open_driver.h"
#include "harness/run/run_folder.h"
#include "harness/simcheck/answers.h"
#include "harness/soak/soak_process.h"
#include "harness/threads/threads_process.h"
#include "results/json.h"

namespace allocmark {
namespace {

void send_line(const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(kResultFd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
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

void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    throw EnvironmentError(
        {.what = fmt::format("{} failed", call),
         .where = "",
         .wanted = "",
         .got = fmt::format("{} ({})", cudaGetErrorName(error), cudaGetErrorString(error)),
         .next = ""});
  }
}

// Makes `device` the current one, with the runtime that it needs.
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
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
  // Before CUDA 12 it makes no context.
  if (!is_simulated(device)) check_cuda(cudaFree(nullptr), "cudaFree");
}

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

void describe(std::string_view device) {
  select_device(device);
  void* pointer = nullptr;
  check_cuda(cudaMalloc(&pointer, 1), "cudaMalloc");
  check_cuda(cudaFree(pointer), "cudaFree");
  int index = 0;
  cudaDeviceProp properties{};
  int driver_version = 0;
  int runtime_version = 0;
  check_cuda(cudaGetDevice(&index), "cudaGetDevice");
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  check_cuda(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&runtime_version), "cudaRuntimeGetVersion");
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
  send_line(to_json_line(facts) + "\n");
}

[[noreturn]] void hold_driver_open() {
  int count = 0;
  (void)cudaGetDeviceCount(&count);  // opens the driver, and makes no context
  while (true) pause();
}

void run_one_cell() {
  const std::string input((std::istreambuf_iterator<char>(std::cin)),
                          std::istreambuf_iterator<char>());
  const CellSpec spec = cell_spec_from_json(input);
  select_device(spec.key.device);
  PassTurns turns(kTurnFd);
  const bool waits = (spec.takes_turns || spec.in_rounds) && turns.connected();
  const auto send = [](const CellResult& result) { send_line(to_json_line(result) + "\n"); };
  send(run_cell(spec, waits ? &turns : nullptr, send));
}

}  // namespace

ExitCode cell_command(int argc, char** argv) {
  const std::string_view parent = argc > 2 ? argv[2] : "";
  int parent_pid = 0;
  std::from_chars(parent.data(), parent.data() + parent.size(), parent_pid);
  if (parent_pid <= 0) {
    throw UsageError({.what = "'cell' is what 'allocmark run' starts, not for use by hand",
                      .where = "",
                      .wanted = "",
                      .got = "",
                      .next = "see: allocmark run --help"});
  }
  end_with_parent(parent_pid);
  if (argc == 4 && std::string_view(argv[3]) == "--qualify") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    send_line(qualify::to_json_line(qualify::run_test(qualify::spec_from_json(input))) + "\n");
  } else if (argc == 4 && std::string_view(argv[3]) == "--conformance") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    send_line(conformance::answer_line(input));
  } else if (argc == 4 && std::string_view(argv[3]) == "--search") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    search_and_tell(search_spec_from_json(input), send_line);
  } else if (argc == 5 && std::string_view(argv[3]) == "--threads") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    select_device(argv[4]);
    send_line(to_json(run_threads(threads_spec_from_json(input))) + "\n");
  } else if (argc == 5 && std::string_view(argv[3]) == "--soak") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    select_device(argv[4]);
    soak_and_tell(soak_spec_from_json(input, "stdin"), send_line);
  } else if (argc == 5 && std::string_view(argv[3]) == "--ranks") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    select_device(argv[4]);
    send_line(to_json(run_ranks(ranks_spec_from_json(input))) + "\n");
  } else if (argc == 5 && std::string_view(argv[3]) == "--simcheck") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    select_device(argv[4]);
    simcheck::run_jobs(simcheck::jobs_from_json(input), send_line);
  } else if (argc == 5 && std::string_view(argv[3]) == "--describe-device") {
    describe(argv[4]);
  } else if (argc == 5 && std::string_view(argv[3]) == kOpenOption) {
    hold_driver_open();
  } else if (argc == 5 && std::string_view(argv[3]) == "--live") {
    const std::string input((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
    run_live_program(caching::program_from_trace(input), argv[4], send_line);
  } else {
    run_one_cell();
  }
  // Nothing is left to do, and a driver's destructors can take long or hang.
  std::cout.flush();
  _exit(static_cast<int>(ExitCode::Pass));
}

}  // namespace allocmark
