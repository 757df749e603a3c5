// Goal: virtual memory management checks its arguments, counts references, and charges pages only
// for handles.
#include "harness/simcuda/core/virtual_memory.h"

#include <cstdint>

#include "harness/simcuda/core/device.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/core/sizes.h"

namespace simcuda {
namespace {

TEST_CASE("large reservations grow upwards in steps of 32 MiB and cost no memory") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  // PyTorch's expandable segments: 1.125 times the device's memory in segments of 2 MiB and of 20
  // MiB.
  CHECK(memory.reserve(std::uint64_t{80526} * 2 * kMiB, 0).address == kArea);
  CHECK(memory.reserve(std::uint64_t{8053} * 20 * kMiB, 0).address == kArea + 5033 * kChunkBytes);
  // In the second one's last 32 MiB.
  CHECK(memory.reserve(20 * kMiB, 0).address ==
        kArea + 5033 * kChunkBytes + std::uint64_t{8053} * 20 * kMiB);
  CHECK(device.used_bytes() == 0);
}

TEST_CASE("a reservation of 2 MiB takes a place of the large heap") {
  Device device(h200_config(StartState::Plain));
  const AllocationOutcome reserved = device.virtual_memory().reserve(2 * kMiB, 0);
  CHECK(reserved.address == device.config().base_address - 66 * kMiB);
  CHECK(device.virtual_memory().reserved(reserved.address));
  CHECK(device.virtual_memory().free_reservation(reserved.address, 2 * kMiB).status == Status::Ok);
  CHECK_FALSE(device.virtual_memory().reserved(reserved.address));
  CHECK(device.allocate(2 * kMiB).address == reserved.address);
}

TEST_CASE("a reservation without room in any chunk makes one in the area, whose rest serves all") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  CHECK(memory.reserve(20 * kMiB, 0).address == device.config().base_address + 8 * kMiB);
  const std::uint64_t first = memory.reserve(10 * kMiB, 0).address;
  CHECK(first == kArea);
  CHECK(memory.reserve(4 * kMiB, 0).address == kArea + 10 * kMiB);
  CHECK(device.allocate(6 * kMiB).address == kArea + 14 * kMiB);
  // A reservation takes the lowest place, cudaMalloc the one that fits best.
  CHECK(memory.free_reservation(first, 10 * kMiB).status == Status::Ok);
  CHECK(device.allocate(12 * kMiB).address == kArea + 20 * kMiB);
  CHECK(memory.reserve(2 * kMiB, 0).address == kArea);
}

TEST_CASE("an alignment is kept in the newest chunk that has room for it, or makes a chunk") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  CHECK(memory.reserve(4 * kMiB, 64 * kMiB).address == kArea + 32 * kMiB);
  CHECK(memory.reserve(2 * kMiB, 8 * kMiB).address == kArea + 40 * kMiB);
  CHECK(memory.reserve(2 * kMiB, 0).address == kArea + 36 * kMiB);
}

TEST_CASE("reservations that make no sense are refused") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  CHECK(memory.reserve(0, 0).status == Status::InvalidValue);
  CHECK(memory.reserve(kMiB, 0).status == Status::InvalidValue);
  CHECK(memory.reserve(32 * kMiB, 3).status == Status::InvalidValue);
  CHECK(memory.reserve(~std::uint64_t{0} - 2 * kMiB + 1, 0).status == Status::InvalidValue);
  CHECK(memory.reserve(std::uint64_t{1} << 50, 0).status == Status::OutOfMemory);
  const std::uint64_t address = memory.reserve(64 * kMiB, 0).address;
  CHECK(memory.free_reservation(address, 32 * kMiB).status == Status::InvalidValue);
  CHECK(memory.free_reservation(address + 32 * kMiB, 32 * kMiB).status == Status::InvalidValue);
  CHECK(memory.free_reservation(address, 64 * kMiB).status == Status::Ok);
  CHECK(memory.free_reservation(address, 64 * kMiB).status == Status::InvalidValue);
}

TEST_CASE("memory that is released while it is mapped lives until it is unmapped") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  const std::uint64_t address = memory.reserve(64 * kMiB, 0).address;
  const HandleOutcome handle = memory.create(20 * kMiB);
  CHECK(handle.work.pages_taken == 10);
  CHECK(device.used_bytes() == 20 * kMiB);
  REQUIRE(memory.map(address, 20 * kMiB, 0, handle.handle).status == Status::Ok);
  CHECK(memory.release(handle.handle).work.pages_returned == 0);
  CHECK(memory.handle_bytes(handle.handle) == 0);
  CHECK(memory.release(handle.handle).status == Status::InvalidValue);
  CHECK(memory.map(address + 32 * kMiB, 20 * kMiB, 0, handle.handle).status ==
        Status::InvalidValue);
  CHECK(memory.free_reservation(address, 64 * kMiB).status == Status::InvalidValue);
  CHECK(memory.unmap(address, 20 * kMiB).work.pages_returned == 10);
  CHECK(device.used_bytes() == 0);
  CHECK(memory.free_reservation(address, 64 * kMiB).status == Status::Ok);
}

TEST_CASE("a handle can be mapped twice and retained by address") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  const std::uint64_t address = memory.reserve(64 * kMiB, 0).address;
  const MemoryHandle handle = memory.create(2 * kMiB).handle;
  REQUIRE(memory.map(address, 2 * kMiB, 0, handle).status == Status::Ok);
  REQUIRE(memory.map(address + 2 * kMiB, 2 * kMiB, 0, handle).status == Status::Ok);
  CHECK(memory.retain(address + 3 * kMiB).handle == handle);
  CHECK(memory.retain(address + 4 * kMiB).status == Status::InvalidValue);
  REQUIRE(memory.release(handle).status == Status::Ok);
  REQUIRE(memory.unmap(address, 4 * kMiB).status == Status::Ok);
  CHECK(device.used_bytes() == 2 * kMiB);
  CHECK(memory.release(handle).work.pages_returned == 1);
}

TEST_CASE("mappings are checked against reservations, handles and each other") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  const std::uint64_t address = memory.reserve(64 * kMiB, 0).address;
  const MemoryHandle handle = memory.create(4 * kMiB).handle;
  const std::uint64_t size_bytes = 4 * kMiB;
  CHECK(memory.map(address + kMiB, size_bytes, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address, size_bytes, 2 * kMiB, handle).status == Status::InvalidValue);
  CHECK(memory.map(address, size_bytes + 2 * kMiB, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address, 0, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address, size_bytes, 0, handle + 1).status == Status::InvalidValue);
  CHECK(memory.map(address + 62 * kMiB, size_bytes, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address - 2 * kMiB, size_bytes, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(~std::uint64_t{0} - 2 * kMiB + 1, size_bytes, 0, handle).status ==
        Status::InvalidValue);
  CHECK(memory.mapping_count() == 0);
  REQUIRE(memory.map(address + 2 * kMiB, size_bytes, 0, handle).status == Status::Ok);
  CHECK(memory.map(address, size_bytes, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address + 4 * kMiB, size_bytes, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address, 2 * kMiB, 0, handle).status == Status::Ok);
}

TEST_CASE("a reservation can be mapped to the end of its last 32 MiB") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  const std::uint64_t address = memory.reserve(40 * kMiB, 0).address;
  const MemoryHandle handle = memory.create(4 * kMiB).handle;
  const MemoryHandle large = memory.create(28 * kMiB).handle;
  CHECK(memory.map(address + 62 * kMiB, 4 * kMiB, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address + 60 * kMiB, 4 * kMiB, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(address + 38 * kMiB, 28 * kMiB, 0, large).status == Status::InvalidValue);
  REQUIRE(memory.map(address + 38 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  CHECK(memory.free_reservation(address, 40 * kMiB).status == Status::InvalidValue);
  CHECK(memory.unmap(address + 38 * kMiB, 4 * kMiB).status == Status::Ok);
  CHECK(memory.free_reservation(address, 40 * kMiB).status == Status::Ok);
}

// Every answer as an H200 gave it (2026-11-27, driver 580.159.04).
TEST_CASE("a mapping may reach into the reservations behind it, but into no memory") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  REQUIRE(memory.reserve(20 * kMiB, 0).status == Status::Ok);  // what the first chunk has
  const std::uint64_t first = memory.reserve(10 * kMiB, 0).address;
  const std::uint64_t second = memory.reserve(12 * kMiB, 0).address;
  REQUIRE(second == first + 10 * kMiB);
  const MemoryHandle handle = memory.create(4 * kMiB).handle;
  CHECK(memory.map(first + 8 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  CHECK(memory.free_reservation(second, 12 * kMiB).status == Status::InvalidValue);
  CHECK(memory.free_reservation(first, 10 * kMiB).status == Status::InvalidValue);
  CHECK(memory.unmap(first + 8 * kMiB, 4 * kMiB).status == Status::Ok);
  CHECK(memory.map(second + 10 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  CHECK(memory.unmap(second + 10 * kMiB, 4 * kMiB).status == Status::Ok);
  CHECK(memory.free_reservation(second, 12 * kMiB).status == Status::Ok);
  // The rest of this one's chunk goes to cudaMalloc.
  const std::uint64_t third = memory.reserve(24 * kMiB, 0).address;
  REQUIRE(device.allocate(4 * kMiB).address == third + 24 * kMiB);
  CHECK(memory.map(third + 22 * kMiB, 4 * kMiB, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(third + 24 * kMiB, 4 * kMiB, 0, handle).status == Status::InvalidValue);
  CHECK(memory.map(third + 20 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
}

TEST_CASE("unmapping takes ranges with gaps and ranges where nothing is mapped") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  const std::uint64_t address = memory.reserve(64 * kMiB, 0).address;
  CHECK(memory.unmap(address, 2 * kMiB).status == Status::Ok);
  CHECK(memory.unmap(address + 64 * kMiB, 2 * kMiB).status == Status::InvalidValue);
  const MemoryHandle handle = memory.create(4 * kMiB).handle;
  REQUIRE(memory.map(address + 4 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  REQUIRE(memory.map(address + 12 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  REQUIRE(memory.release(handle).status == Status::Ok);
  CHECK(memory.unmap(address, 6 * kMiB).status == Status::InvalidValue);
  CHECK(memory.unmap(address + 6 * kMiB, 10 * kMiB).status == Status::InvalidValue);
  CHECK(memory.mapping_count() == 2);
  CHECK(memory.unmap(address, 20 * kMiB).work.pages_returned == 2);
  CHECK(memory.mapping_count() == 0);
  CHECK(device.used_bytes() == 0);
}

TEST_CASE("access wants whole mappings without gaps, and no mapping is unmapped in part") {
  Device device(h200_config(StartState::Plain));
  VirtualMemory& memory = device.virtual_memory();
  const std::uint64_t address = memory.reserve(64 * kMiB, 0).address;
  const MemoryHandle handle = memory.create(4 * kMiB).handle;
  REQUIRE(memory.map(address, 4 * kMiB, 0, handle).status == Status::Ok);
  REQUIRE(memory.map(address + 4 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  REQUIRE(memory.map(address + 10 * kMiB, 4 * kMiB, 0, handle).status == Status::Ok);
  const Access write = Access::ReadWrite;
  CHECK(memory.set_access(address, 2 * kMiB, write).status == Status::InvalidValue);
  CHECK(memory.set_access(address + 2 * kMiB, 6 * kMiB, write).status == Status::InvalidValue);
  CHECK(memory.set_access(address, 14 * kMiB, write).status == Status::InvalidValue);
  CHECK(memory.find(address).access == Access::None);
  CHECK(memory.set_access(address, 8 * kMiB, write).status == Status::Ok);
  CHECK(memory.find(address + 7 * kMiB).access == Access::ReadWrite);
  CHECK(memory.find(address + 10 * kMiB).access == Access::None);
  CHECK(memory.unmap(address, 6 * kMiB).status == Status::InvalidValue);
  CHECK(memory.mapping_count() == 3);
  CHECK(memory.unmap(address, 8 * kMiB).status == Status::Ok);
  CHECK(memory.mapping_count() == 1);
}

TEST_CASE("handles share the device's memory with the heap and the pools") {
  Device device(with_usable_bytes(h200_config(StartState::Plain), 128 * kMiB));
  VirtualMemory& memory = device.virtual_memory();
  device.pool(kDefaultPool)->set_release_threshold(~std::uint64_t{0});
  const std::uint64_t block = device.allocate_async(32 * kMiB, kLegacyStream, 0, 0).address;
  const std::uint64_t heap = device.allocate(64 * kMiB).address;
  CHECK(memory.create(34 * kMiB).status == Status::OutOfMemory);
  CHECK(device.used_bytes() == 96 * kMiB);
  const MemoryHandle handle = memory.create(32 * kMiB).handle;
  CHECK(device.allocate(1).status == Status::OutOfMemory);
  REQUIRE(memory.release(handle).status == Status::Ok);
  REQUIRE(device.deallocate_async(block, kLegacyStream, 0).status == Status::Ok);
  REQUIRE(device.synchronize_device(0).status == Status::Ok);
  const HandleOutcome large = memory.create(64 * kMiB);
  CHECK(large.status == Status::Ok);
  CHECK(large.work.pools_gave_back);
  CHECK(large.work.chunks_returned == 1);
  CHECK(device.deallocate(heap, 0).status == Status::Ok);
  CHECK(memory.create(0).status == Status::InvalidValue);
  CHECK(memory.create(kMiB).status == Status::InvalidValue);
}

}  // namespace
}  // namespace simcuda
