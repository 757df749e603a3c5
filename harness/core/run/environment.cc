// See environment.h.
#include "harness/core/run/environment.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include "base/error.h"
#include "base/sha256.h"
#include "harness/build_info.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/measure/clock.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// More runnable processes per core than this disturb a measurement.
constexpr double kLoadPerCoreMax = 0.5;

#if defined(__clang__)
constexpr std::string_view kCompilerName = "clang++";
#else
constexpr std::string_view kCompilerName = "g++";
#endif

// The value after `key` and `separator` in a text file of the system; empty where there is none.
std::string system_value(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(line.find_first_not_of(" \t\"", at + 1));
    while (!value.empty() && (value.back() == '"' || value.back() == ' ')) value.pop_back();
    return value;
  }
  return {};
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t usable_cpu_count() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  return sched_getaffinity(0, sizeof(cpus), &cpus) == 0
             ? static_cast<std::uint64_t>(CPU_COUNT(&cpus))
             : 0;
}

void add_warnings(Environment* environment) {
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    environment->warnings.push_back(reason);
  }
  if (!environment->cpu_governor.empty() && environment->cpu_governor != "performance") {
    environment->warnings.push_back(
        fmt::format("the CPU governor is '{}'; with 'performance' latencies vary less",
                    environment->cpu_governor));
  }
  if (const std::string flags = " " + system_value("/proc/cpuinfo", "flags", ':') + " ";
      flags.find(" hypervisor ") != std::string::npos) {
    environment->warnings.push_back(
        "this is a virtual machine: its neighbours' work shows in latencies");
  }
  double load = 0;
  const auto cpu_count = static_cast<double>(environment->cpu_count);
  if (getloadavg(&load, 1) == 1 && cpu_count > 0 && load > kLoadPerCoreMax * cpu_count) {
    environment->warnings.push_back(
        fmt::format("{}: load average {:.1f} on {} cores before the first cell", kOtherWorkWarning,
                    load, environment->cpu_count));
  }
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string host_hash() {
  // Random, and not to be read from elsewhere; where a machine has none it is that of its last
  // start.
  std::string secret = first_line("/etc/machine-id");
  if (secret.empty()) secret = first_line("/proc/sys/kernel/random/boot_id");
  constexpr std::size_t kHashDigits = 16;
  return sha256_hex("allocmark\n" + secret + "\n" + host_name()).substr(0, kHashDigits);
}

std::string version_text() {
  return fmt::format("{} (git {}{}, {}, {} {})", kBuildVersion,
                     std::string_view(kBuildGitSha).substr(0, 12), kBuildGitDirty ? ", dirty" : "",
                     kBuildType, kCompilerName, __VERSION__);
}

std::string unfit_build_reason() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "this is a build with sanitizers; its latencies mean nothing";
#elif !defined(__OPTIMIZE__)
  return "this is an unoptimised build; its latencies mean nothing";
#else
  return {};
#endif
}

void fill_build(Environment* environment) {
  environment->allocmark_version = kBuildVersion;
  environment->git_sha = kBuildGitSha;
  environment->git_dirty = kBuildGitDirty;
  environment->build_type = kBuildType;
  environment->compiler = fmt::format("{} {}", kCompilerName, __VERSION__);
}

Environment host_environment(const std::vector<std::string>& argv) {
  Environment environment;
  fill_build(&environment);
  environment.argv = argv;
  // Where the program lies is nobody's business but its user's.
  if (!argv.empty()) {
    environment.argv.front() = std::filesystem::path(argv.front()).filename().string();
  }
  environment.started_utc = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  environment.hostname_hash = host_hash();
  environment.os = system_value("/etc/os-release", "PRETTY_NAME", '=');
  utsname names{};
  if (uname(&names) == 0) {
    environment.kernel = fmt::format("{} {}", names.sysname, names.release);
  }
  environment.cpu_model = system_value("/proc/cpuinfo", "model name", ':');
  environment.cpu_governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  environment.cpu_count = usable_cpu_count();
  struct sysinfo system {};
  if (sysinfo(&system) == 0) {
    environment.memory_bytes = std::uint64_t{system.totalram} * system.mem_unit;
  }
  TickClock clock;
  clock.finish_calibration();
  environment.clock_resolution_ns = clock.step_ns();
  environment.clock_overhead_ns = clock.pair_cost_ns();
  add_warnings(&environment);
  return environment;
}

void merge_device(const Environment& facts, Environment* environment) {
  environment->device = facts.device;
  environment->gpu_name = facts.gpu_name;
  environment->gpu_uuid_hash = facts.gpu_uuid_hash;
  environment->gpu_memory_bytes = facts.gpu_memory_bytes;
  environment->driver_version = facts.driver_version;
  environment->runtime_version = facts.runtime_version;
  environment->profile_name = facts.profile_name;
  environment->profile_hash = facts.profile_hash;
  environment->times_borrowed_from = facts.times_borrowed_from;
  environment->profile_host_reference_ns = facts.profile_host_reference_ns;
  environment->profile_host_reference_basis = facts.profile_host_reference_basis;
  environment->profile_clock_overhead_ns = facts.profile_clock_overhead_ns;
}

void merge_build(const Environment& facts, Environment* environment) {
  environment->allocmark_version = facts.allocmark_version;
  environment->git_sha = facts.git_sha;
  environment->git_dirty = facts.git_dirty;
  environment->build_type = facts.build_type;
  environment->compiler = facts.compiler;
}

DeviceChoice choose_device(const std::string& device, const std::string& program_path) {
  DeviceChoice choice{.device = device, .note = "", .facts = {}};
  if (device == "auto") {
    DeviceAnswer gpu = describe_device("cuda:0", program_path);
    if (gpu.failure.empty()) {
      return {.device = "cuda:0",
              .note = fmt::format("device: cuda:0 ({})", gpu.facts.gpu_name),
              .facts = std::move(gpu.facts)};
    }
    choice.device = "sim:h200";
    // The error's name is enough here; --device cuda:0 says all of it.
    const std::size_t got = gpu.failure.find("got ");
    std::string name = gpu.failure;
    if (got != std::string::npos) name = name.substr(got + 4, name.find(' ', got + 4) - got - 4);
    choice.note = fmt::format("device: sim:h200, simulated: no GPU works here ({})", name);
  }
  DeviceAnswer answer = describe_device(choice.device, program_path);
  if (!answer.failure.empty() && is_simulated(choice.device)) {
    throw UsageError({.what = fmt::format("device {} does not work", choice.device),
                      .where = "--device",
                      .wanted = "a profile that this allocmark can simulate",
                      .got = answer.failure,
                      .next = "see: allocmark list devices"});
  }
  if (!answer.failure.empty()) {
    throw EnvironmentError({.what = fmt::format("device {} does not work", choice.device),
                            .where = "--device",
                            .got = answer.failure,
                            .next = "check nvidia-smi, or simulate one with --device sim:h200"});
  }
  choice.facts = std::move(answer.facts);
  return choice;
}

std::string text_hash(std::string_view text) {
  // FNV-1a, 64 bits.
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return fmt::format("{:016x}", hash);
}

}  // namespace allocmark
