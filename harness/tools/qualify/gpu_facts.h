// Small questions about the current GPU and the machine that several tests ask.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/tools/qualify/baseline.h"
#include "harness/tools/qualify/result.h"
#include "harness/tools/qualify/spread.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

// As cudaDeviceGetPCIBusId gives it. Throws EnvironmentError, as do the others.
[[nodiscard]] std::string pci_bus_id(int gpu);
[[nodiscard]] std::string gpu_name(int gpu);
[[nodiscard]] std::uint64_t gpu_memory_bytes();

// GPUs in the machine, hidden ones too; of a simulated GPU, in that of its profile.
[[nodiscard]] int machine_gpu_count(const TestContext& context);

// The profile that was asked for, else the one that ships for this model; nothing where there is
// none.
[[nodiscard]] std::optional<Baseline> baseline_for(const TestContext& context);

// What machines like this one take: of the file that was asked for, else of those that ship.
// Nothing where too few were measured.
[[nodiscard]] std::optional<Spread> spread_for(const TestContext& context);

// A figure that could not be measured.
[[nodiscard]] Figure unmeasured(std::string name, std::string threshold, std::string why,
                                bool optional = false);

// "Supermicro SYS-821GE-TNHR"; empty where the system does not tell, as in most containers.
[[nodiscard]] std::string machine_type();

// Fills in the node's facts: its name is `name`, or the host's where that is empty. Nothing: the
// report is to be anonymous, and what would tell a GPU from all others is taken out.
void name_node(Report& report, const std::optional<std::string>& name);

}  // namespace allocmark::qualify
