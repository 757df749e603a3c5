// Driver functions by name: cudaGetDriverEntryPoint(ByVersion) and cuGetProcAddress. In: a name
// without suffix. Out: our function of that name, newest variant, found among our own exports.
#include <string>
#include <string_view>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/function_names.h"
#include "harness/simcuda/shim/static_runtime.h"

namespace simcuda {
namespace {

constexpr unsigned kOldestVersion = 6050;  // older entry points than these never were

void* find_function(const char* name) {
  for (const char* suffix : {"_v3", "_v2", ""}) {
    if (void* function = own_function(std::string(name) + suffix); function != nullptr) {
      return function;
    }
  }
  return nullptr;
}

enum class Found : std::uint8_t { Yes, NotFound, TooOld };

Found look_up(const char* name, unsigned version, void** function) {
  *function = std::string(name).starts_with("cu") ? find_function(name) : nullptr;
  if (*function == nullptr) {
    return Found::NotFound;
  }
  if (version < kOldestVersion) {
    *function = nullptr;
    return Found::TooOld;
  }
  return Found::Yes;
}

// Not finding a function is an answer, not an error: measured.
cudaError_t get_entry_point(const char* name, void** function, unsigned version,
                            cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || function == nullptr) {
    return cudaErrorInvalidValue;
  }
  const Found found = look_up(name, version, function);
  if (result != nullptr) {
    *result = found == Found::Yes      ? cudaDriverEntryPointSuccess
              : found == Found::TooOld ? cudaDriverEntryPointVersionNotSufficent
                                       : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned int version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result) {
  return runtime_call<"cudaGetDriverEntryPointByVersion">({version, flags}, [&](ThreadState&) {
    return get_entry_point(name, function, version, result);
  });
}

#undef cudaGetDriverEntryPoint
SIMCUDA_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** function,
                                                   unsigned long long flags,
                                                   cudaDriverEntryPointQueryResult* result) {
  return runtime_call<"cudaGetDriverEntryPoint">({flags}, [&](ThreadState&) {
    return get_entry_point(name, function, CUDART_VERSION, result);
  });
}

SIMCUDA_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                            cuuint64_t flags,
                                            CUdriverProcAddressQueryResult* result) {
  const void* const caller = __builtin_return_address(0);
  return driver_call<"cuGetProcAddress">(
      {static_cast<std::uint64_t>(version), flags}, [&](ThreadState&) {
        if (name == nullptr || function == nullptr) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        if (std::string_view(name) == "cuGetExportTable") {  // only a static runtime asks for it
          explain_static_runtime(caller);
        }
        const Found found = look_up(name, static_cast<unsigned>(version), function);
        if (result != nullptr) {
          *result = found == Found::Yes      ? CU_GET_PROC_ADDRESS_SUCCESS
                    : found == Found::TooOld ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                             : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        }
        return found == Found::Yes ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
      });
}

}  // namespace simcuda
