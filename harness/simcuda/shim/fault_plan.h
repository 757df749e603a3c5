// Which calls are to fail: by function name, from the nth call on, so many times. In: plans from
// the control interface or SIMCUDA_FAIL. Out: the error for the call that is being made, or 0.
#pragma once

#include <cstdint>
#include <string_view>

namespace simcuda {

struct Fault {
  std::uint64_t nth = 1;  // 1 = the next call
  std::uint64_t count = 1;
  int error = 0;
};

// Adds a plan for `api` and switches the slow path on. A later plan for the same function comes on
// top.
void add_fault(std::string_view api, const Fault& fault);
// "api:nth:count:error;..."; throws std::runtime_error on bad text.
void add_faults(std::string_view text);
void clear_faults();
// The error that this call of `api` must return; 0 for none.
[[nodiscard]] int next_fault(std::string_view api);

}  // namespace simcuda
