// Whether the static runtime's functions are found by their code where the linker put them: this
// program carries one. Out: how many were found, and a line for each that is elsewhere; exit code 1
// then.
#include <cuda_runtime_api.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "harness/simcuda/shim/stripped_runtime.h"

extern "C" {
cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t* id);
cudaError_t cudaMemset_ptds(void* pointer, int value, size_t size_bytes);
cudaError_t cudaMemsetAsync_ptsz(void* pointer, int value, size_t size_bytes, cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
}

__global__ void kernel_of_program(int* value) { *value = 1; }

namespace {

struct Known {
  const char* name;
  std::uint64_t address;
};
// Each name is one of a text here, too, as programs have it in their messages.
#define KNOWN(name) \
  Known { #name, reinterpret_cast < std::uint64_t>(&name) }
const Known kKnown[] = {KNOWN(cudaDeviceSynchronize), KNOWN(cudaEventRecord),
                        KNOWN(cudaGetErrorString),    KNOWN(cudaGetExportTable),
                        KNOWN(cudaGetLastError),      KNOWN(cudaHostRegister),
                        KNOWN(cudaLaunchKernelExC),   KNOWN(cudaMemGetInfo),
                        KNOWN(cudaMemPoolTrimTo),     KNOWN(cudaMemset),
                        KNOWN(cudaMemset_ptds),       KNOWN(cudaMemsetAsync_ptsz),
                        KNOWN(cudaRuntimeGetVersion), KNOWN(cudaStreamQuery_ptsz)};

// Mentions one name, and calls the function of it.
__attribute__((noinline)) int mention(void* pointer) {
  const int error = cudaFree(pointer);
  if (error != 0) std::puts("cudaFree");
  return error;
}

int first_module(dl_phdr_info* module, std::size_t, void* found) {
  *static_cast<simcuda::StrippedRuntime*>(found) = simcuda::find_stripped_runtime(*module);
  return 1;
}

}  // namespace

int main(int argument_count, char**) {
  if (argument_count > 1) return mention(nullptr) + (kernel_of_program<<<1, 1>>>(nullptr), 0);
  simcuda::StrippedRuntime runtime;
  dl_iterate_phdr(&first_module, &runtime);
  int wrong_count = 0;
  for (const Known& known : kKnown) {
    int right_count = 0;
    for (const simcuda::RuntimeFunction& function : runtime.functions) {
      right_count += function.name == known.name && function.address == known.address ? 1 : 0;
    }
    if (right_count == 1) continue;
    ++wrong_count;
    std::printf("%s is not where the linker put it\n", known.name);
  }
  for (const simcuda::RuntimeFunction& function : runtime.functions) {
    if (function.address == reinterpret_cast<std::uint64_t>(&mention)) ++wrong_count;
    if (function.name == "cudaFree" &&
        function.address != reinterpret_cast<std::uint64_t>(&cudaFree)) {
      ++wrong_count;
    }
  }
  const bool is_whole = runtime.functions.size() > 350 && runtime.ambiguous.empty() &&
                        runtime.version / 1000 == CUDART_VERSION / 1000;
  std::printf("%s, %d wrong, version %u\n", is_whole ? "whole" : "parts", wrong_count,
              runtime.version / 1000);
  return wrong_count == 0 && is_whole ? 0 : 1;
}
