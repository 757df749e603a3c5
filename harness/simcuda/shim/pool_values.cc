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
  const auto give = [&](int number) {
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
      std::memcpy(value, &pool.max_bytes, sizeof pool.max_bytes);
      return true;
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
  const auto flag = [&] {
    int given = 0;
    std::memcpy(&given, value, sizeof given);
    return given != 0;
  };
  const auto bytes = [&] {
    std::uint64_t given = 0;
    std::memcpy(&given, value, sizeof given);
    return given;
  };
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
      if (bytes() != 0) {
        return cudaErrorInvalidValue;  // the high marks can only be set back
      }
      if (attribute == cudaMemPoolAttrReservedMemHigh) {
        pool.reset_reserved_high();
      } else {
        pool.reset_used_high();
      }
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t get_pool_value(const MemoryPool& pool, cudaMemPoolAttr attribute, void* value) {
  const PoolAttributes& attributes = pool.attributes();
  const PoolUsage usage = pool.usage();
  const auto give_flag = [&](bool flag) {
    const int as_int = flag ? 1 : 0;
    std::memcpy(value, &as_int, sizeof as_int);
    return cudaSuccess;
  };
  const auto give_bytes = [&](std::uint64_t bytes) {
    std::memcpy(value, &bytes, sizeof bytes);
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return give_flag(attributes.follow_event_dependencies);
    case cudaMemPoolReuseAllowOpportunistic:
      return give_flag(attributes.allow_opportunistic);
    case cudaMemPoolReuseAllowInternalDependencies:
      return give_flag(attributes.allow_internal_dependencies);
    case cudaMemPoolAttrReleaseThreshold:
      return give_bytes(attributes.release_threshold_bytes);
    case cudaMemPoolAttrReservedMemCurrent:
      return give_bytes(usage.reserved_bytes);
    case cudaMemPoolAttrReservedMemHigh:
      return give_bytes(usage.reserved_bytes_high);
    case cudaMemPoolAttrUsedMemCurrent:
      return give_bytes(usage.used_bytes);
    case cudaMemPoolAttrUsedMemHigh:
      return give_bytes(usage.used_bytes_high);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace simcuda
