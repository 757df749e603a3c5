// Goal: rmm's config string chooses the resource and its sizes, and each resource serves requests
// where the plugin is there; the contract suite holds them against the rest. Without a plugin only
// the config string is read.
#include "allocators/plugins/rmm.h"
#include "allocators/registry.h"

#include <cuda_runtime_api.h>

#include <memory>

#include "base/bytes.h"
#include "tests/catch.h"
#include "tests/support/skip_without.h"

namespace allocmark {

TEST_CASE("rmm reads its keys, and each only with the resource that knows it") {
  const ConfResult<AllocmarkRmmOptions> plain = read_rmm_conf("");
  CHECK(!plain.error);
  CHECK(plain.conf.resource == kAllocmarkRmmPool);
  CHECK(plain.conf.initial_bytes == UINT64_MAX);
  const ConfResult<AllocmarkRmmOptions> pool = read_rmm_conf("initial_mb:64,max_mb:1024");
  CHECK(!pool.error);
  CHECK(pool.conf.initial_bytes == 64 * kMiB);
  CHECK(pool.conf.bytes_max == kGiB);
  const ConfResult<AllocmarkRmmOptions> fixed =
      read_rmm_conf("block_kb:2048,resource:fixed_size,block_count:3");
  CHECK(!fixed.error);
  CHECK(fixed.conf.block_bytes == 2 * kMiB);
  CHECK(fixed.conf.block_count == 3);
  for (const char* bad : {"block_kb:1", "resource:arena,min_bin:9", "resource:other",
                          "resource:pool,release_threshold_mb:1", "min_bin:12",
                          "resource:binning,min_bin:20,max_bin:12"}) {
    INFO(bad);
    CHECK(read_rmm_conf(bad).error);
  }
}

TEST_CASE("every resource of RMM takes what it was told to, and gives it back at its end",
          "[.rmm]") {
  const BackendEntry& entry = find_backend("rmm");
  skip_without(entry);
  struct Row {
    const char* conf;
    std::uint64_t reserved_bytes;  // after one block
  };
  for (const Row& row :
       {Row{"initial_mb:64", 64 * kMiB}, Row{"resource:arena,initial_mb:64", 64 * kMiB},
        Row{"resource:fixed_size,block_kb:4096,block_count:4", 16 * kMiB}}) {
    INFO(row.conf);
    const auto backend = entry.make({.conf = row.conf, .memory_limit_bytes = 0});
    const AllocateResult block = backend->allocate(3 * kMiB, nullptr);
    REQUIRE(block.status == AllocateStatus::Ok);
    CHECK(cudaMemset(block.pointer, 1, 3 * kMiB) == cudaSuccess);
    CHECK(backend->stats(nullptr).reserved_bytes == row.reserved_bytes);
    CHECK(backend->stats(nullptr).allocated_bytes == 3 * kMiB);
    backend->deallocate(block.pointer, 3 * kMiB, nullptr);
  }
  const auto fixed = entry.make(
      {.conf = "resource:fixed_size,block_kb:1024,block_count:2", .memory_limit_bytes = 0});
  CHECK(fixed->allocate(2 * kMiB, nullptr).status == AllocateStatus::OutOfMemory);
  const auto limited = entry.make({.conf = "initial_mb:8,max_mb:16", .memory_limit_bytes = 0});
  CHECK(limited->allocate(32 * kMiB, nullptr).status == AllocateStatus::OutOfMemory);
}

}  // namespace allocmark
