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
  kHwDecompressEnabled = 0xE
};

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
      return give(cudaMemHandleTypeNone);  // no pool here has handles
    case kLocationId:
      return give(pool.location_id);
    case kLocationType:
      return give(pool.location_type);
    case kMaxPoolSize:
      std::memcpy(value, &pool.max_bytes, sizeof pool.max_bytes);
      return true;
    case kHwDecompressEnabled:
      return give(0);
    default:
      return false;
  }
}

cudaError_t set_pool_value(MemoryPool& pool, cudaMemPoolAttr attribute, const void* value) {
  int flag = 0;
  std::uint64_t bytes = 0;
  if (attribute <= cudaMemPoolReuseAllowInternalDependencies) {
    std::memcpy(&flag, value, sizeof flag);
  } else {
    std::memcpy(&bytes, value, sizeof bytes);
  }
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      pool.set_follow_event_dependencies(flag != 0);
      return cudaSuccess;
    case cudaMemPoolReuseAllowOpportunistic:
      pool.set_allow_opportunistic(flag != 0);
      return cudaSuccess;
    case cudaMemPoolReuseAllowInternalDependencies:
      pool.set_allow_internal_dependencies(flag != 0);
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      pool.set_release_threshold(bytes);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      if (bytes != 0) {
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
