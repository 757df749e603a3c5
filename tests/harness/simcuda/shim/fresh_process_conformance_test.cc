// What an H200 (driver 580.159, CUDA 13.0) answers in a process of its own.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

namespace {

using conformance::kMiB;

constexpr const char* kAddressesMode = "SIMCUDA_CONFORMANCE_ADDRESSES";
constexpr const char* kDestroyedPoolMode = "SIMCUDA_CONFORMANCE_DESTROYED_POOL";

// A fixed sequence in a fresh process: requests, and a free now and then. Prints offsets to the
// first address.
void print_addresses() {
  constexpr std::array<std::uint64_t, 18> kSizes = {
      512,       20 * kMiB,  20 * kMiB, 4096,       2 * kMiB,  1048577,
      1048576,   104 * kMiB, 2 * kMiB,  33 * kMiB,  30 * kMiB, 100000,
      64 * kMiB, 2 * kMiB,   20 * kMiB, 512 * kMiB, 22 * kMiB, 512};
  std::vector<char*> blocks;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    void* block = nullptr;
    if (cudaMalloc(&block, kSizes[i]) != cudaSuccess) {
      std::printf("failed\n");
      return;
    }
    blocks.push_back(static_cast<char*>(block));
    std::printf("%lld ", static_cast<long long>(blocks[i] - blocks[0]) / 512);
    if (i % 4 == 3) {
      cudaFree(blocks[i - 2]);
    }
  }
}

// A pool that is destroyed before its block is freed. On an H200 (driver 580.159.04) the process
// crashed when it later destroyed another pool, so it is one of its own.
void print_destroyed_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  void* block = nullptr;
  std::printf("%s ", cudaGetErrorName(cudaMemPoolCreate(&pool, &properties)));
  std::printf("%s ", cudaGetErrorName(cudaMallocFromPoolAsync(&block, 1000, pool, nullptr)));
  std::printf("%s ", cudaGetErrorName(cudaMemPoolDestroy(pool)));
  std::printf("%s ", cudaGetErrorName(cudaFreeAsync(block, nullptr)));
  std::printf("%s", cudaGetErrorName(cudaStreamSynchronize(nullptr)));
}

struct FreshMode {
  const char* variable;
  void (*print)();
};
constexpr std::array<FreshMode, 2> kModes = {
    {{kAddressesMode, print_addresses}, {kDestroyedPoolMode, print_destroyed_pool}}};

// What a fresh process of this program prints.
std::string printed_by(const char* mode) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = std::string(mode) + "=1 '" + self + "'";
  FILE* child = popen(command.c_str(), "r");
  REQUIRE(child != nullptr);
  std::array<char, 1024> line{};
  const std::size_t length = fread(line.data(), 1, line.size() - 1, child);
  pclose(child);
  return {line.data(), length};
}

// Runs before main: without a device there is nothing to compare with.
const bool device_checked = [] {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "simcuda_conformance: no GPU and no simcuda; skipped\n");
    std::_Exit(77);
  }
  for (const FreshMode& mode : kModes) {
    if (std::getenv(mode.variable) == nullptr) continue;
    mode.print();
    std::fflush(stdout);
    std::_Exit(0);
  }
  return true;
}();

}  // namespace

TEST_CASE("a pool is destroyed before its last block is freed") {
  CHECK(printed_by(kDestroyedPoolMode) ==
        "cudaSuccess cudaSuccess cudaSuccess cudaSuccess cudaSuccess");
}

TEST_CASE("a fixed sequence lands on the GPU's relative addresses") {
  // What an H200 printed, in units of 512 B.
  CHECK(printed_by(kAddressesMode) ==
        "0 151552 -913408 1 -872448 9 -868352 -1175552 -962560 -1306624 -1236992 -866304 -1437696 "
        "-1306624 -1302528 -2486272 -958464 -866108 ");
}
