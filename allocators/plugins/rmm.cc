// Finds and drives the plugin; see rmm.h.
#include "allocators/plugins/rmm.h"

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "allocators/backend/live_set.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/plugins/plugin_library.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

std::string plugin_path() {
  return plugin_library_path("ALLOCMARK_RMM_PLUGIN", "liballocmark_rmm.so");
}

const PluginTable& plugin() {
  static const PluginTable loaded =
      load_plugin_table(plugin_path(), "allocmark_rmm_plugin", ALLOCMARK_RMM_PLUGIN_VERSION);
  return loaded;
}

const AllocmarkRmmPlugin& functions() {
  return *static_cast<const AllocmarkRmmPlugin*>(plugin().table);
}

// NVIDIA's wheels contain the CUDA runtime, and what librmm then calls never reaches a simulated
// one. That one counts its calls.
bool librmm_has_own_runtime(const AllocmarkRmmPlugin& loaded) {
  using CallCount = std::uint64_t (*)(const char* api);
  const auto call_count = reinterpret_cast<CallCount>(dlsym(RTLD_DEFAULT, "simcu_call_count"));
  if (call_count == nullptr) return false;
  const std::uint64_t before = call_count("cudaGetDeviceCount");
  loaded.call_runtime();
  return call_count("cudaGetDeviceCount") == before;
}

std::string rmm_unavailable() {
  const std::string path = plugin_path();
  if (!std::filesystem::exists(path)) {
    return "no RMM plugin at " + path +
           "; configure with -DALLOCMARK_RMM_DIR=<site-packages>/librmm or set "
           "ALLOCMARK_RMM_PLUGIN";
  }
  if (!plugin().problem.empty()) return plugin().problem;
  static const bool has_own_runtime = librmm_has_own_runtime(functions());
  return has_own_runtime ? "librmm contains a CUDA runtime of its own (NVIDIA's wheels do), which "
                           "cannot see the simulated device; it needs a GPU, or an RMM built with "
                           "the shared runtime"
                         : "";
}

class RmmBackend final : public Backend {
 public:
  // On the current device. Throws EnvironmentError where the plugin cannot be used.
  explicit RmmBackend(const AllocmarkRmmOptions& options) : plugin_(nullptr) {
    if (const std::string reason = rmm_unavailable(); !reason.empty()) {
      throw EnvironmentError({.what = "the rmm backend is not available", .next = reason});
    }
    plugin_ = &functions();
    const int status = plugin_->open(&options, &instance_);
    if (status == kAllocmarkRmmOutOfMemory) {
      throw EnvironmentError({.what = "the device has not the memory that the resource starts with",
                              .where = "rmm backend",
                              .next = "give a smaller initial_mb"});
    }
    require_ok(status, "its constructor");
  }

  // Waits for the device and gives everything back.
  ~RmmBackend() override {
    (void)cudaDeviceSynchronize();
    live_.for_each([this](const LiveBlock& block) {
      (void)plugin_->deallocate(instance_, block.pointer, block.size_bytes, nullptr);
    });
    (void)cudaDeviceSynchronize();
    plugin_->close(instance_);
  }

  // The caller owns the block, which is usable on `stream` at once. Blocks the host where the
  // resource asks cudaMalloc for more. All resources can be called from any thread.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kTiB * 256) return kOutOfMemory;  // RMM's rounding would wrap
    void* pointer = nullptr;
    const int status = plugin_->allocate(instance_, size_bytes, stream, &pointer);
    if (status == kAllocmarkRmmOutOfMemory) [[unlikely]]
      return kOutOfMemory;
    require_ok(status, "allocate");
    const std::scoped_lock lock(mutex_);
    live_.reserve_one();
    live_.insert({.pointer = pointer, .size_bytes = size_bytes});
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  // RMM knows only the stream that is named here, so that stream is first made to wait for those
  // that record_stream named; the host does not wait.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    std::vector<cudaStream_t> others;
    {
      const std::scoped_lock lock(mutex_);
      others = uses_.take(pointer);
    }
    for (const cudaStream_t other : others) wait_for(other, stream);  // may throw: it is live then
    {
      // Forgotten before it is freed: then another thread may get the same address.
      const std::scoped_lock lock(mutex_);
      (void)live_.erase(pointer);
    }
    require_ok(plugin_->deallocate(instance_, pointer, size_bytes, stream), "deallocate");
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    uses_.add(pointer, stream);
  }

  // Only cuda_async gives memory back before it ends: the driver's pool is trimmed.
  void trim() override { require_ok(plugin_->trim(instance_), "trim"); }

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    AllocmarkRmmUsage usage{};
    require_ok(plugin_->usage(instance_, &usage), "usage");
    MemoryStats stats;
    {
      const std::scoped_lock lock(mutex_);
      stats.allocated_bytes = live_.size_bytes_total();
    }
    stats.reserved_bytes = usage.reserved_bytes;
    if (usage.device_allocate_count > 0) {
      stats.device_allocate_count = usage.device_allocate_count;
      stats.device_free_count = usage.device_free_count;
    }
    return stats;
  }

 private:
  void require_ok(int status, const char* call) const {
    if (status == kAllocmarkRmmOk) [[likely]]
      return;
    throw EnvironmentError({.what = std::string("RMM failed in ") + call,
                            .where = plugin_path(),
                            .got = plugin_->last_error()});
  }

  void wait_for(cudaStream_t other, cudaStream_t stream) const {
    cudaEvent_t event = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    const cudaError_t recorded = cudaEventRecord(event, other);
    const cudaError_t waited =
        recorded == cudaSuccess ? cudaStreamWaitEvent(stream, event, 0) : recorded;
    (void)cudaEventDestroy(event);
    ALLOCMARK_CUDA_CHECK(waited);
  }

  const AllocmarkRmmPlugin* plugin_;
  void* instance_ = nullptr;
  mutable std::mutex mutex_;  // guards what follows, never held while RMM runs
  LiveSet live_;
  StreamUses uses_;
};

std::unique_ptr<Backend> make_rmm(const AllocmarkRmmOptions& conf,
                                  const BackendOptions& /*options*/) {
  return std::make_unique<RmmBackend>(conf);
}

// Which resources know a key.
bool fits(std::string_view key, int resource) {
  const bool pooled = resource == kAllocmarkRmmPool || resource == kAllocmarkRmmBinning;
  if (key == "initial_mb") {
    return pooled || resource == kAllocmarkRmmArena || resource == kAllocmarkRmmCudaAsync;
  }
  if (key == "max_mb") return pooled;
  if (key == "release_threshold_mb") return resource == kAllocmarkRmmCudaAsync;
  if (key == "block_kb" || key == "block_count") return resource == kAllocmarkRmmFixedSize;
  return resource == kAllocmarkRmmBinning;
}

void check_keys(ConfReader& reader, const std::vector<ConfPair>& pairs,
                AllocmarkRmmOptions& options) {
  for (const ConfPair& pair : pairs) {
    if (pair.key != "resource" && !fits(pair.key, options.resource)) {
      reader.fail(pair, "a key of the chosen resource");
    }
  }
  if (options.bin_exponent_min > options.bin_exponent_max) {
    reader.fail(pairs.back(), "min_bin <= max_bin");
  }
}

ConfFormat<AllocmarkRmmOptions> rmm_format() {
  using Conf = AllocmarkRmmOptions;
  constexpr ConfRange kMegabytes{.lowest = 0, .highest = kTiB / kMiB};
  constexpr ConfRange kExponents{.lowest = 8, .highest = 30};
  return {
      .keys = {word_key("resource", &Conf::resource,
                        {"pool", "arena", "binning", "fixed_size", "cuda_async"}),
               number_key("initial_mb", &Conf::initial_bytes, kMegabytes, kMiB),
               number_key("max_mb", &Conf::bytes_max, kMegabytes, kMiB),
               number_key("release_threshold_mb", &Conf::release_threshold_bytes, kMegabytes, kMiB),
               number_key("block_kb", &Conf::block_bytes, {.lowest = 1, .highest = kGiB / kKiB},
                          kKiB),
               number_key("block_count", &Conf::block_count, {.lowest = 1, .highest = 1'000'000}),
               number_key("min_bin", &Conf::bin_exponent_min, kExponents),
               number_key("max_bin", &Conf::bin_exponent_max, kExponents)},
      .defaults = {.resource = kAllocmarkRmmPool,
                   .initial_bytes = UINT64_MAX,
                   .bytes_max = UINT64_MAX,
                   .release_threshold_bytes = UINT64_MAX,
                   .block_bytes = kMiB,
                   .block_count = 128,
                   .bin_exponent_min = 18,
                   .bin_exponent_max = 22},
      .check = check_keys};
}

}  // namespace

ConfResult<AllocmarkRmmOptions> read_rmm_conf(std::string_view text) { return rmm_format()(text); }

BackendEntry rmm_entry() {
  return {
      .name = "rmm",
      .summary = "RAPIDS' RMM: pool, arena, binning, fixed_size or cuda_async, through a plugin",
      .capabilities = {.any_thread = true, .stream_ordered = true},
      .conf_keys = rmm_format().key_names(),
      .check_conf = conf_checker(read_rmm_conf),
      .make = conf_maker(read_rmm_conf, make_rmm),
      .loads_library = true,
      .unavailable_reason = rmm_unavailable};
}

}  // namespace allocmark
