// Descriptors of tensors, as an H200 takes or refuses them (driver 580.159.04).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/driver_functions.h"

TEST_CASE("a tensor is described where a GPU takes it") {
  DRIVER(cuTensorMapEncodeTiled);
  DRIVER(cuTensorMapReplaceAddress);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  struct Question {
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    cuuint32_t rank = 2;
    std::uintptr_t address = 1 << 20;
    std::array<cuuint64_t, 5> sizes = {512, 512, 4, 1, 1};
    std::array<cuuint64_t, 5> strides = {1024, 512 * 1024, 4 * 512 * 1024, 4 * 512 * 1024, 0};
    std::array<cuuint32_t, 5> box = {64, 64, 1, 1, 1};
    std::array<cuuint32_t, 5> steps = {1, 1, 1, 1, 1};
    CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  };
  CUtensorMap map{};
  const auto answer = [&](const auto& change) {
    Question asked;
    change(asked);
    return cuTensorMapEncodeTiled_found(
        &map, asked.type, asked.rank, reinterpret_cast<void*>(asked.address), asked.sizes.data(),
        asked.strides.data(), asked.box.data(), asked.steps.data(), asked.interleave, asked.swizzle,
        asked.promotion, asked.fill);
  };
  const auto passes = [&](const auto& change) { return answer(change) == CUDA_SUCCESS; };
  const auto fails = [&](const auto& change) { return answer(change) == CUDA_ERROR_INVALID_VALUE; };
  CHECK(passes([](Question&) {}));
  const CUtensorMap plain = map;
  CHECK(passes([](Question& q) { q.box[1] = 128; }));
  CHECK(std::memcmp(&plain, &map, sizeof map) != 0);
  CHECK(fails([](Question& q) { q.rank = 0; }));
  CHECK(fails([](Question& q) { q.rank = 6; }));
  CHECK(passes([](Question& q) { q.rank = 5; }));
  CHECK(fails([](Question& q) { q.address += 8; }));
  CHECK(fails([](Question& q) { q.sizes[1] = 0; }));
  CHECK(passes([](Question& q) { q.sizes[1] = cuuint64_t{1} << 32; }));
  CHECK(fails([](Question& q) { q.sizes[1] = (cuuint64_t{1} << 32) + 1; }));
  CHECK(fails([](Question& q) { q.strides[0] = 1032; }));
  CHECK(fails([](Question& q) { q.strides[0] = cuuint64_t{1} << 40; }));
  CHECK(fails([](Question& q) { q.box[1] = 257; }));
  CHECK(fails([](Question& q) { q.box[1] = 0; }));
  CHECK(fails([](Question& q) { q.box[0] = 4; }));    // 8 bytes
  CHECK(fails([](Question& q) { q.box[0] = 128; }));  // 256 bytes, in a swizzle of 128
  CHECK(passes([](Question& q) {
    q.box[0] = 128;
    q.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  }));
  CHECK(fails([](Question& q) { q.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }));
  CHECK(fails([](Question& q) { q.steps[1] = 9; }));
  CHECK(fails([](Question& q) { q.steps[1] = 0; }));
  CHECK(fails([](Question& q) { q.steps[0] = 0; }));  // the manual: it is ignored
  CHECK(fails([](Question& q) { q.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }));  // of rank 2
  CHECK(passes([](Question& q) {
    q.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
    q.rank = 3;
  }));
  for (const auto swizzle : {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                             CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B}) {
    CHECK(passes([&](Question& q) {
      q.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;  // the manual: 32B alone
      q.swizzle = swizzle;
      q.rank = 3;
    }));
  }
  // A box has at most 228 KiB, and its steps count.
  const auto large = [](Question& q) {
    q.box = {64, 61, 30, 1, 1};
    q.rank = 3;
  };
  CHECK(fails(large));
  CHECK(passes([&](Question& q) {
    large(q);
    q.box[1] = 57;
    q.box[2] = 32;
  }));
  CHECK(passes([&](Question& q) {
    large(q);
    q.steps[1] = 2;
  }));
  // Steps longer than the box leave nothing of it.
  CHECK(passes([&](Question& q) {
    large(q);
    q.box = {64, 256, 256, 4, 1};
    q.steps[3] = 8;
    q.rank = 4;
  }));
  CHECK(passes([](Question& q) { q.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }));
  CHECK(fails([](Question& q) {
    q.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    q.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
    q.box[0] = 32;
  }));
  CHECK(fails([](Question& q) { q.swizzle = static_cast<CUtensorMapSwizzle>(7); }));
  map = plain;
  CHECK(cuTensorMapReplaceAddress_found(&map, reinterpret_cast<void*>(1 << 21)) == CUDA_SUCCESS);
  CHECK(std::memcmp(&plain, &map, sizeof map) != 0);
  CHECK(cuTensorMapReplaceAddress_found(&map, reinterpret_cast<void*>(8)) ==
        CUDA_ERROR_INVALID_VALUE);
}
