// The rmm backend: the device memory resources of RAPIDS' RMM, through a plugin that is built where
// an RMM installation is given. Which resource and its sizes are in the config string; requests
// flow to it with their stream, as RMM's users pass them.
#pragma once

#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/plugins/rmm_plugin/plugin.h"

namespace allocmark {

// Config keys: resource (pool, arena, binning, fixed_size, cuda_async), initial_mb, max_mb,
// release_threshold_mb, block_kb, block_count, min_bin, max_bin (powers of two). Defaults are RMM's
// own; a pool, for which C++ has none, starts with half of the free memory, as in RMM's Python
// interface.
[[nodiscard]] ConfResult<AllocmarkRmmOptions> read_rmm_conf(std::string_view text);

[[nodiscard]] BackendEntry rmm_entry();

}  // namespace allocmark
