// Goal: the page budget fails exactly where the device's did, and scales with another capacity.
#include "harness/simcuda/core/physical_memory.h"

#include <cstdint>

#include "tests/catch.h"

namespace simcuda {
namespace {

TEST_CASE("one whole page less fits than is reported free") {
  PhysicalMemory memory(h200_config(StartState::Plain));
  CHECK(memory.free_bytes() == 149557477376);
  CHECK(memory.total_bytes() == 150109880320);
  CHECK_FALSE(memory.take_pages(71314));
  CHECK(memory.take_pages(71313));
  CHECK_FALSE(memory.take_pages(1));
  CHECK(memory.free_bytes() == 149557477376 - 71313 * kPageBytes);
  memory.return_pages(71313);
  CHECK(memory.free_bytes() == 149557477376);
}

TEST_CASE("4457 pool chunks fit, and leave a page for the heap") {
  PhysicalMemory memory(h200_config(StartState::Plain));
  std::uint64_t chunk_count = 0;
  while (memory.take_chunk()) {
    ++chunk_count;
  }
  CHECK(chunk_count == 4457);
  CHECK(memory.free_bytes() == 5373952);
  CHECK(memory.take_pages(1));
  CHECK_FALSE(memory.take_pages(1));
  memory.return_chunk();
  CHECK(memory.take_pages(16));
  CHECK_FALSE(memory.take_chunk());
}

TEST_CASE("a chunk limit below what the pages allow holds") {
  DeviceConfig config = h200_config(StartState::Plain);
  config.chunk_limit = 4456;
  PhysicalMemory memory(config);
  std::uint64_t chunk_count = 0;
  while (memory.take_chunk()) {
    ++chunk_count;
  }
  CHECK(chunk_count == 4456);
  CHECK(memory.take_pages(17));
  CHECK_FALSE(memory.take_pages(1));
}

TEST_CASE("a device of another capacity keeps the measured differences") {
  const DeviceConfig small =
      with_usable_bytes(h200_config(StartState::Plain), (std::uint64_t{1} << 30) + 12345);
  CHECK(small.page_limit == 512);
  CHECK(small.chunk_limit == 32);
  CHECK(small.free_bytes_initial == 512 * kPageBytes + 3276800);
  CHECK(small.total_bytes - small.free_bytes_initial == 552402944);
  const DeviceConfig same = with_usable_bytes(h200_config(StartState::Plain), 71313 * kPageBytes);
  CHECK(same.total_bytes == 150109880320);
  CHECK(same.free_bytes_initial == 149557477376);
  CHECK(same.chunk_limit == 4457);
  CHECK(with_usable_bytes(same, 0).page_limit == 0);
}

TEST_CASE("a card of another total has the measured context taken off") {
  constexpr std::uint64_t kTotalBytes = std::uint64_t{24} << 30;
  const DeviceConfig card = with_total_bytes(h200_config(StartState::Plain), kTotalBytes);
  CHECK(card.total_bytes == kTotalBytes);
  CHECK(card.free_bytes_initial == kTotalBytes - 552402944);
  // One whole page less than are free, as on the device measured: (24 GiB - 552402944 - 3276800) /
  // 2 MiB.
  CHECK(card.page_limit == 12023);
  CHECK(card.chunk_limit == 751);
  const DeviceConfig same = with_total_bytes(h200_config(StartState::Plain), 150109880320);
  CHECK(same.page_limit == 71313);
  CHECK(same.chunk_limit == 4457);
  CHECK(same.free_bytes_initial == 149557477376);
}

}  // namespace
}  // namespace simcuda
