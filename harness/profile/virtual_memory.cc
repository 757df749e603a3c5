// The driver's virtual memory calls, in the order in which expandable segments use them: a large
// range is reserved once, and grows by pieces that are created, mapped and made accessible, then
// taken down from the front.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <vector>

#include "allocators/cuda_check.h"
#include "allocators/driver_entry_point.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/ballast.h"
#include "harness/profile/blocks.h"

namespace allocmark {
namespace {

struct Functions {
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_address = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
};

Functions look_up() {
  Functions found;
  look_up_driver("cuMemAddressReserve", found.reserve);
  look_up_driver("cuMemAddressFree", found.free_address);
  look_up_driver("cuMemCreate", found.create);
  look_up_driver("cuMemRelease", found.release);
  look_up_driver("cuMemMap", found.map);
  look_up_driver("cuMemUnmap", found.unmap);
  look_up_driver("cuMemSetAccess", found.set_access);
  return found;
}

void check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  throw EnvironmentError({.what = "a virtual memory call failed while it was measured",
                          .where = "allocmark profile",
                          .wanted = "success",
                          .got = "CUDA driver error " + std::to_string(result),
                          .next = "see that no other program uses this GPU"});
}

struct Growth {
  std::uint64_t piece_bytes;
  std::uint32_t piece_count;
};

// One range from its reservation to its end.
void grow(const BlockSetup& setup, const Functions& driver, const Growth& growth, int device) {
  const auto add = [&](const char* cost, auto&& call) {
    setup.out.add(cost, growth.piece_bytes, setup.time(call));
  };
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr base = 0;
  check(driver.reserve(&base, growth.piece_bytes * growth.piece_count, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> pieces(growth.piece_count);
  for (std::uint32_t i = 0; i < growth.piece_count; ++i) {
    const CUdeviceptr at = base + i * growth.piece_bytes;
    add("cuMemCreate",
        [&] { check(driver.create(&pieces[i], growth.piece_bytes, &properties, 0)); });
    add("cuMemMap", [&] { check(driver.map(at, growth.piece_bytes, 0, pieces[i], 0)); });
    add("cuMemSetAccess", [&] { check(driver.set_access(at, growth.piece_bytes, &access, 1)); });
  }
  for (std::uint32_t i = 0; i < growth.piece_count; ++i) {
    const CUdeviceptr at = base + i * growth.piece_bytes;
    add("cuMemUnmap", [&] { check(driver.unmap(at, growth.piece_bytes)); });
    add("cuMemRelease", [&] { check(driver.release(pieces[i])); });
  }
  check(driver.free_address(base, growth.piece_bytes * growth.piece_count));
}

}  // namespace

void measure_virtual_memory(const BlockSetup& setup) {
  const Functions driver = look_up();
  int device = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  const std::uint64_t free_bytes = device_free_bytes();
  constexpr std::array<Growth, 4> kGrowths = {
      {{2 * kMiB, 30}, {20 * kMiB, 30}, {64 * kMiB, 20}, {kGiB, 5}}};
  for (const Growth& growth : kGrowths) {
    if (growth.piece_bytes * growth.piece_count < free_bytes / 2) {
      grow(setup, driver, growth, device);
    }
  }
  constexpr std::uint32_t kReservationCount = 10;
  for (const std::uint64_t size_bytes : {2 * kMiB, 20 * kMiB, 64 * kMiB, kGiB, 64 * kGiB}) {
    for (std::uint32_t i = 0; i < kReservationCount; ++i) {
      CUdeviceptr base = 0;
      setup.out.add("cuMemAddressReserve", size_bytes,
                    setup.time([&] { check(driver.reserve(&base, size_bytes, 0, 0, 0)); }));
      setup.out.add("cuMemAddressFree", size_bytes,
                    setup.time([&] { check(driver.free_address(base, size_bytes)); }));
    }
  }
}

}  // namespace allocmark
