#include "harness/simcuda/shim/pool_values.h"

#include <cstdint>
#include <cstring>

namespace simcuda {
namespace {

// The driver's numbers of the attributes that say what a pool is.
enum : int {
  kAllocationType = 0x9,
  kExportHandleTypes = 0xA,
  kLocationId = 0xB,
  kLocationType = 0xC,
  kMaxPoolSize = 0xD,
  kHwDecompressEnabled = 0xE,
  kLocalityDomainId = 0xF
};

// Of CUDA 13.4: the place's number has the device in its lowest byte and the domain in the next.
constexpr int kDeviceLocalityDomain = 6;

}  // namespace

bool get_pool_identity(const PoolIdentity& pool, int attribute, void* value) {
  const auto give = [&](auto number) {
    std::memcpy(value, &number, sizeof number);
    return true;
  };
  switch (attribute) {
    case kAllocationType:
      return give(pool.allocation_type);
    case kExportHandleTypes:
      return give(pool.handle_types);
    case kLocationId:
      return give(pool.location_id);
    case kLocationType:
      return give(pool.location_type);
    case kMaxPoolSize:
      return give(pool.max_bytes);
    case kHwDecompressEnabled:
      return give(0);
    case kLocalityDomainId:
      return give(-1);  // of no domain, as on every device that is one
    default:
      return false;
  }
}

std::optional<cudaMemLocation> pool_place(const cudaMemLocation& location, int allocation_type) {
  switch (static_cast<int>(location.type)) {
    case cudaMemLocationTypeInvalid:  // also "nowhere in particular", for managed memory
    case cudaMemLocationTypeDevice:
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNuma:
      return location;
    case cudaMemLocationTypeHostNumaCurrent:  // for managed memory alone
      if (allocation_type == cudaMemAllocationTypePinned) return std::nullopt;
      return location;
    case kDeviceLocalityDomain:
      if (allocation_type != cudaMemAllocationTypePinned || (location.id >> 8 & 0xFF) != 0)
        return std::nullopt;
      return cudaMemLocation{.type = cudaMemLocationTypeDevice, .id = location.id & 0xFF};
    default:
      return std::nullopt;
  }
}

cudaError_t set_pool_value(MemoryPool& pool, cudaMemPoolAttr attribute, const void* value) {
  // Only an attribute that is known has a value of a known size.
  const auto read = [&](auto given) {
    std::memcpy(&given, value, sizeof given);
    return given;
  };
  const auto flag = [&] { return read(int{}) != 0; };
  const auto bytes = [&] { return read(std::uint64_t{}); };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      pool.set_follow_event_dependencies(flag());
      return cudaSuccess;
    case cudaMemPoolReuseAllowOpportunistic:
      pool.set_allow_opportunistic(flag());
      return cudaSuccess;
    case cudaMemPoolReuseAllowInternalDependencies:
      pool.set_allow_internal_dependencies(flag());
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      pool.set_release_threshold(bytes());
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      if (bytes() != 0) return cudaErrorInvalidValue;  // the high marks can only be set back
      attribute == cudaMemPoolAttrReservedMemHigh ? pool.reset_reserved_high()
                                                  : pool.reset_used_high();
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t get_pool_value(const MemoryPool& pool, cudaMemPoolAttr attribute, void* value) {
  const PoolAttributes& attributes = pool.attributes();
  const MemoryUsage usage = pool.usage();
  const auto give = [&](auto number) {
    std::memcpy(value, &number, sizeof number);
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return give(int{attributes.follow_event_dependencies});
    case cudaMemPoolReuseAllowOpportunistic:
      return give(int{attributes.allow_opportunistic});
    case cudaMemPoolReuseAllowInternalDependencies:
      return give(int{attributes.allow_internal_dependencies});
    case cudaMemPoolAttrReleaseThreshold:
      return give(attributes.release_threshold_bytes);
    case cudaMemPoolAttrReservedMemCurrent:
      return give(usage.reserved_bytes);
    case cudaMemPoolAttrReservedMemHigh:
      return give(usage.reserved_bytes_high);
    case cudaMemPoolAttrUsedMemCurrent:
      return give(usage.used_bytes);
    case cudaMemPoolAttrUsedMemHigh:
      return give(usage.used_bytes_high);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace simcuda
