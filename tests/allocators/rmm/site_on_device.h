// Where RMM's resources stand in their tests: a device that exists only in numbers.
#pragma once

#include <cstdint>

#include "allocators/rmm/resource.h"
#include "tests/allocators/caching/fake_device.h"

namespace allocmark::rmm {

inline constexpr std::uint64_t kMiBytes = std::uint64_t{1} << 20;
inline constexpr caching::Stream kA = 1;
inline constexpr caching::Stream kB = 2;

struct SiteOnDevice {
  explicit SiteOnDevice(std::uint64_t capacity_bytes) : device(capacity_bytes, capacity_bytes) {}

  caching::FakeDevice device;
  Counters counters{};
  Site site{.driver = device, .counters = counters};
  CudaMemory memory{site};
};

}  // namespace allocmark::rmm
