// Who is told before bytes of device memory are looked at or changed (simcu_watch_touches).
#pragma once

#include <cstdint>

#include "harness/simcuda/simcu.h"

namespace simcuda {

void watch_touches(SimcuTouch touch, void* context);

// Bytes of device memory are about to be read or written. Not under a device's lock.
void tell_touch(const void* device_pointer, std::uint64_t size_bytes);

}  // namespace simcuda
