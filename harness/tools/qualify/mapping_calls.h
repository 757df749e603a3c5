// The driver's virtual memory calls, one by one, looked up at run time. On the current device.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "allocators/cuda/driver_mapping.h"

namespace allocmark::qualify {

// Pages with an address of their own; each field is set by the call that makes it.
struct MappedPages {
  std::uint64_t size_bytes = 0;  // a multiple of 2 MiB
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
};

class MappingCalls {
 public:
  // Nothing where the device has no virtual memory management.
  [[nodiscard]] static std::optional<MappingCalls> find();

  // Each throws EnvironmentError where the call fails.
  void reserve(MappedPages& pages) const;
  void map(const MappedPages& pages) const;
  void unmap(const MappedPages& pages) const;
  void release(const MappedPages& pages) const;
  void free_address(const MappedPages& pages) const;
  // False where the device has not enough memory.
  [[nodiscard]] bool try_create(MappedPages& pages) const;
  [[nodiscard]] bool try_set_access(const MappedPages& pages) const;

 private:
  MappingCalls() = default;

  const DriverMapping& driver_ = driver_mapping();
  CUmemAllocationProp properties_{};
};

}  // namespace allocmark::qualify
