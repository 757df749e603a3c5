// Build-time helper: writes the names and texts of all CUDA errors as C++ table rows, asked from
// the installed toolkit so that simcuda's texts are the real ones. In: path of cuda.h. Out, on
// stdout: RUNTIME_ERROR and DRIVER_ERROR rows.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <string>

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
  const std::regex pattern("^ *(CUDA_SUCCESS|CUDA_ERROR_[A-Z0-9_]+) *= *([0-9]+)");
  std::string line;
  while (std::getline(header, line)) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) {
      // Codes mean the same in both interfaces, but for a few that only the driver has.
      const std::string code = match[2];
      const char* text = cudaGetErrorString(static_cast<cudaError_t>(std::atoi(code.c_str())));
      std::printf("DRIVER_ERROR(%s, \"%s\", \"%s\")\n", code.c_str(), match[1].str().c_str(), text);
    }
  }
  return 0;
}
