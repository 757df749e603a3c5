// PyTorch's own CUDA caching allocator behind our plugin interface: headers of c10 and two
// libraries, no Python and no libtorch. Everything c10 throws becomes a status and a text.
#include "allocators/plugins/torch_plugin/counters.h"
#include "allocators/plugins/torch_plugin/guarded.h"
#include "allocators/plugins/torch_plugin/plugin.h"
#include "allocators/plugins/torch_plugin/private_pools.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace c10::cuda::_internal {
// Exported by libc10_cuda; libtorch sets it. c10 asks it before it touches a device.
void setHasPrimaryContext(bool (*has_primary_context)(DeviceIndex device));
}  // namespace c10::cuda::_internal

namespace c10::cuda::detail {
// libtorch calls it too. Expandable segments need it since 2.13; 2.10 and older have no such
// function.
__attribute__((weak)) void init_p2p_access_cache(std::int64_t device_count);
}  // namespace c10::cuda::detail

// The text of a number that a macro names.
#define ALLOCMARK_QUOTED(value) #value
#define ALLOCMARK_TEXT(value) ALLOCMARK_QUOTED(value)

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

using allocmark_torch::add_stat;
using allocmark_torch::Counters;
using allocmark_torch::guarded;
using allocmark_torch::last_error_text;

struct LoadedLibrary {
  std::string path;
  std::string id;  // its build id, in hexadecimal
};

// Called for every library of the process, until the one that is looked for.
int note_library(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& found = *static_cast<LoadedLibrary*>(data);
  if (std::string(info->dlpi_name).find("libc10_cuda.so") == std::string::npos) return 0;
  found.path = info->dlpi_name;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + header.p_vaddr);
    const unsigned char* const end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const unsigned char* const bytes = at + sizeof *note + ((note->n_namesz + 3u) & ~3u);
      if (note->n_type == NT_GNU_BUILD_ID) {
        constexpr char kDigits[] = "0123456789abcdef";
        for (unsigned k = 0; k < note->n_descsz; ++k) {
          found.id += kDigits[bytes[k] >> 4];
          found.id += kDigits[bytes[k] & 15];
        }
        return 1;
      }
      at = bytes + ((note->n_descsz + 3u) & ~3u);
    }
  }
  return 1;
}

}  // namespace

// Headers of one release with the library of another would read each other's structures wrongly.
void allocmark_torch::require_own_library() {
  LoadedLibrary loaded;
  dl_iterate_phdr(note_library, &loaded);
  if (loaded.id == ALLOCMARK_TORCH_LIBRARY_ID) return;
  throw std::runtime_error(
      "the plugin was built against the headers of PyTorch " ALLOCMARK_TORCH_VERSION
      " (libc10_cuda " ALLOCMARK_TORCH_LIBRARY_ID "), but the library that it loaded is another: " +
      loaded.path + " (" + (loaded.id.empty() ? "no build id" : loaded.id) + ")");
}

namespace {

// The fraction whose product with the device's memory, cut to whole bytes as c10 does, is exactly
// the limit.
double fraction_of(std::uint64_t limit_bytes, double total_bytes) {
  double fraction = static_cast<double>(limit_bytes) / total_bytes;
  while (static_cast<std::uint64_t>(fraction * total_bytes) < limit_bytes) {
    fraction = std::nextafter(fraction, 1.0);
  }
  return fraction;
}

int limit(std::uint64_t memory_limit_bytes) {
  return guarded([&] {
    const c10::DeviceIndex device = c10::cuda::current_device();
    cudaDeviceProp properties{};
    (void)cudaGetDeviceProperties(&properties, device);
    const double total_bytes = static_cast<double>(properties.totalGlobalMem);
    allocator::setMemoryFraction(
        memory_limit_bytes == 0 ? 1.0 : fraction_of(memory_limit_bytes, total_bytes), device);
  });
}

// Without a limit the fraction stays untouched at the first open: the config string may set one.
int open_allocator(std::uint64_t memory_limit_bytes) {
  static bool opened_before = false;
  const int status = guarded([&] {
    static const bool started = [] {
      allocmark_torch::require_own_library();
      c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
      const c10::DeviceIndex device_count = c10::cuda::device_count_ensure_non_zero();
      if (c10::cuda::detail::init_p2p_access_cache != nullptr)
        c10::cuda::detail::init_p2p_access_cache(device_count);
      allocator::init(device_count);
      return true;
    }();
    (void)started;
  });
  if (status != kAllocmarkPluginOk || (memory_limit_bytes == 0 && !opened_before)) {
    opened_before = true;
    return status;
  }
  opened_before = true;
  return limit(memory_limit_bytes);
}

int configure(const char* conf) {
  return guarded([&] { allocator::setAllocatorSettings(conf); });
}

// Blocks of the cudaMallocAsync backend that are live: it has no snapshot to find them in.
std::unordered_set<void*> live_async_blocks;

bool is_native() {
  static const bool native = allocator::get()->name() == "native";
  return native;
}

std::vector<void*> live_blocks() {
  if (!is_native()) {
    return {live_async_blocks.begin(), live_async_blocks.end()};
  }
  std::vector<void*> live;
  for (const auto& segment : allocator::snapshot().segments) {
    std::size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      if (block.allocated) {
        live.push_back(reinterpret_cast<void*>(address));
      }
      address += block.size;
    }
  }
  return live;
}

void close_allocator() {
  (void)guarded([] {
    if (is_native()) allocmark_torch::end_pools();
    for (void* const pointer : live_blocks()) {
      allocator::raw_delete(pointer);
    }
    live_async_blocks.clear();
    allocator::emptyCache();
    const c10::DeviceIndex device = c10::cuda::current_device();
    allocator::resetAccumulatedStats(device);
    allocator::resetPeakStats(device);
  });
}

int allocate(std::uint64_t size_bytes, void* stream, void** pointer) {
  return guarded([&] {
    *pointer = allocmark_torch::raw_alloc(size_bytes, static_cast<cudaStream_t>(stream));
    if (!is_native() && *pointer != nullptr) {
      live_async_blocks.insert(*pointer);
    }
  });
}

int deallocate(void* pointer) {
  return guarded([&] {
    if (!is_native()) {
      live_async_blocks.erase(pointer);
    }
    allocmark_torch::raw_delete(pointer);
  });
}

int record_stream(void* pointer, void* stream) {
  return guarded([&] {
    const c10::DeviceIndex device = c10::cuda::current_device();
    const allocmark_torch::CapturedCall call(allocmark_torch::CapturedCall::of_other());
    c10::DataPtr data(pointer, pointer, allocator::get()->raw_deleter(),
                      c10::Device(c10::kCUDA, device));
    allocator::recordStream(
        data, c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device));
    (void)data.release_context();
  });
}

int trim() {
  return guarded([] { allocmark_torch::empty_cache(); });
}

int pool(int action, std::uint64_t id, void* stream, int flag) {
  return guarded([&] { allocmark_torch::call_pool(action, id, stream, flag != 0); });
}

void add_array(Counters& counters, const std::string& name,
               const c10::CachingAllocator::StatArray& stats) {
  static constexpr std::array kPools = {"all", "small_pool", "large_pool"};
  for (std::size_t i = 0; i < kPools.size(); ++i) {
    add_stat(counters, name + "." + kPools[i], stats[i]);
  }
}

// Since 2.12.
template <typename Stats>
void add_rejections(Counters& counters, const Stats& stats) {
  if constexpr (requires { stats.num_oom_rejections; })
    counters.emplace_back("num_oom_rejections", stats.num_oom_rejections);
}

Counters read_counters() {
  const auto stats = allocator::getDeviceStats(c10::cuda::current_device());
  Counters counters;
  add_array(counters, "allocation", stats.allocation);
  add_array(counters, "segment", stats.segment);
  add_array(counters, "active", stats.active);
  add_array(counters, "inactive_split", stats.inactive_split);
  add_array(counters, "allocated_bytes", stats.allocated_bytes);
  add_array(counters, "reserved_bytes", stats.reserved_bytes);
  add_array(counters, "active_bytes", stats.active_bytes);
  add_array(counters, "inactive_split_bytes", stats.inactive_split_bytes);
  add_array(counters, "requested_bytes", stats.requested_bytes);
  add_stat(counters, "oversize_allocations", stats.oversize_allocations);
  add_stat(counters, "oversize_segments", stats.oversize_segments);
  counters.emplace_back("max_split_size", stats.max_split_size);
  counters.emplace_back("num_alloc_retries", stats.num_alloc_retries);
  counters.emplace_back("num_device_alloc", stats.num_device_alloc);
  counters.emplace_back("num_device_free", stats.num_device_free);
  counters.emplace_back("num_ooms", stats.num_ooms);
  add_rejections(counters, stats);
  allocmark_torch::for_each_reserved(stats, [&](std::uint64_t number, const auto& array) {
    add_array(counters, "reserved_bytes_by_private_pools.0_" + std::to_string(number), array);
  });
  counters.emplace_back("num_sync_all_streams", stats.num_sync_all_streams);
  std::sort(counters.begin(), counters.end());
  return counters;
}

int totals(AllocmarkPluginTotals* out) {
  return guarded([&] {
    const auto stats = allocator::getDeviceStats(c10::cuda::current_device());
    *out = {.allocated_bytes = stats.allocated_bytes[0].current,
            .active_bytes = stats.active_bytes[0].current,
            .reserved_bytes = stats.reserved_bytes[0].current,
            .device_allocate_count = stats.num_device_alloc,
            .device_free_count = stats.num_device_free,
            .retry_count = stats.num_alloc_retries,
            .synchronize_all_count = stats.num_sync_all_streams};
  });
}

using Segments = std::vector<AllocmarkPluginSegment>;

Segments read_segments() {
  Segments segments;
  if (!is_native()) {
    return segments;
  }
  for (const auto& segment : allocator::snapshot().segments) {
    segments.push_back({.address = segment.address,
                        .size_bytes = segment.total_size,
                        .pool = allocmark_torch::number_of(segment.owner_private_pool_id),
                        .allocated_bytes = segment.allocated_size,
                        .is_large = segment.is_large ? 1 : 0,
                        .is_expandable = segment.is_expandable ? 1 : 0});
  }
  std::sort(segments.begin(), segments.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return segments;
}

// As the counters are read.
int segment(size_t index, AllocmarkPluginSegment* out) {
  static Segments segments;
  if (index == 0 && guarded([] { segments = read_segments(); }) != kAllocmarkPluginOk) {
    return 0;
  }
  if (index >= segments.size()) {
    return 0;
  }
  *out = segments[index];
  return 1;
}

int cached(void* stream, std::uint64_t* free_largest_bytes,
           std::uint64_t* free_other_streams_bytes) {
  return guarded([&] {
    *free_largest_bytes = *free_other_streams_bytes = 0;
    if (!is_native()) {
      return;
    }
    for (const auto& segment : allocator::snapshot().segments) {
      for (const auto& block : segment.blocks) {
        if (block.active) {
          continue;
        }
        if (segment.stream == stream) {
          *free_largest_bytes = std::max<std::uint64_t>(*free_largest_bytes, block.size);
        } else {
          *free_other_streams_bytes += block.size;
        }
      }
    }
  });
}

const char* last_error() { return last_error_text.c_str(); }
const char* version_text() { return ALLOCMARK_TORCH_VERSION; }

__attribute__((used)) constexpr char kIdentity[] =
    ALLOCMARK_TORCH_IDENTITY_MARK ALLOCMARK_TORCH_VERSION
    "; libc10_cuda " ALLOCMARK_TORCH_LIBRARY_ID
    "; interface " ALLOCMARK_TEXT(ALLOCMARK_TORCH_PLUGIN_VERSION) ";";

constexpr AllocmarkTorchPlugin kPlugin = {
    .version = ALLOCMARK_TORCH_PLUGIN_VERSION,
    .open = open_allocator,
    .close = close_allocator,
    .configure = configure,
    .limit = limit,
    .allocate = allocate,
    .deallocate = deallocate,
    .record_stream = record_stream,
    .trim = trim,
    .pool = pool,
    .counter = allocmark_torch::counter<read_counters>,
    .totals = totals,
    .segment = segment,
    .cached = cached,
    .last_error = last_error,
    .version_text = version_text,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const AllocmarkTorchPlugin*
allocmark_torch_plugin(void) {
  return &kPlugin;
}
