// The backend host_pool: the driver's stream-ordered pool of pinned host memory, of CUDA 13.
// Requests flow in, pinned memory flows out; async.h does the work.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/simple/async.h"
#include "base/bytes.h"
#include "base/process_memory.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kChunkBytes = 32 * kMiB;

const std::vector<std::string>& conf_keys() {
  static const std::vector<std::string> keys = {"release_threshold_mb"};
  return keys;
}

AsyncConfResult read_conf(std::string_view text) {
  ConfSplit split = split_conf(text, conf_keys());
  AsyncConfResult result{.conf = {}, .error = std::move(split.error)};
  result.conf.own_pool = result.conf.on_host = true;
  ConfReader reader(result.error);
  for (const ConfPair& pair : split.pairs)
    result.conf.release_threshold_bytes = read_release_threshold(reader, pair);
  return result;
}

std::optional<ErrorText> check_conf(std::string_view conf) { return read_conf(conf).error; }

std::unique_ptr<Backend> make(const BackendOptions& options) {
  AsyncConfResult read = read_conf(options.conf);
  require_good_conf(read.error);
  // The pool itself is bounded: what it caches is pinned, too.
  const std::uint64_t limit_bytes =
      options.memory_limit_bytes != 0 ? options.memory_limit_bytes : pinnable_memory_bytes();
  read.conf.max_size_bytes = std::max(limit_bytes / kChunkBytes * kChunkBytes, kChunkBytes);
  return std::make_unique<AsyncBackend>(read.conf, limit_bytes);
}

std::string unavailable_reason() {
  return CUDART_VERSION >= 13000 ? ""
                                 : "this build's CUDA toolkit has no pools of the host; 13 has";
}

}  // namespace

BackendEntry host_pool_entry() {
  return {.name = "host_pool",
          .summary = "pinned host memory by CUDA 13's stream-ordered pools",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .real_memory = true,
                           .side = MemorySide::Host,
                           .honours_memory_limit = true,
                           .alignment_bytes = 256},
          .conf_keys = conf_keys(),
          .check_conf = check_conf,
          .make = make,
          .unavailable_reason = unavailable_reason};
}

}  // namespace allocmark
