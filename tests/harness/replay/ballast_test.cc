// Goal: a capacity is what a program can take, to the page, whatever cudaMemGetInfo reports.
#include "harness/core/replay/ballast.h"

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

bool can_take(std::uint64_t size_bytes) {
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, size_bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return cudaFree(pointer) == cudaSuccess;
}

TEST_CASE("a capacity can be taken whole, and not a page more") {
  for (const std::uint64_t left_bytes : {2 * kMiB, 64 * kMiB, 10 * kGiB}) {
    CAPTURE(left_bytes);
    const Ballast ballast(left_bytes);
    CHECK(can_take(left_bytes));
    CHECK_FALSE(can_take(left_bytes + 2 * kMiB));
  }
}

TEST_CASE("the ballast goes with its owner") {
  const std::uint64_t free_bytes = device_free_bytes();
  { const Ballast ballast(64 * kMiB); }
  CHECK(device_free_bytes() == free_bytes);
}

TEST_CASE("more than the device has is a usage error") {
  CHECK_THROWS_AS(Ballast(1024 * kGiB), UsageError);
}

}  // namespace
}  // namespace allocmark
