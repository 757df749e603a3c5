// What a simulated device says it is.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>

#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

void fill_properties(const SimulatedDevice& device, cudaDeviceProp& properties);
// False where the profile does not know the attribute.
[[nodiscard]] bool device_attribute(const SimulatedDevice& device, int attribute, int& value);
// "0000:06:00.0": the bus number tells simulated devices apart.
[[nodiscard]] std::string pci_bus_id(const SimulatedDevice& device);
// Accepts four or eight digits of domain, as NVML writes them.
[[nodiscard]] bool same_pci_bus_id(const SimulatedDevice& device, const char* text);
// Says "simcuda" in its bytes, so that nobody takes it for a real GPU's.
// GPUs of another SIMCUDA_NODE have others.
[[nodiscard]] std::array<std::uint8_t, 16> device_uuid(const SimulatedDevice& device);
// The same as NVML writes it, "GPU-" and digits in groups.
[[nodiscard]] std::string device_uuid_text(const SimulatedDevice& device);
[[nodiscard]] std::string device_serial(const SimulatedDevice& device);

// CUDA's version that the driver has: 13000 is 13.0.
[[nodiscard]] int driver_version();

}  // namespace simcuda
