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

// Fills fields of cudaDeviceProp that repeat an attribute.
struct AttributeCopy {
  const SimulatedDevice& device;
  template <class Field>
  void operator()(cudaDeviceAttr attribute, Field& field) const {
    int value = 0;
    if (device_attribute(device, attribute, value)) field = static_cast<Field>(value);
  }
};

void fill_limits(const AttributeCopy& copy, cudaDeviceProp& out) {
  copy(cudaDevAttrMaxSharedMemoryPerBlock, out.sharedMemPerBlock);
  copy(cudaDevAttrMaxRegistersPerBlock, out.regsPerBlock);
  copy(cudaDevAttrWarpSize, out.warpSize);
  copy(cudaDevAttrMaxPitch, out.memPitch);
  copy(cudaDevAttrMaxThreadsPerBlock, out.maxThreadsPerBlock);
  copy(cudaDevAttrMaxBlockDimX, out.maxThreadsDim[0]);
  copy(cudaDevAttrMaxBlockDimY, out.maxThreadsDim[1]);
  copy(cudaDevAttrMaxBlockDimZ, out.maxThreadsDim[2]);
  copy(cudaDevAttrMaxGridDimX, out.maxGridSize[0]);
  copy(cudaDevAttrMaxGridDimY, out.maxGridSize[1]);
  copy(cudaDevAttrMaxGridDimZ, out.maxGridSize[2]);
  copy(cudaDevAttrTotalConstantMemory, out.totalConstMem);
  copy(cudaDevAttrTextureAlignment, out.textureAlignment);
  copy(cudaDevAttrTexturePitchAlignment, out.texturePitchAlignment);
  copy(cudaDevAttrSurfaceAlignment, out.surfaceAlignment);
  copy(cudaDevAttrMultiProcessorCount, out.multiProcessorCount);
  copy(cudaDevAttrGlobalMemoryBusWidth, out.memoryBusWidth);
  copy(cudaDevAttrL2CacheSize, out.l2CacheSize);
  copy(cudaDevAttrMaxPersistingL2CacheSize, out.persistingL2CacheMaxSize);
  copy(cudaDevAttrMaxThreadsPerMultiProcessor, out.maxThreadsPerMultiProcessor);
  copy(cudaDevAttrMaxSharedMemoryPerMultiprocessor, out.sharedMemPerMultiprocessor);
  copy(cudaDevAttrMaxRegistersPerMultiprocessor, out.regsPerMultiprocessor);
  copy(cudaDevAttrMaxSharedMemoryPerBlockOptin, out.sharedMemPerBlockOptin);
  copy(cudaDevAttrMaxBlocksPerMultiprocessor, out.maxBlocksPerMultiProcessor);
  copy(cudaDevAttrMaxAccessPolicyWindowSize, out.accessPolicyMaxWindowSize);
  copy(cudaDevAttrReservedSharedMemoryPerBlock, out.reservedSharedMemPerBlock);
}

void fill_abilities(const AttributeCopy& copy, cudaDeviceProp& out) {
  copy(cudaDevAttrComputeCapabilityMajor, out.major);
  copy(cudaDevAttrComputeCapabilityMinor, out.minor);
  copy(cudaDevAttrIntegrated, out.integrated);
  copy(cudaDevAttrCanMapHostMemory, out.canMapHostMemory);
  copy(cudaDevAttrConcurrentKernels, out.concurrentKernels);
  copy(cudaDevAttrEccEnabled, out.ECCEnabled);
  copy(cudaDevAttrTccDriver, out.tccDriver);
  copy(cudaDevAttrAsyncEngineCount, out.asyncEngineCount);
  copy(cudaDevAttrUnifiedAddressing, out.unifiedAddressing);
  copy(cudaDevAttrStreamPrioritiesSupported, out.streamPrioritiesSupported);
  copy(cudaDevAttrGlobalL1CacheSupported, out.globalL1CacheSupported);
  copy(cudaDevAttrLocalL1CacheSupported, out.localL1CacheSupported);
  copy(cudaDevAttrManagedMemory, out.managedMemory);
  copy(cudaDevAttrIsMultiGpuBoard, out.isMultiGpuBoard);
  copy(cudaDevAttrMultiGpuBoardGroupID, out.multiGpuBoardGroupID);
  copy(cudaDevAttrHostNativeAtomicSupported, out.hostNativeAtomicSupported);
  copy(cudaDevAttrPageableMemoryAccess, out.pageableMemoryAccess);
  copy(cudaDevAttrConcurrentManagedAccess, out.concurrentManagedAccess);
  copy(cudaDevAttrComputePreemptionSupported, out.computePreemptionSupported);
  copy(cudaDevAttrCanUseHostPointerForRegisteredMem, out.canUseHostPointerForRegisteredMem);
  copy(cudaDevAttrCooperativeLaunch, out.cooperativeLaunch);
  copy(cudaDevAttrPageableMemoryAccessUsesHostPageTables,
       out.pageableMemoryAccessUsesHostPageTables);
  copy(cudaDevAttrDirectManagedMemAccessFromHost, out.directManagedMemAccessFromHost);
  copy(cudaDevAttrHostRegisterSupported, out.hostRegisterSupported);
  copy(cudaDevAttrSparseCudaArraySupported, out.sparseCudaArraySupported);
  copy(cudaDevAttrHostRegisterReadOnlySupported, out.hostRegisterReadOnlySupported);
  copy(cudaDevAttrTimelineSemaphoreInteropSupported, out.timelineSemaphoreInteropSupported);
  copy(cudaDevAttrMemoryPoolsSupported, out.memoryPoolsSupported);
  copy(cudaDevAttrGPUDirectRDMASupported, out.gpuDirectRDMASupported);
  copy(cudaDevAttrGPUDirectRDMAFlushWritesOptions, out.gpuDirectRDMAFlushWritesOptions);
  copy(cudaDevAttrGPUDirectRDMAWritesOrdering, out.gpuDirectRDMAWritesOrdering);
  copy(cudaDevAttrMemoryPoolSupportedHandleTypes, out.memoryPoolSupportedHandleTypes);
  copy(cudaDevAttrDeferredMappingCudaArraySupported, out.deferredMappingCudaArraySupported);
  copy(cudaDevAttrIpcEventSupport, out.ipcEventSupported);
  copy(cudaDevAttrClusterLaunch, out.clusterLaunch);
  copy(cudaDevAttrPciDomainId, out.pciDomainID);
  copy(cudaDevAttrPciBusId, out.pciBusID);
  copy(cudaDevAttrPciDeviceId, out.pciDeviceID);
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
  if (found == device.profile.attributes.end()) return false;
  value = kept_promise(attribute, found->second);
  if (attribute == cudaDevAttrPciBusId) value = 6 + device.node_index;
  if (attribute == cudaDevAttrPciDeviceId) value = 0;
  return true;
}

void fill_properties(const SimulatedDevice& device, cudaDeviceProp& properties) {
  properties = {};
  std::snprintf(properties.name, sizeof properties.name, "%s", device.profile.device_name.c_str());
  const std::array<std::uint8_t, 16> uuid = device_uuid(device);
  std::memcpy(properties.uuid.bytes, uuid.data(), uuid.size());
  properties.totalGlobalMem = device.core.total_bytes();
  fill_limits({device}, properties);
  fill_abilities({device}, properties);
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
