// See nvml.h.
#include "harness/tools/qualify/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <functional>

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

NvmlReading value_of(double value) { return {.value = value, .problem = {}}; }

}  // namespace

Nvml::Nvml() {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = "NVML (libnvidia-ml.so.1) cannot be loaded";
    return;
  }
  const auto init = find<int (*)()>("nvmlInit_v2");
  const int error = init == nullptr ? kFunctionNotFound : init();
  if (error != kSuccess) problem_ = "NVML does not start: " + failed(error).problem;
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (const auto free_set = find<int (*)(void*)>("nvmlEventSetFree");
      events_ != nullptr && free_set != nullptr) {
    (void)free_set(events_);
  }
  const auto shutdown = find<int (*)()>("nvmlShutdown");
  if (problem_.empty() && shutdown != nullptr) (void)shutdown();
}

template <typename Function>
Function Nvml::find(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
}

NvmlReading Nvml::failed(int error) const {
  if (!problem_.empty()) return {.value = {}, .problem = problem_};
  const auto text = find<const char* (*)(int)>("nvmlErrorString");
  const bool unsupported = error == kNotSupported || error == kFunctionNotFound;
  return {.value = {},
          .problem = text == nullptr ? fmt::format("NVML error {}", error)
                                     : fmt::format("NVML: {} (error {})", text(error), error),
          .is_unsupported = unsupported};
}

NvmlReading Nvml::device_count() const {
  unsigned count = 0;
  const auto function = find<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
  const int error = function == nullptr ? kFunctionNotFound : function(&count);
  return error == kSuccess && problem_.empty() ? value_of(count) : failed(error);
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  const auto function = find<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  const bool known = function != nullptr && problem_.empty() &&
                     function(text.data(), static_cast<unsigned>(text.size())) == kSuccess;
  return known ? text.data() : "";
}

std::string Nvml::text(const char* name) const {
  std::array<char, 96> text{};
  const auto function = find<int (*)(void*, char*, unsigned)>(name);
  const bool known = function != nullptr && problem_.empty() && gpu_ != nullptr &&
                     function(gpu_, text.data(), static_cast<unsigned>(text.size())) == kSuccess;
  return known ? text.data() : "";
}

std::string Nvml::select(const std::string& pci_bus_id) {
  if (!problem_.empty()) return problem_;
  const auto function = find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  const int error = function == nullptr ? kFunctionNotFound : function(pci_bus_id.c_str(), &gpu_);
  return error == kSuccess ? "" : failed(error).problem;
}

template <typename Number>
NvmlReading Nvml::number(const char* name) const {
  Number value{};
  const auto function = find<int (*)(void*, Number*)>(name);
  const int error = function == nullptr ? kFunctionNotFound : function(gpu_, &value);
  return error == kSuccess ? value_of(static_cast<double>(value)) : failed(error);
}

template <typename Number, typename Argument>
NvmlReading Nvml::number(const char* name, Argument argument) const {
  Number value{};
  const auto function = find<int (*)(void*, Argument, Number*)>(name);
  const int error = function == nullptr ? kFunctionNotFound : function(gpu_, argument, &value);
  return error == kSuccess ? value_of(static_cast<double>(value)) : failed(error);
}

// Without what the driver reserves for itself, where it says how much that is.
NvmlReading Nvml::used_bytes() const {
  if (const auto function = find<int (*)(void*, MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2")) {
    MemoryV2 memory{};
    memory.version = static_cast<unsigned>(sizeof(MemoryV2)) | 2u << 24;
    const int error = function(gpu_, &memory);
    return error == kSuccess ? value_of(static_cast<double>(memory.used_bytes)) : failed(error);
  }
  Memory memory{};
  const auto function = find<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo");
  const int error = function == nullptr ? kFunctionNotFound : function(gpu_, &memory);
  return error == kSuccess ? value_of(static_cast<double>(memory.used_bytes)) : failed(error);
}

NvmlReading Nvml::other_processes() const {
  double other_count = 0;
  for (const char* name :
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"}) {
    const auto function = find<int (*)(void*, unsigned*, Process*)>(name);
    std::vector<Process> processes(kProcessCountMax);
    unsigned count = kProcessCountMax;
    const int error =
        function == nullptr ? kFunctionNotFound : function(gpu_, &count, processes.data());
    const bool is_graphics = std::string(name).find("Graphics") != std::string::npos;
    if (is_graphics && error != kSuccess) continue;  // GPUs for computing have none
    if (error == kInsufficientSize) return value_of(count);
    if (error != kSuccess) return failed(error);
    for (unsigned i = 0; i < count; ++i) {
      if (processes[i].process_id != static_cast<unsigned>(getpid())) ++other_count;
    }
  }
  return value_of(other_count);
}

NvmlReading Nvml::ecc_on() const {
  int current = 0;
  int pending = 0;
  const auto function = find<int (*)(void*, int*, int*)>("nvmlDeviceGetEccMode");
  const int error = function == nullptr ? kFunctionNotFound : function(gpu_, &current, &pending);
  return error == kSuccess ? value_of(current) : failed(error);
}

NvmlReading Nvml::ecc_errors(int kind) const {
  unsigned long long count = 0;
  const auto function =
      find<int (*)(void*, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
  const int error =
      function == nullptr ? kFunctionNotFound : function(gpu_, kind, kSinceDriverLoad, &count);
  return error == kSuccess ? value_of(static_cast<double>(count)) : failed(error);
}

// Rows put out of use (0: corrected and uncorrected errors together), 1: pending, 2: failed. Older
// GPUs retire pages instead.
NvmlReading Nvml::remapped(int which) const {
  std::array<unsigned, 4> rows{};
  const auto function =
      find<int (*)(void*, unsigned*, unsigned*, unsigned*, unsigned*)>("nvmlDeviceGetRemappedRows");
  const int error = function == nullptr ? kFunctionNotFound
                                        : function(gpu_, &rows[0], &rows[1], &rows[2], &rows[3]);
  if (error == kSuccess) {
    return value_of(which == 0 ? rows[0] + rows[1] : rows[static_cast<std::size_t>(which) + 1]);
  }
  if (error != kNotSupported && error != kFunctionNotFound) return failed(error);
  if (which == 1) return number<int>("nvmlDeviceGetRetiredPagesPendingStatus");
  if (which == 2) return failed(kNotSupported);
  double page_count = 0;
  for (const int cause : {0, 1}) {
    unsigned count = 0;
    const auto pages =
        find<int (*)(void*, int, unsigned*, unsigned long long*)>("nvmlDeviceGetRetiredPages");
    const int answer = pages == nullptr ? kFunctionNotFound : pages(gpu_, cause, &count, nullptr);
    if (answer != kSuccess && answer != kInsufficientSize) return failed(answer);
    page_count += count;
  }
  return value_of(page_count);
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

NvmlReading Nvml::read(const std::string& name) const {
  if (!problem_.empty() || gpu_ == nullptr) {
    return {.value = {}, .problem = problem_.empty() ? "NVML does not have this GPU" : problem_};
  }
  const std::map<std::string, std::function<NvmlReading()>> readers = {
      {"used_bytes", [this] { return used_bytes(); }},
      {"other_processes", [this] { return other_processes(); }},
      {"ecc_on", [this] { return ecc_on(); }},
      {"ecc_corrected", [this] { return ecc_errors(kCorrected); }},
      {"ecc_uncorrected", [this] { return ecc_errors(kUncorrected); }},
      {"retired", [this] { return remapped(0); }},
      {"remap_pending", [this] { return remapped(1); }},
      {"remap_failed", [this] { return remapped(2); }},
      {"throttle_bits", [this] { return throttle_bits(); }},
      {"celsius", [this] { return number<unsigned>("nvmlDeviceGetTemperature", kGpuTemperature); }},
      {"sm_mhz", [this] { return number<unsigned>("nvmlDeviceGetClockInfo", kSmClock); }},
      {"sm_mhz_max", [this] { return number<unsigned>("nvmlDeviceGetMaxClockInfo", kSmClock); }},
      {"pcie_width", [this] { return number<unsigned>("nvmlDeviceGetCurrPcieLinkWidth"); }},
      {"pcie_width_max", [this] { return number<unsigned>("nvmlDeviceGetMaxPcieLinkWidth"); }},
      {"power_limit_mw", [this] { return number<unsigned>("nvmlDeviceGetEnforcedPowerLimit"); }},
      {"power_limit_default_mw",
       [this] { return number<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit"); }}};
  const auto reader = readers.find(name);
  ALLOCMARK_ASSERT(reader != readers.end());
  return reader->second();
}

const std::vector<std::string>& Nvml::names() {
  static const std::vector<std::string> all = {
      "used_bytes",      "other_processes", "ecc_on",         "ecc_corrected",
      "ecc_uncorrected", "retired",         "remap_pending",  "remap_failed",
      "throttle_bits",   "celsius",         "sm_mhz",         "sm_mhz_max",
      "pcie_width",      "pcie_width_max",  "power_limit_mw", "power_limit_default_mw"};
  return all;
}

std::map<std::string, double> Nvml::read_all() const {
  std::map<std::string, double> values;
  for (const std::string& name : names()) {
    if (const NvmlReading reading = read(name); reading.value) values[name] = *reading.value;
  }
  return values;
}

std::string Nvml::watch_events() {
  if (!problem_.empty() || gpu_ == nullptr) return read("used_bytes").problem;
  if (events_ == nullptr) {
    const auto create = find<int (*)(void**)>("nvmlEventSetCreate");
    const int error = create == nullptr ? kFunctionNotFound : create(&events_);
    if (error != kSuccess) return failed(error).problem;
  }
  const auto add = find<int (*)(void*, unsigned long long, void*)>("nvmlDeviceRegisterEvents");
  const int error = add == nullptr ? kFunctionNotFound : add(gpu_, kXidEvents, events_);
  return error == kSuccess ? "" : failed(error).problem;
}

std::optional<Nvml::Event> Nvml::next_event(std::uint32_t timeout_ms) {
  const auto wait = find<int (*)(void*, EventData*, unsigned)>("nvmlEventSetWait_v2");
  EventData data{};
  if (events_ == nullptr || wait == nullptr || wait(events_, &data, timeout_ms) != kSuccess) {
    return std::nullopt;
  }
  return Event{.gpu = data.device, .xid = data.data};
}

}  // namespace allocmark::qualify
