// See runtime_select.h.
#include "harness/core/device/runtime_select.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/own_process.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/cards.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSimulatedPrefix = "sim:";
constexpr std::string_view kGpuPrefix = "cuda:";
// A folder of profiles of one's own, searched before those that ship.
constexpr const char* kProfilesVariable = "ALLOCMARK_PROFILES";
// Set for a program started again by ensure_runtime, so that it is not started a second time.
constexpr const char* kRestartedVariable = "ALLOCMARK_RUNTIME_SELECTED";

bool holds_runtime(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("libcudart.so.")) return true;
  }
  return false;
}

std::string colon_list(const std::string& first, const char* rest) {
  return rest == nullptr || *rest == '\0' ? first : first + ":" + rest;
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() <= 4 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

bool is_profile_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json");
}

[[noreturn]] void refuse_profile(const std::string& path) {
  throw FileError(
      {.what = "there is no such device profile",
       .where = path,
       .wanted = "a profile file that 'allocmark profile' writes",
       .next = "check the path; for devices by name see: allocmark list devices cards"});
}

// "a100" names two cards, which differ in memory.
void refuse_if_ambiguous(std::string_view device, const std::string& name) {
  std::vector<std::string> meant;
  for (const Card& card : cards_meant(known_cards(), name)) {
    meant.push_back(fmt::format("sim:{} ({})", card.name, format_bytes(card.total_bytes)));
  }
  if (meant.empty()) return;
  throw UsageError({.what = fmt::format("'{}' is not the name of one card", device),
                    .where = "--device",
                    .wanted = fmt::format("{}", fmt::join(meant, " or ")),
                    .next = "see: allocmark list cards"});
}

// The name of a card without its "sim:".
void refuse_card(std::string_view device, std::string_view option) {
  const std::string name(device);
  refuse_other_vendors(device);
  const std::vector<std::string> known = simulated_devices();
  const std::vector<Card> cards = known_cards();
  const bool is_card = std::ranges::find(cards, name, &Card::name) != cards.end();
  if (!is_card && std::ranges::find(known, std::string(kSimulatedPrefix) + name) == known.end()) {
    return refuse_if_ambiguous(device, name);
  }
  throw UsageError(
      {.what = fmt::format("there is no device '{}'", device),
       .where = std::string(option),
       .next = fmt::format("did you mean '{}{}', which is simulated?", kSimulatedPrefix, name)});
}

}  // namespace

bool is_simulated(std::string_view device) { return device.starts_with(kSimulatedPrefix); }

bool simcuda_loaded() { return dlsym(RTLD_DEFAULT, "simcu_present") != nullptr; }

std::string simcuda_folder(const std::string& program_path) {
  const fs::path program = program_path.empty() ? own_program_path() : program_path;
  const fs::path beside = program.parent_path() / "../lib/simcuda";
  // Another build's program may come without one.
  const fs::path own = fs::path(own_program_path()).parent_path() / "../lib/simcuda";
  for (const fs::path& folder : {beside, own}) {
    if (holds_runtime(folder)) return fs::weakly_canonical(folder).string();
  }
  throw FileError(
      {.what = "the simulated CUDA runtime is missing",
       .where = beside.lexically_normal().string(),
       .wanted = "libcudart.so.13 (or .12) of simcuda",
       .got = "no such file",
       .next = "build it (cmake --build build/release --target simcuda), or use --device cuda:0"});
}

std::vector<std::pair<std::string, std::string>> runtime_environment(
    std::string_view device, const std::string& program_path) {
  if (!is_simulated(device)) {
    return {};
  }
  const SimulatedCard card = parse_simulated_device(device);
  std::vector<std::pair<std::string, std::string>> changes{
      {"LD_LIBRARY_PATH", colon_list(simcuda_folder(program_path), std::getenv("LD_LIBRARY_PATH"))},
      {"SIMCUDA_PROFILE", profile_path(device)},
      // On a GPU a cell loads its kernels before the backend's first request (device_work.cc).
      {"SIMCUDA_START", "kernel"}};
  if (card.total_bytes != 0) {
    changes.emplace_back("SIMCUDA_TOTAL_BYTES", std::to_string(card.total_bytes));
  }
  // It names the machine's GPUs. All simulated ones are shown: no list of theirs is longer.
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    changes.emplace_back("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15");
  }
  const auto add = [&](const char* variable, std::uint64_t size_bytes) {
    if (size_bytes > 0) changes.emplace_back(variable, std::to_string(size_bytes));
  };
  add("SIMCUDA_HOST_CACHE_BYTES", card.cached_bytes);
  if (card.host) {
    add("SIMCUDA_HOST_BYTES", card.host->own_bytes);
    add("SIMCUDA_HOST_RESERVE_BYTES", card.host->reserve_bytes);
  }
  if (!card.gpu_name.empty()) changes.emplace_back("SIMCUDA_NAME", card.gpu_name);
  return changes;
}

std::vector<std::string> profile_folders() {
  std::vector<std::string> folders;
  if (const char* own = std::getenv(kProfilesVariable); own != nullptr && *own != '\0') {
    folders.emplace_back(own);
  }
  folders.push_back((fs::path(simcuda_folder()) / "profiles").string());
  return folders;
}

std::string profile_path(std::string_view device) {
  const std::string name = parse_simulated_device(device).profile;
  for (const fs::path folder : profile_folders()) {
    const fs::path file = folder / (name + ".json");
    if (fs::is_regular_file(file)) return fs::absolute(file).string();
  }
  return fs::absolute(name).string();
}

void ensure_runtime(std::string_view device, char** argv) {
  if (!is_simulated(device) || simcuda_loaded()) return;
  if (std::getenv(kRestartedVariable) != nullptr) {
    throw EnvironmentError(
        {.what = "the simulated CUDA runtime was not loaded",
         .where = simcuda_folder(),
         .wanted = "a program linked with the shared CUDA runtime of the same major version",
         .got = "another runtime",
         .next = "run: ldd " + own_program_path() + " | grep cudart"});
  }
  std::vector<std::pair<std::string, std::string>> changes = runtime_environment(device);
  changes.emplace_back(kRestartedVariable, "1");
  std::vector<std::string> environment = environment_with(changes);
  std::vector<char*> pointers;
  for (std::string& entry : environment) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  execve(own_program_path().c_str(), argv, pointers.data());
  throw EnvironmentError({.what = "cannot start this program again with the simulated CUDA runtime",
                          .where = own_program_path(),
                          .got = std::strerror(errno)});
}

std::vector<std::string> simulated_devices() {
  std::vector<std::string> names;
  for (const std::string& folder : profile_folders()) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".json") {
        names.push_back("sim:" + entry.path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void check_device(std::string_view device, std::string_view option) {
  if (device == "auto" ||
      (device.starts_with(kGpuPrefix) && all_digits(device.substr(kGpuPrefix.size())))) {
    return;
  }
  const std::vector<std::string> known = simulated_devices();
  if (is_simulated(device)) {
    const std::string profile = parse_simulated_device(device).profile;
    const std::string name = std::string(kSimulatedPrefix) + profile;
    if (fs::is_regular_file(profile) || std::ranges::find(known, name) != known.end()) return;
    if (is_profile_path(profile)) refuse_profile(profile);
    refuse_other_vendors(device);
    refuse_if_ambiguous(device, profile);
  }
  if (!is_profile_path(std::string(device))) refuse_card(device, option);
  std::vector<std::string> near = known;
  near.insert(near.end(), {"auto", "cuda:0"});
  for (const Card& card : known_cards()) near.push_back("sim:" + card.name);
  throw UsageError({.what = fmt::format("there is no device '{}'", device),
                    .where = std::string(option),
                    .wanted = "auto, cuda:N, sim:CARD or sim:PATH (a profile file), sim: also with "
                              ",memory=24GiB",
                    .next = suggest(device, near) + "; see: allocmark list cards"});
}

}  // namespace allocmark
