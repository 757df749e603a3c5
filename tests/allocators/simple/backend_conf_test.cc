// Goal: config strings of the backends with keys of their own are read as written, and wrong ones
// are refused with the key, the column and what is allowed - all without a device.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "allocators/simple/async.h"
#include "allocators/simple/cub.h"
#include "allocators/simple/thrust_pool.h"
#include "base/bytes.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

struct BadConf {
  std::string_view backend;
  std::string_view conf;
  std::string_view message_part;
};

std::string message_about(const BadConf& bad) {
  const std::optional<ErrorText> error = find_backend(bad.backend).check_conf(bad.conf);
  return error ? to_string(*error) : "accepted";
}

}  // namespace

TEST_CASE("an empty config string means the allocator's own defaults") {
  const AsyncConf async = read_async_conf("").conf;
  CHECK(!async.own_pool);
  CHECK(!async.release_threshold_bytes);
  CHECK(!async.reuse_allow_opportunistic);
  const CubConf cub = read_cub_conf("").conf;
  CHECK(cub.bin_growth == 8);
  CHECK(cub.min_bin == 3);
  CHECK(cub.max_bin == 7);
  CHECK(!cub.cached_bytes_max);
  const ThrustPoolConf thrust = read_thrust_pool_conf("").conf;
  CHECK(thrust.min_blocks_per_chunk == 16);
  CHECK(thrust.largest_block_size == 1048576);
  CHECK(thrust.cache_oversized);
  CHECK(!thrust.sync_always);
}

TEST_CASE("async reads its keys") {
  const ConfResult<AsyncConf> read = read_async_conf(
      "pool:own,release_threshold_mb:64,reuse_follow_event_dependencies:False,reuse_allow_"
      "opportunistic:True,"
      "reuse_allow_internal_dependencies:False,max_size_mb:1024");
  REQUIRE(!read.error);
  CHECK(read.conf.own_pool);
  CHECK(read.conf.release_threshold_bytes == 64 * kMiB);
  CHECK(read.conf.reuse_follow_event_dependencies == false);
  CHECK(read.conf.reuse_allow_opportunistic == true);
  CHECK(read.conf.reuse_allow_internal_dependencies == false);
  CHECK(read.conf.max_size_bytes == kGiB);
  CHECK(read_async_conf("release_threshold_mb:max").conf.release_threshold_bytes == UINT64_MAX);
}

TEST_CASE("cub reads its keys") {
  const ConfResult<CubConf> read =
      read_cub_conf("bin_growth:2,min_bin:9,max_bin:30,max_cached_mb:max");
  REQUIRE(!read.error);
  CHECK(read.conf.bin_growth == 2);
  CHECK(read.conf.min_bin == 9);
  CHECK(read.conf.max_bin == 30);
  CHECK(read.conf.cached_bytes_max == UINT64_MAX);
  CHECK(read_cub_conf("max_cached_mb:6").conf.cached_bytes_max == 6 * kMiB);
}

TEST_CASE("thrust_pool reads its keys") {
  const ConfResult<ThrustPoolConf> read = read_thrust_pool_conf(
      "alignment:256,smallest_block_size:512,largest_block_size:2MiB,cache_oversized:False,"
      "min_blocks_per_chunk:4,sync_at_free:always");
  REQUIRE(!read.error);
  CHECK(read.conf.alignment == 256);
  CHECK(read.conf.smallest_block_size == 512);
  CHECK(read.conf.largest_block_size == 2 * kMiB);
  CHECK(!read.conf.cache_oversized);
  CHECK(read.conf.min_blocks_per_chunk == 4);
  CHECK(read.conf.sync_always);
}

TEST_CASE("a wrong config string is refused with the place and what is allowed") {
  constexpr BadConf kBad[] = {
      {"null", "release_threshold_mb:1", "no config key 'release_threshold_mb'"},
      {"native", "max_split_size_mb:32", "no config key 'max_split_size_mb'"},
      {"async", "release_treshold_mb:1", "release_threshold_mb"},
      {"async", "release_threshold_mb:-1", "column 22"},
      {"async", "release_threshold_mb:lots", "max"},
      {"async", "reuse_allow_opportunistic:yes", "False or True"},
      {"async", "pool:mine", "default or own"},
      {"async", "max_size_mb:64", "pool:own"},
      {"async", "release_threshold_mb:18446744073709551615", "MiB"},
      {"async", "pool:own;max_size_mb:64", ";"},
      {"cub", "bin_growth:1", "from 2 to 1024"},
      {"cub", "min_bin:8", "min_bin <= max_bin"},
      {"cub", "bin_growth:8,min_bin:11,max_bin:12", "2 GiB"},
      {"cub", "bin_growth:1024,max_bin:7", "256 TiB"},
      {"cub", "max_cached_mb:1.5", "whole number"},
      {"thrust_pool", "smallest_block_size:100", "power of two"},
      {"thrust_pool", "largest_block_size:8", "smallest_block_size <= largest_block_size"},
      {"thrust_pool", "alignment:64", "alignment <= smallest_block_size"},
      {"thrust_pool", "alignment:512", "from 16 to 256"},
      {"thrust_pool", "max_bytes_per_chunk:1MiB", "min_blocks_per_chunk * largest_block_size"},
      {"thrust_pool", "max_blocks_per_chunk:8", "min_blocks_per_chunk <= max_blocks_per_chunk"},
      {"thrust_pool", "min_bytes_per_chunk:2GiB", "min_bytes_per_chunk <= max_bytes_per_chunk"},
      {"thrust_pool", "max_blocks_per_chunk:16,min_bytes_per_chunk:4096",
       "max_blocks_per_chunk * smallest_block_size"},
      {"thrust_pool", "sync_at_free:never", "recorded or always"},
      {"rmm", "resource:slab", "fixed_size"},
      {"rmm", "resource:arena,max_mb:1", "max_mb"},
      {"rmm", "resource:binning,min_bin:20,max_bin:18", "min_bin <= max_bin"},
  };
  for (const BadConf& bad : kBad) {
    INFO(bad.backend << " " << bad.conf << ": " << message_about(bad));
    CHECK(message_about(bad).find(bad.message_part) != std::string::npos);
    CHECK(message_about(bad) != "accepted");
  }
}

TEST_CASE(
    "every backend that needs no config string takes the empty one, and all refuse nonsense") {
  for (const BackendEntry& entry : backend_registry()) {
    INFO(entry.name);
    CHECK(entry.check_conf("").has_value() == !entry.argument_keys.empty());
    CHECK(entry.check_conf("no_such_key_at_all:1"));
    CHECK_THROWS_AS(entry.make({.conf = "no_such_key_at_all:1", .memory_limit_bytes = 0}),
                    UsageError);
  }
}

}  // namespace allocmark
