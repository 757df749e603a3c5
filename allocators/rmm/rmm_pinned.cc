// The backend rmm_pinned: RMM's pool_memory_resource on pinned host memory, rebuilt. Requests flow
// in, pinned memory flows out; pool.h has the rules.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/pinned/bounded_driver.h"
#include "allocators/rmm/release_backend.h"
#include "allocators/rmm/release_conf.h"
#include "allocators/rmm/releases.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

using host_caching::PinKind;

// The device, whose memory is the host's.
class PinningDriver final : public CudaDriver {
 public:
  explicit PinningDriver(std::uint64_t limit_bytes) : CudaDriver(nullptr), host_(limit_bytes) {}

  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                        caching::Stream /*stream*/) override {
    const host_caching::Address address = host_.pin(size_bytes, PinKind::HostAlloc, 1);
    if (address == 0) return std::nullopt;
    return address;
  }
  void free(std::uint64_t address) override { host_.unpin(address, PinKind::HostAlloc); }

 private:
  BoundedDriver host_;
};

const std::vector<std::string>& conf_keys() {
  static const std::vector<std::string> keys = {"initial_mb", "max_mb"};
  return keys;
}

// As of 26.10.
constexpr rmm::ReleaseRules kRules{.pool_reclaims = true, .records_joins = true};

rmm::ReleaseConf read_conf(std::string_view text) {
  ConfSplit split = split_conf(text, conf_keys());
  rmm::ReleaseConf conf;
  conf.initial_bytes = 0;
  conf.error = std::move(split.error);
  ConfReader reader(conf.error);
  constexpr ConfRange kMegabytes{.lowest = 0, .highest = kTiB / kMiB};
  for (const ConfPair& pair : split.pairs) {
    const std::uint64_t size_bytes = reader.number(pair, kMegabytes) * kMiB;
    (pair.key == "initial_mb" ? conf.initial_bytes : conf.bytes_max) = size_bytes;
  }
  if (conf.bytes_max && *conf.initial_bytes > *conf.bytes_max)
    reader.fail(split.pairs.back(), "initial size <= max_mb");
  return conf;
}

std::optional<ErrorText> check_conf(std::string_view conf) { return read_conf(conf).error; }

std::unique_ptr<Backend> make(const BackendOptions& options) {
  const rmm::ReleaseConf conf = read_conf(options.conf);
  require_good_conf(conf.error);
  return std::make_unique<rmm::ReleaseBackend>(
      std::make_unique<PinningDriver>(options.memory_limit_bytes), conf, kRules);
}

}  // namespace

BackendEntry rmm_pinned_entry() {
  return {.name = "rmm_pinned",
          .summary = "pinned host memory by RMM 26.10's pool, rebuilt",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .real_memory = true,
                           .side = MemorySide::Host,
                           .honours_memory_limit = true,
                           .alignment_bytes = 256},
          .conf_keys = conf_keys(),
          .check_conf = check_conf,
          .make = make};
}

}  // namespace allocmark
