// Config strings of the backends rmm@RELEASE: text flows in, which of RMM's resources stand on each
// other flows out. Touches no device.
#pragma once

#include <cstdint>
#include <optional>

#include "allocators/conf/conf_value.h"

namespace allocmark::rmm {

enum class ResourceKind : std::uint8_t { Pool, Arena, Binning, FixedSize, Cuda, CudaAsync };

struct ReleaseConf {
  ResourceKind resource = ResourceKind::Pool;
  bool on_pool = false;  // fixed_size and binning take their memory from a pool; else from cuda
  // Of the pool, also below others, of the arena, or of the driver's pool; nothing: RMM's default.
  std::optional<std::uint64_t> initial_bytes = std::nullopt;
  std::optional<std::uint64_t> bytes_max = std::nullopt;  // of the pool
  std::optional<std::uint64_t> threshold_bytes = std::nullopt;
  std::optional<std::uint64_t> limit_bytes = std::nullopt;  // of a limiting_resource_adaptor on top
  std::uint64_t block_bytes = std::uint64_t{1} << 20, block_count = 128;
  std::uint32_t bin_exponent_min = 18, bin_exponent_max = 22;
};

[[nodiscard]] ConfFormat<ReleaseConf> release_conf_format();

}  // namespace allocmark::rmm
