// Build-time helper: writes the names and texts of all CUDA errors as C++ table rows, asked from
// the installed toolkit so that simcuda's texts are the real ones. In: path of cuda.h. Out, on
// stdout: RUNTIME_ERROR and DRIVER_ERROR rows.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace {
bool is_error(const char* name) {
  return std::strcmp(name, "CUDA_SUCCESS") == 0 || std::strncmp(name, "CUDA_ERROR_", 11) == 0;
}
}  // namespace

int main(int argc, char** argv) {
  std::ifstream header(argc == 2 ? argv[1] : "");
  if (!header) {
    std::fprintf(stderr, "make_error_table: wanted the path of cuda.h, got '%s'\n",
                 argc == 2 ? argv[1] : "");
    return 1;
  }
  for (int code = 0; code < 1000; ++code) {
    const cudaError_t error = static_cast<cudaError_t>(code);
    if (std::strcmp(cudaGetErrorName(error), "unrecognized error code") != 0) {
      std::printf("RUNTIME_ERROR(%d, \"%s\", \"%s\")\n", code, cudaGetErrorName(error),
                  cudaGetErrorString(error));
    }
  }
  std::string line;
  while (std::getline(header, line)) {
    // "    CUDA_ERROR_INVALID_VALUE    = 1,"
    char name[128];
    int code = 0;
    if (std::sscanf(line.c_str(), " %127[A-Z0-9_] = %d", name, &code) == 2 && is_error(name)) {
      // Codes mean the same in both interfaces, but for a few that only the driver has.
      const char* text = cudaGetErrorString(static_cast<cudaError_t>(code));
      std::printf("DRIVER_ERROR(%d, \"%s\", \"%s\")\n", code, name, text);
    }
  }
  return 0;
}
