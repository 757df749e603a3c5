// Modules of the driver: their kernels, what is known about those, and variables. The image is PTX,
// which a GPU's driver compiles.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/driver_functions.h"

namespace {

constexpr const char* kImage =
    "// two kernels and two variables\n"
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 counts[3] = {7, 8, 9};\n"
    ".visible .const .align 8 .b8 table[40];\n"
    ".visible .entry first(.param .u64 where, .param .u8 small, .param .align 8 .b8 more[16])\n"
    ".maxntid 64, 2, 1\n{ ret; }\n"
    ".visible .entry second()\n{ ret; }\n";

CUmodule load() {
  DRIVER(cuModuleLoadData);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);  // a context
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData_found(&module, kImage) == CUDA_SUCCESS);
  return module;
}

CUfunction find(CUmodule module, const char* name) {
  DRIVER(cuModuleGetFunction);
  CUfunction function = nullptr;
  REQUIRE(cuModuleGetFunction_found(&function, module, name) == CUDA_SUCCESS);
  return function;
}

int attribute(CUfunction function, CUfunction_attribute which) {
  DRIVER(cuFuncGetAttribute);
  int value = -2;
  REQUIRE(cuFuncGetAttribute_found(&value, which, function) == CUDA_SUCCESS);
  return value;
}

TEST_CASE("a module's kernels are counted, listed and found by name alone") {
  const CUmodule module = load();
  DRIVER(cuModuleGetFunctionCount);
  DRIVER(cuModuleEnumerateFunctions);
  DRIVER(cuFuncGetName);
  DRIVER(cuModuleGetFunction);
  unsigned int count = 0;
  CHECK(cuModuleGetFunctionCount_found(&count, module) == CUDA_SUCCESS);
  REQUIRE(count == 2);
  std::array<CUfunction, 2> functions{};
  REQUIRE(cuModuleEnumerateFunctions_found(functions.data(), 2, module) == CUDA_SUCCESS);
  std::vector<std::string> names;
  for (CUfunction function : functions) {
    const char* name = nullptr;
    REQUIRE(cuFuncGetName_found(&name, function) == CUDA_SUCCESS);
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"first", "second"});
  CUfunction none = nullptr;
  CHECK(cuModuleGetFunction_found(&none, module, "firs") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction_found(&none, module, "counts") == CUDA_ERROR_NOT_FOUND);
  DRIVER(cuModuleUnload);
  CHECK(cuModuleUnload_found(module) == CUDA_SUCCESS);
}

TEST_CASE("a kernel's parameters lie where C++ would put them, and end") {
  const CUmodule module = load();
  const CUfunction first = find(module, "first");
  DRIVER(cuFuncGetParamInfo);
  struct Place {
    std::size_t offset_bytes, size_bytes;
  };
  constexpr std::array<Place, 3> kWanted = {{{0, 8}, {8, 1}, {16, 16}}};
  for (std::size_t i = 0; i < kWanted.size(); ++i) {
    std::size_t offset = 99;
    std::size_t size = 99;
    REQUIRE(cuFuncGetParamInfo_found(first, i, &offset, &size) == CUDA_SUCCESS);
    CHECK(offset == kWanted[i].offset_bytes);
    CHECK(size == kWanted[i].size_bytes);
  }
  std::size_t offset = 0;
  CHECK(cuFuncGetParamInfo_found(first, 3, &offset, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuFuncGetParamInfo_found(find(module, "second"), 0, &offset, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("what a kernel says of its blocks holds for its launches, and some of it can be set") {
  const CUmodule module = load();
  const CUfunction first = find(module, "first");
  const CUfunction second = find(module, "second");
  CHECK(attribute(first, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
  CHECK(attribute(second, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
  CHECK(attribute(second, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 0);
  DRIVER(cuFuncSetAttribute);
  CHECK(cuFuncSetAttribute_found(second, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096) ==
        CUDA_SUCCESS);
  CHECK(attribute(second, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 4096);
  CHECK(cuFuncSetAttribute_found(second, CU_FUNC_ATTRIBUTE_NUM_REGS, 8) ==
        CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuLaunchKernel);
  CHECK(cuLaunchKernel_found(second, 1, 1, 1, 1025, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a variable has its size and first values, in memory that ends with the module") {
  const CUmodule module = load();
  DRIVER(cuModuleGetGlobal);
  DRIVER(cuMemcpyDtoH);
  DRIVER(cuMemcpyHtoD);
  CUdeviceptr place = 0;
  std::size_t size = 0;
  REQUIRE(cuModuleGetGlobal_found(&place, &size, module, "counts") == CUDA_SUCCESS);
  CHECK(size == 12);
  std::array<unsigned, 3> values{};
  REQUIRE(cuMemcpyDtoH_found(values.data(), place, size) == CUDA_SUCCESS);
  CHECK(values == std::array<unsigned, 3>{7, 8, 9});
  const unsigned written = 5;
  CHECK(cuMemcpyHtoD_found(place, &written, sizeof written) == CUDA_SUCCESS);
  CUdeviceptr again = 0;
  CHECK(cuModuleGetGlobal_found(&again, nullptr, module, "counts") == CUDA_SUCCESS);
  CHECK(again == place);
  CHECK(cuModuleGetGlobal_found(nullptr, &size, module, "table") == CUDA_SUCCESS);
  CHECK(size == 40);
  CHECK(cuModuleGetGlobal_found(&again, &size, module, "none") == CUDA_ERROR_NOT_FOUND);
  DRIVER(cuModuleUnload);
  REQUIRE(cuModuleUnload_found(module) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH_found(values.data(), place, sizeof values) != CUDA_SUCCESS);
}

TEST_CASE("what is no image of device code is refused") {
  DRIVER(cuModuleLoadData);
  CUmodule module = nullptr;
  const std::string text(256, 'x');
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  CHECK(cuModuleLoadData_found(&module, text.c_str()) != CUDA_SUCCESS);
  CHECK(cuModuleLoadData_found(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the runtime's libraries have the kernels and variables of their image") {
  cudaLibrary_t library = nullptr;
  REQUIRE(cudaLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
          cudaSuccess);
  cudaKernel_t kernel = nullptr;
  CHECK(cudaLibraryGetKernel(&kernel, library, "second") == cudaSuccess);
  CHECK(kernel != nullptr);
  CHECK(cudaLibraryGetKernel(&kernel, library, "third") == cudaErrorSymbolNotFound);
  void* address = nullptr;
  size_t size_bytes = 0;
  REQUIRE(cudaLibraryGetGlobal(&address, &size_bytes, library, "counts") == cudaSuccess);
  CHECK(size_bytes == 12);
  std::array<int, 3> counts{};
  CHECK(cudaMemcpy(counts.data(), address, 12, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(counts == std::array<int, 3>{7, 8, 9});
  CHECK(cudaLibraryUnload(library) == cudaSuccess);
  (void)cudaGetLastError();
}

}  // namespace
