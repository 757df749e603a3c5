// The backend host_pool: the driver's stream-ordered pool of pinned host memory, of CUDA 13.
// Requests flow in, pinned memory flows out; async.h does the work.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/simple/async.h"
#include "base/bytes.h"
#include "base/process_memory.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kChunkBytes = 32 * kMiB;

std::unique_ptr<Backend> make_host_pool(AsyncConf& conf, const BackendOptions& options) {
  // The pool itself is bounded: what it caches is pinned, too.
  const std::uint64_t limit_bytes =
      options.memory_limit_bytes != 0 ? options.memory_limit_bytes : pinnable_memory_bytes();
  conf.max_size_bytes = std::max(limit_bytes / kChunkBytes * kChunkBytes, kChunkBytes);
  return std::make_unique<AsyncBackend>(conf, limit_bytes);
}

std::string host_pool_unavailable() {
  return CUDART_VERSION >= 13000 ? ""
                                 : "this build's CUDA toolkit has no pools of the host; 13 has";
}

}  // namespace

BackendEntry host_pool_entry() {
  const ConfFormat<AsyncConf> format{.keys = {release_threshold_key()},
                                     .defaults = {.own_pool = true, .on_host = true}};
  return {.name = "host_pool",
          .summary = "pinned host memory by CUDA 13's stream-ordered pools",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .side = MemorySide::Host,
                           .honours_memory_limit = true},
          .conf_keys = format.key_names(),
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make_host_pool),
          .unavailable_reason = host_pool_unavailable};
}

}  // namespace allocmark
