// The cub backend: CUB's CachingDeviceAllocator, which keeps freed blocks in bins whose sizes are
// powers of bin_growth. Requests flow in; device memory comes from cudaMalloc. Requests are rounded
// up to their bin (with bin_growth 8, up to eightfold); above bin_growth^max_bin they go straight
// to cudaMalloc and cudaFree.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"

namespace allocmark {

// What a config string of this backend says; the defaults are those of CUB's default constructor.
struct CubConf {
  std::uint32_t bin_growth = 8;
  std::uint32_t min_bin = 3;
  std::uint32_t max_bin = 7;
  // max_cached_mb, UINT64_MAX for "max". CUB's own default is three of the largest bins less one
  // byte.
  std::optional<std::uint64_t> cached_bytes_max;
};

[[nodiscard]] ConfResult<CubConf> read_cub_conf(std::string_view text);

[[nodiscard]] BackendEntry cub_entry();

}  // namespace allocmark
