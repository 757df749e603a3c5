// Finds and drives the plugin; see torch.h.
#include "allocators/plugins/torch.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "allocators/caching/caching.h"
#include "allocators/caching/config.h"
#include "allocators/conf/conf_value.h"
#include "allocators/plugins/plugin_library.h"
#include "allocators/plugins/torch_release.h"

namespace allocmark {
namespace {

static_assert(static_cast<int>(PoolAction::Begin) == kAllocmarkPluginPoolBegin);
static_assert(static_cast<int>(PoolAction::Trim) == kAllocmarkPluginPoolTrim);
static_assert(static_cast<int>(PoolAction::CaptureEnd) == kAllocmarkPluginPoolCaptureEnd);

constexpr const char* kConfVariable = "PYTORCH_CUDA_ALLOC_CONF";

// Empty where no such release is fetched.
std::string plugin_path(const std::string& version) {
  if (version.empty())
    return plugin_library_path("ALLOCMARK_TORCH_PLUGIN", "liballocmark_torch.so");
  for (const TorchRelease& release : fetched_torch_releases()) {
    if (release.version == version) return release.plugin_path;
  }
  return {};
}

std::string torch_unavailable(const std::string& version) {
  const std::string path = plugin_path(version);
  if (version.empty()) {
    if (std::filesystem::exists(path)) return {};
    return "no PyTorch plugin at " + path +
           "; configure with -DALLOCMARK_TORCH_DIR=<site-packages>/torch or set "
           "ALLOCMARK_TORCH_PLUGIN";
  }
  const TorchIdentity identity = torch_identity(path);
  const std::string again = "; run: scripts/build/fetch_torch.sh " + version;
  if (identity.version == version) {
    if (identity.interface_version == ALLOCMARK_TORCH_PLUGIN_VERSION) return {};
    return path + " was built for another version of allocmark" + again;
  }
  if (identity.version.empty()) return "no plugin for PyTorch " + version + " at " + path + again;
  return path + " was built against PyTorch " + identity.version + ", not " + version + again;
}

// The rules that a config string is read by: those of the release, else of the newest.
const caching::Rules& rules_for(const std::string& version) {
  const caching::Rules* const rules = caching::find_rules(version);
  return rules == nullptr ? caching::newest_rules() : *rules;
}

EnvironmentError plugin_error(std::string what, std::string path, std::string got) {
  return EnvironmentError(
      {.what = std::move(what),
       .where = std::move(path),
       .got = std::move(got),
       .next = "Build the plugin again: scripts/build/fetch_torch.sh VERSION for torch@VERSION, "
               "-DALLOCMARK_TORCH_DIR=<site-packages>/torch for torch."});
}

// Releases up to 2.10 need the runtime of CUDA 12, which a program built with CUDA 13 has not
// loaded. The simulated one is found by its name; on a GPU it was fetched with the release.
void load_older_runtime(const std::string& plugin) {
  if (dlsym(RTLD_DEFAULT, "simcu_present") != nullptr) return;
  const std::filesystem::path runtime =
      std::filesystem::path(plugin).parent_path() / "cuda" / "libcudart.so.12";
  std::error_code error;
  if (std::filesystem::exists(runtime, error)) dlopen(runtime.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

const AllocmarkTorchPlugin& load_plugin(const std::string& version, const std::string& conf) {
  return *static_cast<const AllocmarkTorchPlugin*>(torch_plugin_table(
      version, conf,
      {.symbol = "allocmark_torch_plugin", .version = ALLOCMARK_TORCH_PLUGIN_VERSION}));
}

BackendEntry entry_for(const std::string& version) {
  const caching::Rules& rules = rules_for(version);
  BackendEntry entry = caching_entry(rules, version.empty() ? "torch" : "torch@" + version);
  entry.summary = version.empty() ? "PyTorch's own CUDA caching allocator (c10), through a plugin"
                                  : "the CUDA caching allocator (c10) of PyTorch " + version;
  entry.release = torch_version_of(version);
  // The keys shown are the newest release's; which of them this one has is told here.
  entry.check_conf = [own = &rules_for(entry.release)](std::string_view conf) {
    return caching::parse_strict(conf, *own).error;
  };
  entry.make = [version](const BackendOptions& options) -> std::unique_ptr<Backend> {
    return std::make_unique<TorchBackend>(options, version);
  };
  entry.loads_library = true;
  entry.unavailable_reason = [version] { return torch_unavailable(version); };
  return entry;
}

}  // namespace

// c10 reads its config string while it is loaded, so the variable is set before.
const void* torch_plugin_table(const std::string& version, const std::string& conf,
                               const TorchTable& wanted) {
  static std::optional<std::pair<std::string, std::string>> loaded;  // its path and its conf
  const std::string path = plugin_path(version);
  if (loaded && loaded->first != path)
    throw plugin_error("one process can hold one release of PyTorch", path,
                       "one is loaded already: " + loaded->first);
  if (loaded && loaded->second != conf)
    throw plugin_error("PyTorch's allocator reads its config string once per process", path,
                       "a second one: " + conf);
  if (!loaded) {
    unsetenv("PYTORCH_ALLOC_CONF");
    conf.empty() ? unsetenv(kConfVariable) : setenv(kConfVariable, conf.c_str(), 1);
    load_older_runtime(path);
  }
  const PluginTable plugin = load_plugin_table(path, wanted.symbol, wanted.version);
  if (plugin.table == nullptr)
    throw plugin_error("PyTorch's allocator cannot be used", path, plugin.problem);
  loaded = {path, conf};
  return plugin.table;
}

TorchBackend::TorchBackend(const BackendOptions& options, const std::string& version)
    : plugin_(nullptr), plugin_path_(plugin_path(version)) {
  require_good_conf(
      caching::parse_strict(options.conf, rules_for(torch_version_of(version))).error);
  if (const std::string reason = torch_unavailable(version); !reason.empty()) {
    throw EnvironmentError({.what = "the torch backend is not available", .next = reason});
  }
  plugin_ = &load_plugin(version, options.conf);
  require_ok(plugin_->open(options.memory_limit_bytes), "open");
}

TorchBackend::~TorchBackend() { plugin_->close(); }

void TorchBackend::require_ok(int status, const char* call) const {
  if (status != kAllocmarkPluginOk) [[unlikely]] {
    throw plugin_error(std::string("PyTorch's allocator failed in ") + call, plugin_path_,
                       plugin_->last_error());
  }
}

AllocateResult TorchBackend::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  // PyTorch refuses tensors of 1 EiB and more before its allocator, whose rounding would wrap.
  constexpr std::uint64_t kTensorBytesEnd = std::uint64_t{1} << 60;
  if (size_bytes >= kTensorBytesEnd) [[unlikely]] {
    return kOutOfMemory;
  }
  void* pointer = nullptr;
  const int status = plugin_->allocate(size_bytes, stream, &pointer);
  if (status == kAllocmarkPluginOutOfMemory) [[unlikely]] {
    return kOutOfMemory;
  }
  require_ok(status, "allocate");
  return {.pointer = pointer, .status = AllocateStatus::Ok};
}

void TorchBackend::deallocate(void* pointer, std::uint64_t /*size_bytes*/,
                              cudaStream_t /*stream*/) {
  require_ok(plugin_->deallocate(pointer), "deallocate");
}

void TorchBackend::record_stream(void* pointer, cudaStream_t stream) {
  require_ok(plugin_->record_stream(pointer, stream), "record_stream");
}

void TorchBackend::call_pool(const PoolCall& call) {
  require_ok(
      plugin_->pool(static_cast<int>(call.action), call.pool, call.stream, call.flag ? 1 : 0),
      "a call of a private pool");
}

void TorchBackend::trim() { require_ok(plugin_->trim(), "trim"); }

std::vector<MemorySegment> TorchBackend::segments() const {
  std::vector<MemorySegment> segments;
  AllocmarkPluginSegment segment{};
  for (std::size_t index = 0; plugin_->segment(index, &segment) != 0; ++index) {
    segments.push_back({.address = segment.address,
                        .size_bytes = segment.size_bytes,
                        .is_large = segment.is_large != 0,
                        .is_expandable = segment.is_expandable != 0,
                        .pool = segment.pool,
                        .allocated_bytes = segment.allocated_bytes});
  }
  return segments;
}

std::string TorchBackend::change_settings(const std::string& conf) {
  return plugin_->configure(conf.c_str()) == kAllocmarkPluginOk ? "" : plugin_->last_error();
}

void TorchBackend::change_limit(std::uint64_t memory_limit_bytes) {
  require_ok(plugin_->limit(memory_limit_bytes), "set_per_process_memory_fraction");
}

std::vector<NamedCounter> TorchBackend::counters() const {
  std::vector<NamedCounter> counters;
  const char* name = nullptr;
  std::int64_t value = 0;
  for (std::size_t index = 0; plugin_->counter(index, &name, &value) != 0; ++index) {
    counters.push_back({.name = name, .value = value});
  }
  return counters;
}

MemoryStats TorchBackend::stats(cudaStream_t stream) const {
  MemoryStats stats = totals();
  std::uint64_t free_largest_bytes = 0;
  std::uint64_t free_other_streams_bytes = 0;
  require_ok(plugin_->cached(stream, &free_largest_bytes, &free_other_streams_bytes), "snapshot");
  stats.free_largest_bytes = free_largest_bytes;
  stats.free_other_streams_bytes = free_other_streams_bytes;
  return stats;
}

MemoryStats TorchBackend::totals() const {
  AllocmarkPluginTotals totals{};
  require_ok(plugin_->totals(&totals), "memory_stats");
  const auto of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  MemoryStats stats;
  stats.allocated_bytes = of(totals.allocated_bytes);
  stats.active_bytes = of(totals.active_bytes);
  stats.reserved_bytes = of(totals.reserved_bytes);
  stats.device_allocate_count = of(totals.device_allocate_count);
  stats.device_free_count = of(totals.device_free_count);
  stats.retry_count = of(totals.retry_count);
  stats.synchronize_all_count = of(totals.synchronize_all_count);
  return stats;
}

BackendEntry torch_entry() { return entry_for({}); }

std::vector<BackendEntry> torch_releases() {
  std::vector<BackendEntry> entries;
  for (const TorchRelease& release : fetched_torch_releases())
    entries.push_back(entry_for(release.version));
  return entries;
}

std::string torch_version_of(const std::string& version) {
  return torch_identity(plugin_path(version)).version;
}

}  // namespace allocmark
