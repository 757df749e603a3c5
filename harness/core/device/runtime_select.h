// Which CUDA runtime a process gets: the simulated one (simcuda) or the machine's. The choice is
// made by the environment a process is started with, because the dynamic linker makes it before
// main.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace allocmark {

// "sim:h200" is simulated, "cuda:0" is not.
[[nodiscard]] bool is_simulated(std::string_view device);

// simcuda is the runtime of this process.
[[nodiscard]] bool simcuda_loaded();

// The folder with simcuda's libraries: beside the program (this one where none is named), or where
// this one was built.
[[nodiscard]] std::string simcuda_folder(const std::string& program_path = {});

// What a process for `device` needs in its environment besides ours. Throws EnvironmentError where
// simcuda is needed and missing.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> runtime_environment(
    std::string_view device, const std::string& program_path = {});

// Starts this program again with the runtime that `device` needs, where it is not loaded yet;
// returns otherwise. Call it first thing in main: nothing of the old process is kept but its
// arguments and environment.
void ensure_runtime(std::string_view device, char** argv);

// Folders in which profiles are looked for by name: the one that ALLOCMARK_PROFILES names, and the
// one that ships with the suite.
[[nodiscard]] std::vector<std::string> profile_folders();

// The profile file of a simulated device: sim:NAME for NAME.json in one of these folders, the path
// itself (sim:PATH), or the profile that lends a card its times.
[[nodiscard]] std::string profile_path(std::string_view device);

// Names of the simulated devices in all of these folders ("sim:h200").
[[nodiscard]] std::vector<std::string> simulated_devices();

// Throws UsageError with the nearest names where `device` is not auto, cuda:N, or sim:
// with a card or a profile's path. `option` is the one that named it.
void check_device(std::string_view device, std::string_view option = "--device");

}  // namespace allocmark
