// Finds and drives the plugin; see torch.h.
#include "allocators/plugins/torch.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "allocators/caching/caching.h"
#include "allocators/conf/conf_value.h"
#include "allocators/plugins/plugin_library.h"

namespace allocmark {
namespace {

constexpr const char* kConfVariable = "PYTORCH_CUDA_ALLOC_CONF";

std::string plugin_path() {
  return plugin_library_path("ALLOCMARK_TORCH_PLUGIN", "liballocmark_torch.so");
}

std::string unavailable_reason() {
  const std::string path = plugin_path();
  if (std::filesystem::exists(path)) {
    return {};
  }
  return "no PyTorch plugin at " + path +
         "; configure with -DALLOCMARK_TORCH_DIR=<site-packages>/torch or set "
         "ALLOCMARK_TORCH_PLUGIN";
}

EnvironmentError plugin_error(std::string what, std::string got) {
  return EnvironmentError(
      {.what = std::move(what),
       .where = plugin_path(),
       .wanted = {},
       .got = std::move(got),
       .next = "Build the plugin again with -DALLOCMARK_TORCH_DIR=<site-packages>/torch."});
}

// Loads the plugin once. c10 reads its config string while it is loaded, so the variable is set
// before.
const AllocmarkTorchPlugin& load_plugin(const std::string& conf) {
  static std::string loaded_conf;
  static const AllocmarkTorchPlugin* plugin = nullptr;
  if (plugin != nullptr) {
    if (loaded_conf != conf) {
      throw plugin_error("PyTorch's allocator reads its config string once per process",
                         "a second one: " + conf);
    }
    return *plugin;
  }
  unsetenv("PYTORCH_ALLOC_CONF");
  if (conf.empty()) {
    unsetenv(kConfVariable);
  } else {
    setenv(kConfVariable, conf.c_str(), 1);
  }
  const PluginTable loaded =
      load_plugin_table(plugin_path(), "allocmark_torch_plugin", ALLOCMARK_TORCH_PLUGIN_VERSION);
  if (loaded.table == nullptr) {
    throw plugin_error("PyTorch's allocator cannot be used", loaded.problem);
  }
  plugin = static_cast<const AllocmarkTorchPlugin*>(loaded.table);
  loaded_conf = conf;
  return *plugin;
}

std::unique_ptr<Backend> make(const BackendOptions& options) {
  return std::make_unique<TorchBackend>(options);
}

}  // namespace

TorchBackend::TorchBackend(const BackendOptions& options) : plugin_(nullptr) {
  require_good_conf(caching_entry().check_conf(options.conf));
  if (const std::string reason = unavailable_reason(); !reason.empty()) {
    throw EnvironmentError({.what = "the torch backend is not available",
                            .where = {},
                            .wanted = {},
                            .got = {},
                            .next = reason});
  }
  plugin_ = &load_plugin(options.conf);
  require_ok(plugin_->open(options.memory_limit_bytes), "open");
}

TorchBackend::~TorchBackend() { plugin_->close(); }

void TorchBackend::require_ok(int status, const char* call) const {
  if (status != kAllocmarkPluginOk) [[unlikely]] {
    throw plugin_error(std::string("PyTorch's allocator failed in ") + call, plugin_->last_error());
  }
}

AllocateResult TorchBackend::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  // PyTorch refuses tensors of 1 EiB and more before its allocator, whose rounding would wrap.
  constexpr std::uint64_t kTensorBytesEnd = std::uint64_t{1} << 60;
  if (size_bytes >= kTensorBytesEnd) [[unlikely]] {
    return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
  }
  void* pointer = nullptr;
  const int status = plugin_->allocate(size_bytes, stream, &pointer);
  if (status == kAllocmarkPluginOutOfMemory) [[unlikely]] {
    return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
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

void TorchBackend::trim() { require_ok(plugin_->trim(), "trim"); }

std::vector<MemorySegment> TorchBackend::segments() const {
  std::vector<MemorySegment> segments;
  AllocmarkPluginSegment segment{};
  for (std::size_t index = 0; plugin_->segment(index, &segment) != 0; ++index) {
    segments.push_back({.address = segment.address,
                        .size_bytes = segment.size_bytes,
                        .is_large = segment.is_large != 0,
                        .is_expandable = segment.is_expandable != 0});
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
  MemoryStats stats;
  struct Wanted {
    std::string_view name;
    std::optional<std::uint64_t> MemoryStats::*field;
  };
  static constexpr std::array kWanted = {
      Wanted{"allocated_bytes.all.current", &MemoryStats::allocated_bytes},
      Wanted{"active_bytes.all.current", &MemoryStats::active_bytes},
      Wanted{"reserved_bytes.all.current", &MemoryStats::reserved_bytes},
      Wanted{"num_device_alloc", &MemoryStats::device_allocate_count},
      Wanted{"num_device_free", &MemoryStats::device_free_count},
      Wanted{"num_alloc_retries", &MemoryStats::retry_count},
      Wanted{"num_sync_all_streams", &MemoryStats::synchronize_all_count},
  };
  for (const NamedCounter& counter : counters()) {
    for (const Wanted& wanted : kWanted) {
      if (counter.name == wanted.name) {
        stats.*wanted.field = static_cast<std::uint64_t>(counter.value);
      }
    }
  }
  std::uint64_t free_largest_bytes = 0;
  std::uint64_t free_other_streams_bytes = 0;
  require_ok(plugin_->cached(stream, &free_largest_bytes, &free_other_streams_bytes), "snapshot");
  stats.free_largest_bytes = free_largest_bytes;
  stats.free_other_streams_bytes = free_other_streams_bytes;
  return stats;
}

BackendEntry torch_entry() {
  BackendEntry entry = caching_entry();
  entry.name = "torch";
  entry.summary = "PyTorch's own CUDA caching allocator (c10), through a plugin";
  entry.make = make;
  entry.unavailable_reason = unavailable_reason;
  return entry;
}

}  // namespace allocmark
