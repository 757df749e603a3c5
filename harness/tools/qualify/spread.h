// What calls take on many healthy machines of one kind, and by how much those differ: the limits of
// latency that come from machines, not from one machine and a guess. `allocmark merge --baseline`
// writes such a file; --baseline and the one that ships are read here. Text flows in, times by the
// name of a figure flow out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark::qualify {

struct SpreadRow {
  double median_ns = 0, slowest_ns = 0;  // of the machines' own values
  std::uint64_t machine_count = 0;
};

// Machines of one kind. An empty text stands for any.
struct Spread {
  std::string gpu_name = {}, machine_type = {}, driver_version = {};
  std::uint64_t machine_count = 0, memory_bytes = 0;
  std::map<std::string, SpreadRow> rows = {};  // by figure: "cudaMalloc 2.00 MiB, P50"
};

// With fewer machines their spread is not known.
inline constexpr std::uint64_t kSpreadMachinesMin = 3;

// The slowest of n machines says less of all others the fewer they are. Four H200s of 2026-11, each
// held against the other three, were beyond the slowest by up to 5.4 in a median and 19 in a P90.
[[nodiscard]] constexpr double spread_allowance(std::uint64_t machine_count) {
  return 1 + 6 / static_cast<double>(machine_count);
}

[[nodiscard]] std::string render_spreads(const std::vector<Spread>& spreads);
// Whether the text says that it is of this kind.
[[nodiscard]] bool is_spread_file(std::string_view text);
// Throws UsageError naming `where` and what is wrong.
[[nodiscard]] std::vector<Spread> spreads_from_json(std::string_view text,
                                                    const std::string& where);
// Those that ship.
[[nodiscard]] std::vector<Spread> shipped_spreads();

// The one for that GPU model which knows most about the machine: the same type and driver, else the
// same type, else any. Nothing where none is of the model.
[[nodiscard]] std::optional<Spread> choose_spread(const std::vector<Spread>& spreads,
                                                  const Spread& machine);

}  // namespace allocmark::qualify
