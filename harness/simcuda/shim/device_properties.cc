#include "harness/simcuda/shim/device_properties.h"

#include <strings.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simcuda {
namespace {

// Of SIMCUDA_NODE; 0 where it is not set.
std::uint64_t node_hash() {
  const char* node = std::getenv("SIMCUDA_NODE");
  if (node == nullptr || *node == '\0') return 0;
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
  for (; *node != '\0'; ++node) {
    hash = (hash ^ static_cast<unsigned char>(*node)) * 0x100000001B3U;
  }
  return hash;
}

// A field of cudaDeviceProp that repeats an attribute.
template <class Field>
void copy_attribute(const SimulatedDevice& device, cudaDeviceAttr attribute, Field& field) {
  int value = 0;
  if (device_attribute(device, attribute, value)) {
    field = static_cast<Field>(value);
  }
}

void fill_limits(const SimulatedDevice& device, cudaDeviceProp& out) {
  copy_attribute(device, cudaDevAttrMaxSharedMemoryPerBlock, out.sharedMemPerBlock);
  copy_attribute(device, cudaDevAttrMaxRegistersPerBlock, out.regsPerBlock);
  copy_attribute(device, cudaDevAttrWarpSize, out.warpSize);
  copy_attribute(device, cudaDevAttrMaxPitch, out.memPitch);
  copy_attribute(device, cudaDevAttrMaxThreadsPerBlock, out.maxThreadsPerBlock);
  copy_attribute(device, cudaDevAttrMaxBlockDimX, out.maxThreadsDim[0]);
  copy_attribute(device, cudaDevAttrMaxBlockDimY, out.maxThreadsDim[1]);
  copy_attribute(device, cudaDevAttrMaxBlockDimZ, out.maxThreadsDim[2]);
  copy_attribute(device, cudaDevAttrMaxGridDimX, out.maxGridSize[0]);
  copy_attribute(device, cudaDevAttrMaxGridDimY, out.maxGridSize[1]);
  copy_attribute(device, cudaDevAttrMaxGridDimZ, out.maxGridSize[2]);
  copy_attribute(device, cudaDevAttrTotalConstantMemory, out.totalConstMem);
  copy_attribute(device, cudaDevAttrTextureAlignment, out.textureAlignment);
  copy_attribute(device, cudaDevAttrTexturePitchAlignment, out.texturePitchAlignment);
  copy_attribute(device, cudaDevAttrSurfaceAlignment, out.surfaceAlignment);
  copy_attribute(device, cudaDevAttrMultiProcessorCount, out.multiProcessorCount);
  copy_attribute(device, cudaDevAttrGlobalMemoryBusWidth, out.memoryBusWidth);
  copy_attribute(device, cudaDevAttrL2CacheSize, out.l2CacheSize);
  copy_attribute(device, cudaDevAttrMaxPersistingL2CacheSize, out.persistingL2CacheMaxSize);
  copy_attribute(device, cudaDevAttrMaxThreadsPerMultiProcessor, out.maxThreadsPerMultiProcessor);
  copy_attribute(device, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                 out.sharedMemPerMultiprocessor);
  copy_attribute(device, cudaDevAttrMaxRegistersPerMultiprocessor, out.regsPerMultiprocessor);
  copy_attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin, out.sharedMemPerBlockOptin);
  copy_attribute(device, cudaDevAttrMaxBlocksPerMultiprocessor, out.maxBlocksPerMultiProcessor);
  copy_attribute(device, cudaDevAttrMaxAccessPolicyWindowSize, out.accessPolicyMaxWindowSize);
  copy_attribute(device, cudaDevAttrReservedSharedMemoryPerBlock, out.reservedSharedMemPerBlock);
}

void fill_abilities(const SimulatedDevice& device, cudaDeviceProp& out) {
  copy_attribute(device, cudaDevAttrComputeCapabilityMajor, out.major);
  copy_attribute(device, cudaDevAttrComputeCapabilityMinor, out.minor);
  copy_attribute(device, cudaDevAttrIntegrated, out.integrated);
  copy_attribute(device, cudaDevAttrCanMapHostMemory, out.canMapHostMemory);
  copy_attribute(device, cudaDevAttrConcurrentKernels, out.concurrentKernels);
  copy_attribute(device, cudaDevAttrEccEnabled, out.ECCEnabled);
  copy_attribute(device, cudaDevAttrTccDriver, out.tccDriver);
  copy_attribute(device, cudaDevAttrAsyncEngineCount, out.asyncEngineCount);
  copy_attribute(device, cudaDevAttrUnifiedAddressing, out.unifiedAddressing);
  copy_attribute(device, cudaDevAttrStreamPrioritiesSupported, out.streamPrioritiesSupported);
  copy_attribute(device, cudaDevAttrGlobalL1CacheSupported, out.globalL1CacheSupported);
  copy_attribute(device, cudaDevAttrLocalL1CacheSupported, out.localL1CacheSupported);
  copy_attribute(device, cudaDevAttrManagedMemory, out.managedMemory);
  copy_attribute(device, cudaDevAttrIsMultiGpuBoard, out.isMultiGpuBoard);
  copy_attribute(device, cudaDevAttrMultiGpuBoardGroupID, out.multiGpuBoardGroupID);
  copy_attribute(device, cudaDevAttrHostNativeAtomicSupported, out.hostNativeAtomicSupported);
  copy_attribute(device, cudaDevAttrPageableMemoryAccess, out.pageableMemoryAccess);
  copy_attribute(device, cudaDevAttrConcurrentManagedAccess, out.concurrentManagedAccess);
  copy_attribute(device, cudaDevAttrComputePreemptionSupported, out.computePreemptionSupported);
  copy_attribute(device, cudaDevAttrCanUseHostPointerForRegisteredMem,
                 out.canUseHostPointerForRegisteredMem);
  copy_attribute(device, cudaDevAttrCooperativeLaunch, out.cooperativeLaunch);
  copy_attribute(device, cudaDevAttrPageableMemoryAccessUsesHostPageTables,
                 out.pageableMemoryAccessUsesHostPageTables);
  copy_attribute(device, cudaDevAttrDirectManagedMemAccessFromHost,
                 out.directManagedMemAccessFromHost);
  copy_attribute(device, cudaDevAttrHostRegisterSupported, out.hostRegisterSupported);
  copy_attribute(device, cudaDevAttrSparseCudaArraySupported, out.sparseCudaArraySupported);
  copy_attribute(device, cudaDevAttrHostRegisterReadOnlySupported,
                 out.hostRegisterReadOnlySupported);
  copy_attribute(device, cudaDevAttrTimelineSemaphoreInteropSupported,
                 out.timelineSemaphoreInteropSupported);
  copy_attribute(device, cudaDevAttrMemoryPoolsSupported, out.memoryPoolsSupported);
  copy_attribute(device, cudaDevAttrGPUDirectRDMASupported, out.gpuDirectRDMASupported);
  copy_attribute(device, cudaDevAttrGPUDirectRDMAFlushWritesOptions,
                 out.gpuDirectRDMAFlushWritesOptions);
  copy_attribute(device, cudaDevAttrGPUDirectRDMAWritesOrdering, out.gpuDirectRDMAWritesOrdering);
  copy_attribute(device, cudaDevAttrMemoryPoolSupportedHandleTypes,
                 out.memoryPoolSupportedHandleTypes);
  copy_attribute(device, cudaDevAttrDeferredMappingCudaArraySupported,
                 out.deferredMappingCudaArraySupported);
  copy_attribute(device, cudaDevAttrIpcEventSupport, out.ipcEventSupported);
  copy_attribute(device, cudaDevAttrClusterLaunch, out.clusterLaunch);
  copy_attribute(device, cudaDevAttrPciDomainId, out.pciDomainID);
  copy_attribute(device, cudaDevAttrPciBusId, out.pciBusID);
  copy_attribute(device, cudaDevAttrPciDeviceId, out.pciDeviceID);
}

// What simcuda does of what an attribute promises.
int kept_promise(int attribute, int value) {
  switch (attribute) {
    case cudaDevAttrPageableMemoryAccess:
      return 0;
    case cudaDevAttrMemoryPoolSupportedHandleTypes:
      return value & cudaMemHandleTypePosixFileDescriptor;
    default:
      return value;
  }
}

}  // namespace

bool device_attribute(const SimulatedDevice& device, int attribute, int& value) {
  const auto found = device.profile.attributes.find(attribute);
  if (found == device.profile.attributes.end()) {
    return false;
  }
  value = kept_promise(attribute, found->second);
  if (attribute == cudaDevAttrPciBusId) {
    value = 6 + device.node_index;
  } else if (attribute == cudaDevAttrPciDeviceId) {
    value = 0;
  }
  return true;
}

void fill_properties(const SimulatedDevice& device, cudaDeviceProp& properties) {
  properties = {};
  std::snprintf(properties.name, sizeof properties.name, "%s", device.profile.device_name.c_str());
  const std::array<std::uint8_t, 16> uuid = device_uuid(device);
  std::memcpy(properties.uuid.bytes, uuid.data(), uuid.size());
  properties.totalGlobalMem = device.core.total_bytes();
  fill_limits(device, properties);
  fill_abilities(device, properties);
}

std::string pci_bus_id(const SimulatedDevice& device) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0000:%02X:00.0",
                static_cast<unsigned>(6 + device.node_index));
  return text.data();
}

bool same_pci_bus_id(const SimulatedDevice& device, const char* text) {
  const std::string id = pci_bus_id(device);
  return strcasecmp(text, id.c_str()) == 0 || strcasecmp(text, ("0000" + id).c_str()) == 0;
}

std::array<std::uint8_t, 16> device_uuid(const SimulatedDevice& device) {
  std::array<std::uint8_t, 16> uuid{'s', 'i', 'm', 'c', 'u', 'd', 'a'};
  const std::uint64_t node = node_hash();
  for (std::size_t i = 0; i < sizeof node; ++i) {
    uuid[7 + i] = static_cast<std::uint8_t>(node >> (8 * i));
  }
  uuid[15] = static_cast<std::uint8_t>(device.node_index);
  return uuid;
}

std::string device_uuid_text(const SimulatedDevice& device) {
  std::string text = "GPU-";
  std::size_t position = 0;
  for (const std::uint8_t byte : device_uuid(device)) {
    std::array<char, 4> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", byte);
    text += hex.data();
    ++position;
    if (position == 4 || position == 6 || position == 8 || position == 10) {
      text += '-';
    }
  }
  return text;
}

std::string device_serial(const SimulatedDevice& device) {
  constexpr std::uint64_t kSerials = 1'000'000'000;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "SIM%09llu%02d",
                static_cast<unsigned long long>(node_hash() % kSerials), device.node_index);
  return text.data();
}

}  // namespace simcuda
