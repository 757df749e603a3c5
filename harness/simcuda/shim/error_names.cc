// Names and texts of errors, from a table made at build time.
#include <algorithm>
#include <iterator>

#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct ErrorRow {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorRow kRuntimeErrors[] = {
#define RUNTIME_ERROR(code, name, text) {code, name, text},
#define DRIVER_ERROR(code, name, text)
#include "error_table.inc"
#undef RUNTIME_ERROR
#undef DRIVER_ERROR
};

constexpr ErrorRow kDriverErrors[] = {
#define RUNTIME_ERROR(code, name, text)
#define DRIVER_ERROR(code, name, text) {code, name, text},
#include "error_table.inc"
#undef RUNTIME_ERROR
#undef DRIVER_ERROR
};

// Null where the code is none.
template <std::size_t kCount>
const char* find_text(const ErrorRow (&rows)[kCount], int code, const char* ErrorRow::*text) {
  const auto* const row = std::ranges::find(rows, code, &ErrorRow::code);
  return row == std::end(rows) ? nullptr : row->*text;
}

const char* runtime_text(cudaError_t error, const char* ErrorRow::*text) {
  const char* const found = find_text(kRuntimeErrors, error, text);
  return found == nullptr ? "unrecognized error code" : found;
}

cudaError_t give_driver_text(CUresult error, const char** out, const char* ErrorRow::*text) {
  *out = find_text(kDriverErrors, error, text);
  return *out == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

SIMCUDA_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  return runtime_text(error, &ErrorRow::name);
}
SIMCUDA_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  return runtime_text(error, &ErrorRow::text);
}

SIMCUDA_DRIVER(cuGetErrorName, (CUresult error, const char** name),
               (static_cast<std::uint64_t>(error)), give_driver_text(error, name, &ErrorRow::name))
SIMCUDA_DRIVER(cuGetErrorString, (CUresult error, const char** text),
               (static_cast<std::uint64_t>(error)), give_driver_text(error, text, &ErrorRow::text))

}  // namespace simcuda
