// What a device is: memory, attributes, limits, as a device profile keeps them. The current CUDA
// device is asked; a record flows out. Times nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace allocmark {

struct DeviceFacts {
  std::string name;
  std::string driver_version;  // as NVML says ("580.159.04"); "" where NVML is missing
  int cuda_version = 0;        // the driver's, as 13000
  // GPUs in the machine, hidden ones too. It marks the kind of machine: in those with two, queries
  // of finished work took five times as long as in those with one, the other GPU hidden or not.
  int machine_gpu_count = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes_initial = 0;  // after the context was made, before anything else
  std::uint64_t page_limit = 0;          // 2 MiB pages that one cudaMalloc can have
  std::uint64_t chunk_limit = 0;         // 32 MiB chunks that a stream-ordered pool can have
  std::uint32_t temperature_celsius = 0;
  std::uint32_t power_milliwatt = 0;
  std::uint32_t power_limit_milliwatt = 0;
  std::vector<std::array<std::int64_t, 2>> attributes;  // [cudaDeviceAttr, value]
  std::vector<std::array<std::int64_t, 2>> limits;      // [cudaLimit, value]
};

// Takes nearly all memory for a moment, so it must come before the timed blocks. Call it first in
// the process: free_bytes_initial is what is free then. Throws EnvironmentError.
[[nodiscard]] DeviceFacts find_device_facts();

}  // namespace allocmark
