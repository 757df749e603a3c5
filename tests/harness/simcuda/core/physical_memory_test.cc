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

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// A DGX Spark of 121 GiB, of which the host's programs hold 10 and need 7.
DeviceConfig one_pool(std::uint64_t cached_bytes) {
  return with_shared_host(with_total_bytes(h200_config(StartState::Plain), 121 * kGiB),
                          {.is_one_pool = true,
                           .own_bytes = 10 * kGiB,
                           .reserve_bytes = 7 * kGiB,
                           .cached_bytes = cached_bytes});
}

TEST_CASE("a host that shares nothing changes nothing") {
  const DeviceConfig plain = h200_config(StartState::C10);
  const DeviceConfig same = with_shared_host(plain, {});
  CHECK(same.page_limit == plain.page_limit);
  CHECK(same.free_bytes_initial == plain.free_bytes_initial);
  PhysicalMemory memory(same);
  CHECK(memory.take_host(64 * kGiB));
  CHECK(memory.free_bytes() == plain.free_bytes_initial);
  CHECK_FALSE(memory.take_pages(plain.page_limit + 1));
  CHECK_FALSE(memory.host_is_lost());
  CHECK(memory.take_pages(plain.page_limit));
}

// https://github.com/jundot/omlx/pull/3526: free 65 GB, cache 51, available 116, of 128.5.
TEST_CASE("page cache is not free, is available, and gives way to requests") {
  constexpr std::uint64_t kGb = 1'000'000'000;
  constexpr std::uint64_t kContextBytes = 552402944;
  PhysicalMemory memory(
      with_shared_host(with_total_bytes(h200_config(StartState::Plain), 128'500 * kGb / 1000),
                       {.is_one_pool = true,
                        .own_bytes = 12'500 * kGb / 1000 - kContextBytes,
                        .reserve_bytes = 7 * kGiB,
                        .cached_bytes = 51 * kGb}));
  CHECK(memory.available_bytes() == 116 * kGb);
  CHECK(memory.free_bytes() == 65 * kGb);
  CHECK(memory.total_bytes() == 128'500 * kGb / 1000);
  const std::uint64_t pages = 100 * kGb / kPageBytes;
  CHECK(memory.take_pages(pages));
  CHECK(memory.available_bytes() == 116 * kGb - pages * kPageBytes);
  CHECK(memory.free_bytes() == 0);
  // What was cached is read again by nobody.
  memory.return_pages(pages);
  CHECK(memory.free_bytes() == pages * kPageBytes);
  memory.restart_host();
  CHECK(memory.free_bytes() == 65 * kGb);
}

// https://github.com/vllm-project/vllm/issues/56824: 121.7 GiB, 76.96 of weights, 19.8 cached;
// MemAvailable said 22.5 while 119.2 were in use.
TEST_CASE("a host that says 22.5 GiB are available has 2.5 free") {
  constexpr std::uint64_t kContextBytes = 552402944;
  const auto gib = [](std::uint64_t hundredths) { return hundredths * kGiB / 100; };
  PhysicalMemory memory(
      with_shared_host(with_total_bytes(h200_config(StartState::Plain), gib(12170)),
                       {.is_one_pool = true,
                        .own_bytes = gib(12170 - 7696 - 2250) - kContextBytes,
                        .reserve_bytes = 7 * kGiB,
                        .cached_bytes = gib(1980)}));
  CHECK(memory.take_pages(gib(7696) / kPageBytes));
  CHECK(memory.available_bytes() / (kGiB / 100) == 2250);
  const std::uint64_t in_use_bytes = memory.total_bytes() - memory.free_bytes();
  CHECK(in_use_bytes > gib(11800));  // 119.2, within 1 %
  CHECK(in_use_bytes < gib(12040));
}

TEST_CASE("a host hangs where a card would refuse, and serves nothing until it is restarted") {
  PhysicalMemory memory(one_pool(0));
  const std::uint64_t there_bytes = memory.available_bytes() - 7 * kGiB;
  CHECK(there_bytes == memory.free_bytes() - 7 * kGiB);
  const std::uint64_t pages = there_bytes / kPageBytes - 1;  // one page less, as an H200 has it
  CHECK(memory.take_pages(pages));
  CHECK_FALSE(memory.host_is_lost());
  CHECK_FALSE(memory.take_pages(1));
  CHECK(memory.host_is_lost());
  memory.return_pages(pages);
  CHECK_FALSE(memory.take_pages(1));
  CHECK_FALSE(memory.take_host(1));
  memory.restart_host();
  CHECK_FALSE(memory.host_is_lost());
  CHECK(memory.take_pages(pages));
}

TEST_CASE("a full device leaves the host what is left of its last page") {
  PhysicalMemory memory(one_pool(0));
  CHECK(memory.take_host(1));
  CHECK(memory.take_pages((memory.available_bytes() - 7 * kGiB) / kPageBytes - 1));
  CHECK(memory.take_host(kPageBytes - 1));
  CHECK_FALSE(memory.take_host(1));
}

TEST_CASE("what the host takes is missing on the device") {
  PhysicalMemory memory(one_pool(0));
  const std::uint64_t free_bytes = memory.free_bytes();
  CHECK(memory.take_host(kGiB + 1));
  CHECK(memory.free_bytes() == free_bytes - kGiB - kPageBytes);
  CHECK(memory.take_host(kPageBytes - 1));  // whole pages of the sum
  CHECK(memory.free_bytes() == free_bytes - kGiB - kPageBytes);
  CHECK(memory.used_bytes() == 0);  // it is not the device's
  CHECK_FALSE(memory.take_pages((free_bytes - 7 * kGiB) / kPageBytes - 512));
  CHECK(memory.host_is_lost());
  memory.restart_host();
  memory.return_host(kGiB + kPageBytes);
  CHECK(memory.free_bytes() == free_bytes);
  CHECK_FALSE(memory.take_host(free_bytes - 6 * kGiB));
  CHECK(memory.host_is_lost());
}

}  // namespace
}  // namespace simcuda
