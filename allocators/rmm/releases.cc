// What a release changed, and the entries; see releases.h.
#include "allocators/rmm/releases.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/rmm/release_backend.h"
#include "allocators/rmm/release_conf.h"
#include "allocators/simple/async.h"
#include "base/bytes.h"
#include "base/error.h"

namespace allocmark {
namespace {

using rmm::ReleaseConf;
using rmm::ReleaseRules;
using rmm::ResourceKind;

struct Release {
  std::string_view version;
  ReleaseRules rules = {};
  // What cuda_async keeps at a wait: the card's memory, or all.
  bool keeps_all = false;
};
constexpr std::array kReleases{
    Release{.version = "25.12", .rules = {}, .keeps_all = false},
    Release{.version = "26.04", .rules = {}, .keeps_all = false},
    Release{.version = "26.06", .rules = {}, .keeps_all = true},
    Release{.version = "26.10",
            .rules = {.pool_reclaims = true, .records_joins = true},
            .keeps_all = true},
};

std::uint64_t card_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes;
}

std::unique_ptr<Backend> make_async(const Release& release, const ReleaseConf& conf,
                                    std::uint64_t memory_limit_bytes) {
  AsyncConf async;
  async.own_pool = true;
  async.release_threshold_bytes =
      conf.threshold_bytes.value_or(release.keeps_all ? UINT64_MAX : card_bytes());
  auto made = std::make_unique<AsyncBackend>(async, memory_limit_bytes);
  const std::uint64_t initial_bytes = conf.initial_bytes.value_or(0);
  if (initial_bytes == 0) return made;
  const AllocateResult first = made->allocate(initial_bytes, nullptr);
  if (first.status != AllocateStatus::Ok) {
    throw EnvironmentError({.what = "the device has not the memory that cuda_async starts with",
                            .where = "rmm",
                            .wanted = format_bytes(initial_bytes),
                            .next = "give a smaller initial_mb"});
  }
  made->deallocate(first.pointer, initial_bytes, nullptr);
  return made;
}

std::unique_ptr<Backend> make(const Release& release, const ReleaseConf& conf,
                              const BackendOptions& options) {
  std::unique_ptr<Backend> made;
  if (conf.resource == ResourceKind::CudaAsync) {
    made = make_async(release, conf, options.memory_limit_bytes);
  } else {
    made = rmm::make_release_backend(std::make_unique<CudaDriver>(nullptr), conf, release.rules);
  }
  if (!conf.limit_bytes) return made;
  return std::make_unique<rmm::LimitedBackend>(std::move(made), *conf.limit_bytes);
}

BackendEntry entry_of(const Release& release) {
  const auto make_release = [&release](const ReleaseConf& conf, const BackendOptions& options) {
    return make(release, conf, options);
  };
  const ConfFormat<ReleaseConf> format = rmm::release_conf_format();
  return {.name = "rmm@" + std::string(release.version),
          .summary = "RMM " + std::string(release.version) + "'s resources, rebuilt",
          .capabilities = {.any_thread = true, .stream_ordered = true},
          .conf_keys = format.key_names(),
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make_release)};
}

}  // namespace

std::vector<BackendEntry> rmm_releases() {
  std::vector<BackendEntry> entries;
  for (const Release& release : kReleases) entries.push_back(entry_of(release));
  return entries;
}

}  // namespace allocmark
