// Every function of NVML that no file here defines: its call is counted, as a runtime's function
// that is missing is, and answered with "not supported". Programs such as NCCL look up what they
// need by name and call it without a look at whether it was found.
#include "harness/simcuda/shim/gaps.h"
#include "harness/simcuda/shim/nvml_device.h"

namespace simcuda {
namespace {

int lack(const char* name) {
  note_gap(name);
  return kNotSupported;
}

}  // namespace

// Definitions elsewhere are stronger.
#define NVML_FUNCTION(name) \
  extern "C" NVML_EXPORT __attribute__((weak)) int name() { return lack(#name); }
#include "harness/simcuda/shim/nvml_functions.inc"
#undef NVML_FUNCTION

}  // namespace simcuda
