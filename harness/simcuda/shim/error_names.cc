// Names and texts of errors, from a table made at build time.

#include "harness/simcuda/shim/call.h"

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

template <std::size_t kCount>
const ErrorRow* find(const ErrorRow (&rows)[kCount], int code) {
  for (const ErrorRow& row : rows) {
    if (row.code == code) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

SIMCUDA_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const ErrorRow* row = find(kRuntimeErrors, error);
  return row == nullptr ? "unrecognized error code" : row->name;
}

SIMCUDA_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const ErrorRow* row = find(kRuntimeErrors, error);
  return row == nullptr ? "unrecognized error code" : row->text;
}

SIMCUDA_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  return driver_call<"cuGetErrorName">({static_cast<std::uint64_t>(error)}, [&](ThreadState&) {
    const ErrorRow* row = find(kDriverErrors, error);
    *name = row == nullptr ? nullptr : row->name;
    return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  return driver_call<"cuGetErrorString">({static_cast<std::uint64_t>(error)}, [&](ThreadState&) {
    const ErrorRow* row = find(kDriverErrors, error);
    *text = row == nullptr ? nullptr : row->text;
    return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // namespace simcuda
