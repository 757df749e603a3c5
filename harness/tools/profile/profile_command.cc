// 'allocmark profile': measures a device into the profile that a simulated device is made from.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cuda_runtime_api.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/profile/profile.h"
#include "harness/core/run/environment.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"

namespace allocmark {
namespace {

struct ProfileCommand {
  std::string device = "cuda:0";
  std::string out;                 // the file to write
  bool force = false;              // replace it
  std::uint64_t repeat_count = 8;  // of every block of calls
  std::vector<std::string> argv;   // of the program, as above
};

void add_profile(CLI::App* app, ProfileCommand* command) {
  app->add_option("-d,--device", command->device, "The device to measure: cuda:N, or sim:NAME")
      ->capture_default_str()
      ->type_name("D");
  app->add_option("-o,--out", command->out, "The profile's file, as used by --device sim:FILE")
      ->required()
      ->type_name("FILE");
  add_force(app, &command->force);
  app->add_option("--repeats", command->repeat_count,
                  "Times that every kind of call is measured, in turns with the others")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str()
      ->type_name("N");
}

// Starts this program again with the runtime of a simulated device, where it is not loaded.
void take_runtime(const ProfileCommand& command) {
  std::vector<std::string> arguments = command.argv;
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  ensure_runtime(command.device, argv.data());
}

}  // namespace

ExitCode profile_command(const ProfileCommand& command) {
  check_device(command.device);
  check_output_file(command.out, command.force, "--out");
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    print_warning("warning: " + reason);
  }
  take_runtime(command);
  // Asked in a child: a machine without a GPU gives its reason.
  const DeviceChoice choice = choose_device(command.device, own_program_path());
  if (choice.device != command.device) {
    throw EnvironmentError({.what = "there is no GPU to measure",
                            .where = "--device " + command.device,
                            .wanted = "a GPU, or a simulated device by name",
                            .got = choice.note,
                            .next = "allocmark profile --device cuda:0 --out FILE.json"});
  }
  Environment environment = host_environment(command.argv);
  merge_device(choice.facts, &environment);
  if (!is_simulated(command.device)) {
    const std::string number = command.device.substr(command.device.find(':') + 1);
    int index = 0;
    std::from_chars(number.data(), number.data() + number.size(), index);
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(index));
  }
  const DeviceProfile profile = measure_profile(
      {.repeat_count = command.repeat_count, .on_repeat = [&](std::uint64_t repeat) {
         fmt::print(stderr, "repeat {} of {}\n", repeat + 1, command.repeat_count);
       }});
  write_file(command.out, to_json_text(profile, environment));
  fmt::print("{}\n{} repeats in {:.1f} s on {}\nprofile: {}\nuse it with: --device sim:{}\n",
             to_table(profile), profile.repeat_count, profile.wall_s, profile.facts.name,
             command.out, command.out);
  for (const std::string& warning : environment.warnings) {
    fmt::print("warning: {}\n", warning);
  }
  return ExitCode::Pass;
}

extern const CommandEntry kProfileCommand;
constinit const CommandEntry kProfileCommand{
    "profile", "Measure a device's memory calls, for a simulated device of its own",
    [](CLI::App* app) { return bind_command(app, add_profile, profile_command); }};

}  // namespace allocmark
