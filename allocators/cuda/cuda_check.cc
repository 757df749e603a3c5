// What a failed CUDA call looks like to the reader of the message.
#include "allocators/cuda/cuda_check.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace allocmark {
namespace {

std::string next_step(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
      return "without a GPU use a simulated one: --device sim:h200";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "the CUDA context is lost; this process can do no more work on the device";
    default:
      return {};
  }
}

}  // namespace

void throw_cuda_error(cudaError_t error, const CudaCall& call) {
  (void)cudaGetLastError();
  std::string_view file = call.file;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  throw EnvironmentError(
      {.what = fmt::format("the CUDA call {} failed", call.expression),
       .where = fmt::format("{}:{}", file, call.line),
       .got = fmt::format("{} ({})", cudaGetErrorName(error), cudaGetErrorString(error)),
       .next = next_step(error)});
}

}  // namespace allocmark
