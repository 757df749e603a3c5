// A sliver of NVML, for environment fingerprints, PyTorch's out-of-memory message and
// 'allocmark qualify': devices, names, clocks, power; nvml_health.cc has memory and what can go
// wrong. The types are those of NVML's public interface, declared here because the toolkit of a
// build machine may lack nvml.h. In: device handles. Out: the profile's values; an idle GPU.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/nvml_device.h"

namespace simcuda {
namespace {

struct NvmlUtilization {
  unsigned gpu_percent, memory_percent;
};
// The fields that every version of the structure begins with; later versions add a health mask.
struct NvmlFabricInfo {
  unsigned version;  // low 24 bits: bytes of the caller's structure
  unsigned char cluster_uuid[16] = {};
  int status = kSuccess;
  unsigned clique_id = 0;
  unsigned char state = 0;
};
constexpr unsigned kVersionSizeMask = 0xffffff;

struct NvmlConfidential {
  unsigned environment, feature, developer_tools;
};
struct NvmlFieldValue {
  unsigned field, scope;
  long long time_us, latency_us;
  int type;
  int result;
  unsigned long long value;
};

struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

enum NvmlClock : int { kGraphicsClock, kSmClock, kMemoryClock, kVideoClock, kClockCount };

NvmlReturn give_text(char* text, unsigned length, const std::string& value) {
  if (text == nullptr) return kInvalidArgument;
  if (length <= value.size()) return kInsufficientSize;
  std::memcpy(text, value.c_str(), value.size() + 1);
  return kSuccess;
}

int attribute(const SimulatedDevice& device, int id) {
  int value = 0;
  static_cast<void>(device_attribute(device, id, value));
  return value;
}

// Gives the handle of the first GPU that `is_meant` says yes to.
template <class IsMeant>
NvmlReturn find_handle(NvmlDevice** handle, IsMeant is_meant) {
  for (int i = 0; i < node_device_count(); ++i) {
    if (!is_meant(*node_device_at(i))) continue;
    *handle = &nvml_devices[static_cast<std::size_t>(i)];
    return kSuccess;
  }
  return kNotFound;
}

unsigned clock_mhz(const SimulatedDevice& device, int clock) {
  constexpr int kKilo = 1000;
  const int id = clock == kMemoryClock ? static_cast<int>(cudaDevAttrMemoryClockRate)
                                       : static_cast<int>(cudaDevAttrClockRate);
  return static_cast<unsigned>(attribute(device, id) / kKilo);
}

int node_index_of(const SimulatedDevice& device) { return device.node_index; }
unsigned power_of(const SimulatedDevice& device) { return device.profile.power_milliwatt; }
unsigned power_limit_of(const SimulatedDevice& device) {
  return device.profile.power_limit_milliwatt;
}

// What `ask` says of the device; nothing where that is none.
template <class Ask>
NvmlReturn give_text_of(const NvmlDevice* handle, char* text, unsigned length, Ask ask) {
  const SimulatedDevice* const device = find(handle);
  return device == nullptr ? kInvalidArgument : give_text(text, length, ask(*device));
}

std::string name_of(const SimulatedDevice& device) { return device.profile.device_name; }
std::string vbios_of(const SimulatedDevice&) { return "simulated"; }

}  // namespace

std::array<NvmlDevice, kDeviceCountMax> nvml_devices = [] {
  std::array<NvmlDevice, kDeviceCountMax> all{};
  for (int i = 0; NvmlDevice & device : all) device.index = i++;
  return all;
}();

extern "C" {

NVML_EXPORT int nvmlInit_v2() {
  start_if_needed();
  if ((slow_reasons.load() & kStartFailed) != 0) return kUninitialized;
  return static_cast<int>(gpu_value(0, "nvml_error", kSuccess));
}
NVML_EXPORT int nvmlInit() { return nvmlInit_v2(); }
NVML_EXPORT int nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
NVML_EXPORT int nvmlShutdown() { return kSuccess; }

NVML_EXPORT const char* nvmlErrorString(int error) {
  switch (error) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kNoPermission:
      return "Insufficient Permissions";
    case kTimeout:
      return "Timeout";
    case kGpuIsLost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

NVML_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(node_device_count());
  return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice** handle) {
  if (handle == nullptr || node_device_at(static_cast<int>(index)) == nullptr)
    return kInvalidArgument;
  *handle = &nvml_devices[index];
  return gpu_is_lost(static_cast<int>(index)) ? kGpuIsLost : kSuccess;
}

NVML_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, NvmlDevice** handle) {
  if (bus_id == nullptr || handle == nullptr) return kInvalidArgument;
  const NvmlReturn found = find_handle(
      handle, [&](const SimulatedDevice& device) { return same_pci_bus_id(device, bus_id); });
  return found == kSuccess && gpu_is_lost((*handle)->index) ? kGpuIsLost : found;
}

// Old names without suffix.
NVML_EXPORT int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }
NVML_EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice** handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}
NVML_EXPORT int nvmlDeviceGetHandleByPciBusId(const char* bus_id, NvmlDevice** handle) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, handle);
}

NVML_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice** handle) {
  if (uuid == nullptr || handle == nullptr) return kInvalidArgument;
  return find_handle(
      handle, [&](const SimulatedDevice& device) { return device_uuid_text(device) == uuid; });
}

NVML_NUMBER(nvmlDeviceGetIndex, unsigned, node_index_of)

NVML_EXPORT int nvmlDeviceGetName(NvmlDevice* handle, char* text, unsigned length) {
  return give_text_of(handle, text, length, name_of);
}

NVML_EXPORT int nvmlDeviceGetUUID(NvmlDevice* handle, char* text, unsigned length) {
  return give_text_of(handle, text, length, device_uuid_text);
}

NVML_EXPORT int nvmlDeviceGetSerial(NvmlDevice* handle, char* text, unsigned length) {
  return give_text_of(handle, text, length, device_serial);
}

NVML_EXPORT int nvmlDeviceGetVbiosVersion(NvmlDevice* handle, char* text, unsigned length) {
  return give_text_of(handle, text, length, vbios_of);
}

NVML_EXPORT int nvmlDeviceGetPciInfo_v3(NvmlDevice* handle, NvmlPciInfo* info) {
  const SimulatedDevice* device = find(handle);
  if (device == nullptr || info == nullptr) return kInvalidArgument;
  *info = {};
  const std::string id = pci_bus_id(*device);
  std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%s", id.c_str());
  std::snprintf(info->bus_id, sizeof info->bus_id, "0000%s", id.c_str());
  info->bus = static_cast<unsigned>(attribute(*device, cudaDevAttrPciBusId));
  return kSuccess;
}

NVML_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  const SimulatedDevice* device = node_device_at(0);
  return give_text(version, length,
                   device == nullptr ? "simulated" : device->profile.driver_version);
}

NVML_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return nvmlSystemGetDriverVersion(version, length);
}

NVML_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = driver_version();
  return kSuccess;
}
NVML_EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML_EXPORT int nvmlDeviceGetMaxClockInfo(NvmlDevice* handle, int clock, unsigned* mhz) {
  if (clock < 0 || clock >= kClockCount) return kInvalidArgument;
  return give_number(handle, mhz,
                     [&](const SimulatedDevice& device) { return clock_mhz(device, clock); });
}
NVML_EXPORT int nvmlDeviceGetClockInfo(NvmlDevice* handle, int clock, unsigned* mhz) {
  const int result = nvmlDeviceGetMaxClockInfo(handle, clock, mhz);
  return result == kSuccess && clock != kMemoryClock ? give_planned(handle, mhz, "sm_mhz", *mhz)
                                                     : result;
}
NVML_EXPORT int nvmlDeviceGetApplicationsClock(NvmlDevice* handle, int clock, unsigned* mhz) {
  return nvmlDeviceGetClockInfo(handle, clock, mhz);
}

NVML_NUMBER(nvmlDeviceGetPowerUsage, unsigned, power_of)
NVML_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, power_limit_of)
NVML_PLANNED(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit_mw", power_limit_of)
NVML_PLANNED(nvmlDeviceGetPowerManagementLimit, unsigned, "power_limit_mw", power_limit_of)

NVML_NUMBER(nvmlDeviceGetPersistenceMode, int, 1)
NVML_NUMBER(nvmlDeviceGetComputeMode, int, 0)
NVML_EXPORT int nvmlDeviceGetMigMode(NvmlDevice*, unsigned*, unsigned*) { return kNotSupported; }

// Every simulated GPU reads and writes every other's memory, as cudaDeviceCanAccessPeer says; what
// is asked (a kind of access) makes no difference.
NVML_EXPORT int nvmlDeviceGetP2PStatus(NvmlDevice* handle, NvmlDevice* other, int /*kind*/,
                                       int* status) {
  if (find(other) == nullptr) return kInvalidArgument;
  return give_number(handle, status, kSuccess);
}

// A simulated GPU has no NVLink and belongs to no fabric.
NVML_EXPORT int nvmlDeviceGetNvLinkState(NvmlDevice* handle, unsigned /*link*/, int* is_active) {
  return give_nothing(handle, is_active);
}
NVML_EXPORT int nvmlDeviceGetNvLinkCapability(NvmlDevice* handle, unsigned /*link*/, int /*kind*/,
                                              unsigned* value) {
  return give_nothing(handle, value);
}
NVML_EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice* handle, unsigned /*link*/,
                                                    int* type) {
  return give_nothing(handle, type);
}
NVML_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice* handle, unsigned /*link*/,
                                                    NvmlPciInfo* info) {
  return give_nothing(handle, info);
}
NVML_EXPORT int nvmlDeviceGetGpuFabricInfoV(NvmlDevice* handle, NvmlFabricInfo* info) {
  if (find(handle) == nullptr || info == nullptr ||
      (info->version & kVersionSizeMask) < sizeof(NvmlFabricInfo)) {
    return kInvalidArgument;
  }
  *info = {.version = info->version};
  return kSuccess;
}

// It computes nothing that is confidential.
NVML_EXPORT int nvmlSystemGetConfComputeState(NvmlConfidential* state) {
  if (state == nullptr) return kInvalidArgument;
  *state = {};
  return kSuccess;
}

// A value that no file here gives is "not supported", each in its own place; the call is not.
NVML_EXPORT int nvmlDeviceGetFieldValues(NvmlDevice* handle, int count, NvmlFieldValue* values) {
  if (find(handle) == nullptr || count <= 0 || values == nullptr) return kInvalidArgument;
  for (int i = 0; i < count; ++i) values[i].result = kNotSupported;
  return kSuccess;
}

NVML_NUMBER(nvmlDeviceGetUtilizationRates, NvmlUtilization, NvmlUtilization{})

NVML_EXPORT int nvmlDeviceGetCudaComputeCapability(NvmlDevice* handle, int* major, int* minor) {
  const NvmlReturn result = give_number(handle, major, [](const SimulatedDevice& device) {
    return attribute(device, cudaDevAttrComputeCapabilityMajor);
  });
  return result != kSuccess ? result
                            : give_number(handle, minor, [](const SimulatedDevice& device) {
                                return attribute(device, cudaDevAttrComputeCapabilityMinor);
                              });
}

}  // extern "C"

}  // namespace simcuda
