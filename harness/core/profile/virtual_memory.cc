// The driver's virtual memory calls, in the order in which expandable segments use them: a large
// range is reserved once, and grows by pieces that are created, mapped and made accessible, then
// taken down from the front.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/driver_mapping.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/replay/ballast.h"

namespace allocmark {
namespace {

void check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  throw EnvironmentError({.what = "a virtual memory call failed while it was measured",
                          .where = "allocmark profile",
                          .wanted = "success",
                          .got = "CUDA driver error " + std::to_string(result),
                          .next = "see that no other program uses this GPU"});
}

struct PieceGrowth {
  std::uint64_t piece_bytes;
  std::uint32_t piece_count;
  std::uint32_t pieces_at_once;  // made accessible together
};

// One range from its reservation to its end. Access is set for several pieces at once, as for a
// large request; the driver goes through them one by one, so a piece's share is kept.
void grow(const BlockSetup& setup, const DriverMapping& driver, const PieceGrowth& growth,
          std::uint64_t level) {
  const auto add = [&](const CostKey& key, auto&& call) {
    setup.out.add(key, growth.piece_bytes, setup.time(call));
  };
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr base = 0;
  check(driver.reserve(&base, growth.piece_bytes * growth.piece_count, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> pieces(growth.piece_count);
  for (std::uint32_t i = 0; i < growth.piece_count; ++i) {
    const CUdeviceptr at = base + i * growth.piece_bytes;
    CUresult created = CUDA_SUCCESS;
    add({"cuMemCreate", level},
        [&] { created = driver.create(&pieces[i], growth.piece_bytes, &properties, 0); });
    if (created == CUDA_ERROR_OUT_OF_MEMORY) {
      throw_no_memory(setup, {.call = "cuMemCreate",
                              .size_bytes = growth.piece_bytes,
                              .held_bytes = i * growth.piece_bytes});
    }
    check(created);
    add({"cuMemMap"}, [&] { check(driver.map(at, growth.piece_bytes, 0, pieces[i], 0)); });
    if ((i + 1) % growth.pieces_at_once != 0) continue;
    const std::uint64_t bytes = growth.pieces_at_once * growth.piece_bytes;
    const std::uint64_t duration_ns = setup.time(
        [&] { check(driver.set_access(at + growth.piece_bytes - bytes, bytes, &access, 1)); });
    setup.out.add("cuMemSetAccess", growth.piece_bytes, duration_ns / growth.pieces_at_once);
  }
  for (std::uint32_t i = 0; i < growth.piece_count; ++i) {
    const CUdeviceptr at = base + i * growth.piece_bytes;
    add({"cuMemUnmap"}, [&] { check(driver.unmap(at, growth.piece_bytes)); });
    add({"cuMemRelease"}, [&] { check(driver.release(pieces[i])); });
  }
  check(driver.free_address(base, growth.piece_bytes * growth.piece_count));
}

constexpr std::array<PieceGrowth, 5> kGrowths = {
    {{2 * kMiB, 30, 1}, {20 * kMiB, 30, 1}, {20 * kMiB, 60, 3}, {64 * kMiB, 20, 1}, {kGiB, 5, 1}}};

}  // namespace

void measure_handles(const BlockSetup& setup, std::uint64_t level, std::uint64_t piece_bytes_max) {
  const DriverMapping& driver = driver_mapping();
  const std::uint64_t free_bytes = device_free_bytes();
  for (const PieceGrowth& growth : kGrowths) {
    if (growth.piece_bytes > piece_bytes_max) continue;
    if (growth.piece_bytes * growth.piece_count < free_bytes / 2) {
      grow(setup, driver, growth, level);
    }
  }
}

void measure_virtual_memory(const BlockSetup& setup) {
  measure_handles(setup, kSmallProgramBytes);
  const DriverMapping& driver = driver_mapping();
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
