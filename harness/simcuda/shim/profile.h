// A device profile: what a GPU is (memory, attributes) and what its driver calls cost, from one
// JSON file made by `allocmark profile`. In: a name or path. Out: the profile; the cost curves
// are set as a side effect.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace simcuda {

struct Profile {
  std::string device_name;
  std::string driver_version;  // NVML's text, "580.159.04"
  int cuda_version = 0;        // of the driver: 13000
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes_initial = 0;
  std::uint64_t page_limit = 0;
  std::uint64_t chunk_limit = 0;
  std::uint64_t clean_bytes_per_us = 0;  // how fast freed memory is cleared; 0: at once
  std::uint32_t temperature_celsius = 0;
  std::uint32_t power_milliwatt = 0;
  std::uint32_t power_limit_milliwatt = 0;
  std::map<int, int> attributes;        // cudaDeviceAttr -> value
  std::map<int, std::uint64_t> limits;  // cudaLimit -> value
};

// `name_or_path`: a path where it contains a slash or ends in .json, else NAME for
// `folder`/NAME.json. Throws std::runtime_error with file, key, wanted and got.
[[nodiscard]] Profile load_profile(const std::string& name_or_path, const std::string& folder);

}  // namespace simcuda
