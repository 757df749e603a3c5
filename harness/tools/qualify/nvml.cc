// See nvml.h.
#include "harness/tools/qualify/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include "base/assert.h"

namespace allocmark::qualify {
namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;
constexpr int kFunctionNotFound = 13;
constexpr int kSmClock = 1;
constexpr int kGpuTemperature = 0;
constexpr int kCorrected = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceDriverLoad = 0;  // volatile counters
constexpr unsigned long long kXidEvents = 8;
constexpr std::size_t kProcessCountMax = 256;

struct Memory {
  unsigned long long total_bytes, free_bytes, used_bytes;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total_bytes, reserved_bytes, free_bytes, used_bytes;
};
struct Process {
  unsigned process_id;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

template <typename... Arguments>
int Nvml::call(const char* name, Arguments... arguments) const {
  if (library_ == nullptr) return kFunctionNotFound;
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
  return function == nullptr ? kFunctionNotFound : function(arguments...);
}

template <typename Number>
NvmlReading Nvml::answer(int error, const Number& value) const {
  if (error != kSuccess || !problem_.empty()) return failed(error);
  return {.value = static_cast<double>(value), .problem = {}};
}

template <typename Number, typename... Arguments>
NvmlReading Nvml::number(const char* name, Arguments... arguments) const {
  Number value{};
  return answer(call(name, gpu_, arguments..., &value), value);
}

template <typename... Arguments>
std::string Nvml::text(const char* name, Arguments... arguments) const {
  std::array<char, 96> text{};
  const bool known = problem_.empty() && call(name, arguments..., text.data(),
                                              static_cast<unsigned>(text.size())) == kSuccess;
  return known ? text.data() : "";
}

Nvml::Nvml() {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = "NVML (libnvidia-ml.so.1) cannot be loaded";
  } else if (const int error = call("nvmlInit_v2"); error != kSuccess) {
    problem_ = "NVML does not start: " + failed(error).problem;
  }
}

Nvml::~Nvml() {
  if (events_ != nullptr) (void)call("nvmlEventSetFree", events_);
  if (problem_.empty()) (void)call("nvmlShutdown");
}

NvmlReading Nvml::failed(int error) const {
  if (!problem_.empty()) return {.value = {}, .problem = problem_};
  const auto text = reinterpret_cast<const char* (*)(int)>(dlsym(library_, "nvmlErrorString"));
  const bool unsupported = error == kNotSupported || error == kFunctionNotFound;
  return {.value = {},
          .problem = text == nullptr ? fmt::format("NVML error {}", error)
                                     : fmt::format("NVML: {} (error {})", text(error), error),
          .is_unsupported = unsupported};
}

NvmlReading Nvml::device_count() const {
  unsigned count = 0;
  return answer(call("nvmlDeviceGetCount_v2", &count), count);
}

std::string Nvml::driver_version() const { return text("nvmlSystemGetDriverVersion"); }
std::string Nvml::serial() const {
  return gpu_ == nullptr ? "" : text("nvmlDeviceGetSerial", gpu_);
}
std::string Nvml::vbios() const {
  return gpu_ == nullptr ? "" : text("nvmlDeviceGetVbiosVersion", gpu_);
}

std::string Nvml::select(const std::string& pci_bus_id) {
  if (!problem_.empty()) return problem_;
  const int error = call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &gpu_);
  return error == kSuccess ? "" : failed(error).problem;
}

// Without what the driver reserves for itself, where it says how much that is.
NvmlReading Nvml::used_bytes() const {
  MemoryV2 memory{};
  memory.version = static_cast<unsigned>(sizeof(MemoryV2)) | 2u << 24;
  const int error = call("nvmlDeviceGetMemoryInfo_v2", gpu_, &memory);
  if (error != kFunctionNotFound) return answer(error, memory.used_bytes);
  Memory all{};
  return answer(call("nvmlDeviceGetMemoryInfo", gpu_, &all), all.used_bytes);
}

NvmlReading Nvml::other_processes() const {
  unsigned other_count = 0;
  for (const bool is_graphics : {false, true}) {
    std::vector<Process> processes(kProcessCountMax);
    unsigned count = kProcessCountMax;
    const int error = call(is_graphics ? "nvmlDeviceGetGraphicsRunningProcesses_v3"
                                       : "nvmlDeviceGetComputeRunningProcesses_v3",
                           gpu_, &count, processes.data());
    if (is_graphics && error != kSuccess) continue;  // GPUs for computing have none
    if (error == kInsufficientSize) return answer(kSuccess, count);
    if (error != kSuccess) return failed(error);
    processes.resize(count);
    other_count += static_cast<unsigned>(std::ranges::count_if(
        processes, [](unsigned id) { return id != static_cast<unsigned>(getpid()); },
        &Process::process_id));
  }
  return answer(kSuccess, other_count);
}

NvmlReading Nvml::ecc_on() const {
  int current = 0;
  int pending = 0;
  return answer(call("nvmlDeviceGetEccMode", gpu_, &current, &pending), current);
}

template <int kKind>
NvmlReading Nvml::ecc_errors() const {
  return number<unsigned long long>("nvmlDeviceGetTotalEccErrors", kKind, kSinceDriverLoad);
}

// Rows put out of use (0: corrected and uncorrected errors together), 1: pending, 2: failed. Older
// GPUs retire pages instead.
template <std::size_t kWhich>
NvmlReading Nvml::remapped() const {
  std::array<unsigned, 4> rows{};
  const int error = call("nvmlDeviceGetRemappedRows", gpu_, &rows[0], &rows[1], &rows[2], &rows[3]);
  if (error != kNotSupported && error != kFunctionNotFound) {
    return answer(error, kWhich == 0 ? rows[0] + rows[1] : rows.at(kWhich + 1));
  }
  if (kWhich == 1) return number<int>("nvmlDeviceGetRetiredPagesPendingStatus");
  if (kWhich == 2) return failed(kNotSupported);
  unsigned page_count = 0;
  for (const int cause : {0, 1}) {
    unsigned count = 0;
    const int counted = call("nvmlDeviceGetRetiredPages", gpu_, cause, &count,
                             static_cast<unsigned long long*>(nullptr));
    if (counted != kSuccess && counted != kInsufficientSize) return failed(counted);
    page_count += count;
  }
  return answer(kSuccess, page_count);
}

NvmlReading Nvml::throttle_bits() const {
  NvmlReading reading = number<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!reading.value) {
    reading = number<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons");
  }
  if (reading.value) {
    const auto bits = static_cast<std::uint64_t>(*reading.value);
    reading.value = static_cast<double>(bits & kHarmfulThrottleBits);
  }
  return reading;
}

std::span<const Nvml::Reader> Nvml::readers() {
  static constexpr Reader kReaders[] = {
      {.name = "used_bytes", .read = &Nvml::used_bytes},
      {.name = "other_processes", .read = &Nvml::other_processes},
      {.name = "ecc_on", .read = &Nvml::ecc_on},
      {.name = "ecc_corrected", .read = &Nvml::ecc_errors<kCorrected>},
      {.name = "ecc_uncorrected", .read = &Nvml::ecc_errors<kUncorrected>},
      {.name = "retired", .read = &Nvml::remapped<0>},
      {.name = "remap_pending", .read = &Nvml::remapped<1>},
      {.name = "remap_failed", .read = &Nvml::remapped<2>},
      {.name = "throttle_bits", .read = &Nvml::throttle_bits},
      {"celsius", "nvmlDeviceGetTemperature", kGpuTemperature},
      {"sm_mhz", "nvmlDeviceGetClockInfo", kSmClock},
      {"sm_mhz_max", "nvmlDeviceGetMaxClockInfo", kSmClock},
      {"pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"},
      {"pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"},
      {"power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit"},
      {"power_limit_default_mw", "nvmlDeviceGetPowerManagementDefaultLimit"}};
  return kReaders;
}

NvmlReading Nvml::read(std::string_view name) const {
  if (!problem_.empty() || gpu_ == nullptr) {
    return {.value = {}, .problem = problem_.empty() ? "NVML does not have this GPU" : problem_};
  }
  const auto reader = std::ranges::find(readers(), name, &Reader::name);
  ALLOCMARK_ASSERT(reader != readers().end());
  if (reader->read != nullptr) return (this->*reader->read)();
  return reader->argument ? number<unsigned>(reader->function, *reader->argument)
                          : number<unsigned>(reader->function);
}

std::map<std::string, double> Nvml::read_all() const {
  std::map<std::string, double> values;
  for (const Reader& reader : readers()) {
    if (const NvmlReading reading = read(reader.name); reading.value) {
      values.emplace(reader.name, *reading.value);
    }
  }
  return values;
}

std::string Nvml::watch_events() {
  if (!problem_.empty() || gpu_ == nullptr) return read("used_bytes").problem;
  int error = events_ == nullptr ? call("nvmlEventSetCreate", &events_) : kSuccess;
  if (error == kSuccess) error = call("nvmlDeviceRegisterEvents", gpu_, kXidEvents, events_);
  return error == kSuccess ? "" : failed(error).problem;
}

std::optional<std::uint64_t> Nvml::next_xid(std::uint32_t timeout_ms) {
  EventData data{};
  if (events_ == nullptr || call("nvmlEventSetWait_v2", events_, &data, timeout_ms) != kSuccess) {
    return std::nullopt;
  }
  return data.data;
}

}  // namespace allocmark::qualify
