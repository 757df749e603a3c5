// Driver functions by name: cudaGetDriverEntryPoint(ByVersion) and cuGetProcAddress. In: a name
// without suffix, and the version of CUDA whose function is wanted. Out: our function of that name,
// the newest that is no newer than that, found among our own exports.
#include <string>
#include <string_view>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/function_names.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/static_runtime.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct VersionRow {
  std::string_view name;
  unsigned version = 0;  // 12030: CUDA 12.3
  const char* symbol = nullptr;
  bool is_per_thread = false;  // for --default-stream per-thread
};
// From the toolkit's headers; a function's rows stand together, its newest first.
constexpr VersionRow kVersions[] = {
#define DRIVER_VERSION(kind, name, version, symbol) \
  {#name, version, #symbol, std::string_view(#kind) == "threaded"},
#include "driver_versions.inc"
#undef DRIVER_VERSION
};

// Both APIs have the first three under these numbers.
enum class Found : std::uint8_t { Yes, NotFound, TooOld, VersionTooNew };
static_assert(static_cast<int>(Found::NotFound) == cudaDriverEntryPointSymbolNotFound);
static_assert(static_cast<int>(Found::NotFound) == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
static_assert(static_cast<int>(Found::TooOld) == cudaDriverEntryPointVersionNotSufficent);
static_assert(static_cast<int>(Found::TooOld) == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

struct Wanted {
  const char* name = nullptr;
  unsigned version = 0;
  bool is_per_thread = false;
};

// Functions that have no variant for per-thread streams are the same for all.
Found look_up(const Wanted& wanted, void** function) {
  *function = nullptr;
  if (wanted.version > static_cast<unsigned>(driver_version())) return Found::VersionTooNew;
  const VersionRow* best = nullptr;
  bool is_known = false;
  for (const VersionRow& row : kVersions) {
    if (row.name != wanted.name) continue;
    is_known = true;
    if (row.version > wanted.version || (row.is_per_thread && !wanted.is_per_thread)) continue;
    if (best == nullptr || row.is_per_thread > best->is_per_thread) best = &row;
  }
  if (best == nullptr) return is_known ? Found::TooOld : Found::NotFound;
  *function = own_function(best->symbol);
  return *function == nullptr ? Found::NotFound : Found::Yes;
}

// Not finding a function is an answer, not an error: measured.
cudaError_t get_entry_point(const Wanted& wanted, void** function,
                            cudaDriverEntryPointQueryResult* result) {
  if (wanted.name == nullptr || function == nullptr) return cudaErrorInvalidValue;
  const Found found = look_up(wanted, function);
  if (found == Found::VersionTooNew) return cudaErrorInvalidValue;
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(found);
  return cudaSuccess;
}

CUresult get_proc_address(const Wanted& wanted, void** function,
                          CUdriverProcAddressQueryResult* result, const void* caller) {
  start_if_needed();
  if (wanted.name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Found found = look_up(wanted, function);
  if (found == Found::VersionTooNew) return CUDA_ERROR_INVALID_VALUE;
  // It then gives up as with a driver that is too old.
  if (std::string_view(wanted.name) == "cuGetExportTable" && carries_static_runtime(caller)) {
    explain_static_runtime(caller);
    *function = nullptr;
    found = Found::NotFound;
  }
  if (result != nullptr) *result = static_cast<CUdriverProcAddressQueryResult>(found);
  // A name that came later is no error: an H200's driver says so in `result` alone.
  return found == Found::NotFound ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

bool asks_per_thread(unsigned long long flags) {
  return (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
}

}  // namespace

SIMCUDA_RUNTIME(cudaGetDriverEntryPointByVersion,
                (const char* name, void** function, unsigned int version, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* result),
                (version, flags),
                get_entry_point({name, version, asks_per_thread(flags)}, function, result))

#undef cudaGetDriverEntryPoint
SIMCUDA_RUNTIME(cudaGetDriverEntryPoint,
                (const char* name, void** function, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* result),
                (flags),
                get_entry_point({name, CUDART_VERSION, asks_per_thread(flags)}, function, result))

SIMCUDA_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                            cuuint64_t flags,
                                            CUdriverProcAddressQueryResult* result) {
  const void* const caller = __builtin_return_address(0);
  return driver_call<"cuGetProcAddress">(
      {static_cast<std::uint64_t>(version), flags}, [&](ThreadState&) {
        return get_proc_address({name, static_cast<unsigned>(version), asks_per_thread(flags)},
                                function, result, caller);
      });
}

#undef cuGetProcAddress
SIMCUDA_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version,
                                         cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // namespace simcuda
