// The CUDA driver's functions that reserve addresses, create physical memory and map the one to the
// other.
#pragma once

#include <cuda.h>

#include "allocators/cuda/driver_entry_point.h"

namespace allocmark {

struct DriverMapping {
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_address = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

// Looked up by the first call, for the rest of the process. Throws EnvironmentError where the
// driver has none of them.
inline const DriverMapping& driver_mapping() {
  static const DriverMapping functions = [] {
    DriverMapping found;
    look_up_driver("cuMemAddressReserve", found.reserve);
    look_up_driver("cuMemAddressFree", found.free_address);
    look_up_driver("cuMemCreate", found.create);
    look_up_driver("cuMemRelease", found.release);
    look_up_driver("cuMemMap", found.map);
    look_up_driver("cuMemUnmap", found.unmap);
    look_up_driver("cuMemSetAccess", found.set_access);
    return found;
  }();
  return functions;
}

}  // namespace allocmark
