// The backend rmm_pinned: RMM's pool_memory_resource on pinned host memory, rebuilt. Requests flow
// in, pinned memory flows out; pool.h has the rules.
#include <cstdint>
#include <memory>
#include <optional>
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

// As of 26.10.
constexpr rmm::ReleaseRules kRules{.pool_reclaims = true, .records_joins = true};

void check_sizes(ConfReader& reader, const std::vector<ConfPair>& pairs, rmm::ReleaseConf& conf) {
  if (conf.bytes_max && *conf.initial_bytes > *conf.bytes_max)
    reader.fail(pairs.back(), "initial size <= max_mb");
}

std::unique_ptr<Backend> make_rmm_pinned(const rmm::ReleaseConf& conf,
                                         const BackendOptions& options) {
  return rmm::make_release_backend(std::make_unique<PinningDriver>(options.memory_limit_bytes),
                                   conf, kRules);
}

}  // namespace

BackendEntry rmm_pinned_entry() {
  constexpr ConfRange kMegabytes{.highest = kTiB / kMiB};
  const ConfFormat<rmm::ReleaseConf> format{
      .keys = {number_key("initial_mb", &rmm::ReleaseConf::initial_bytes, kMegabytes, kMiB),
               number_key("max_mb", &rmm::ReleaseConf::bytes_max, kMegabytes, kMiB)},
      .defaults = {.initial_bytes = 0},
      .check = check_sizes};
  return {.name = "rmm_pinned",
          .summary = "pinned host memory by RMM 26.10's pool, rebuilt",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .side = MemorySide::Host,
                           .honours_memory_limit = true},
          .conf_keys = format.key_names(),
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make_rmm_pinned)};
}

}  // namespace allocmark
