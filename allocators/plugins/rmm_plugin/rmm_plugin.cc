// RMM's memory resources behind our plugin interface: its headers and librmm. Everything RMM throws
// becomes a status and a text.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <rmm/aligned.hpp>
#include <rmm/cuda_device.hpp>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/device_memory_resource.hpp>
#include <rmm/mr/fixed_size_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <string>

#include "allocators/plugins/rmm_plugin/plugin.h"

namespace {

using Resource = rmm::mr::device_memory_resource;

thread_local std::string last_error_text;

// Runs `body`; what it throws becomes a status.
template <typename Body>
int guarded(Body body) {
  try {
    body();
    return kAllocmarkRmmOk;
  } catch (const std::bad_alloc&) {
    // RMM's out_of_memory is one. The runtime's own last error would be found by the next launch.
    (void)cudaGetLastError();
    return kAllocmarkRmmOutOfMemory;
  } catch (const std::exception& error) {
    (void)cudaGetLastError();
    last_error_text = error.what();
    return kAllocmarkRmmError;
  }
}

// cudaMalloc and cudaFree, counted: what the resources above take their memory from.
class CountingUpstream final : public Resource {
 public:
  [[nodiscard]] AllocmarkRmmUsage usage() const {
    return {.reserved_bytes = reserved_bytes_,
            .device_allocate_count = allocate_count_,
            .device_free_count = free_count_};
  }

 private:
  void* do_allocate(std::size_t size_bytes, rmm::cuda_stream_view stream) override {
    void* const pointer = inner_.allocate(stream, size_bytes);
    reserved_bytes_ += size_bytes;
    ++allocate_count_;
    return pointer;
  }
  void do_deallocate(void* pointer, std::size_t size_bytes,
                     rmm::cuda_stream_view stream) noexcept override {
    inner_.deallocate(stream, pointer, size_bytes);
    reserved_bytes_ -= size_bytes;
    ++free_count_;
  }

  rmm::mr::cuda_memory_resource inner_;
  std::atomic<std::uint64_t> reserved_bytes_ = 0;
  std::atomic<std::uint64_t> allocate_count_ = 0;
  std::atomic<std::uint64_t> free_count_ = 0;
};

using Pool = rmm::mr::pool_memory_resource<CountingUpstream>;

std::optional<std::size_t> given(std::uint64_t value) {
  return value == UINT64_MAX ? std::nullopt : std::optional<std::size_t>(value);
}

// One memory resource and what it stands on. Members go in reverse order: the resource first.
struct Instance {
  CountingUpstream upstream;
  std::unique_ptr<Pool> pool;  // below binning
  std::unique_ptr<Resource> resource;
  cudaMemPool_t async_pool = nullptr;
};

std::unique_ptr<Pool> make_pool(Instance& instance, const AllocmarkRmmOptions& options) {
  // RMM's Python interface starts a pool with half of what is free.
  const std::size_t initial_bytes =
      given(options.initial_bytes).value_or(rmm::percent_of_free_device_memory(50));
  return std::make_unique<Pool>(&instance.upstream,
                                rmm::align_down(initial_bytes, rmm::CUDA_ALLOCATION_ALIGNMENT),
                                given(options.bytes_max));
}

std::unique_ptr<Resource> make_async(Instance& instance, const AllocmarkRmmOptions& options) {
  auto resource = std::make_unique<rmm::mr::cuda_async_memory_resource>(
      given(options.initial_bytes), given(options.release_threshold_bytes));
  instance.async_pool = resource->pool_handle();
  return resource;
}

std::unique_ptr<Resource> make_resource(Instance& instance, const AllocmarkRmmOptions& options) {
  switch (options.resource) {
    case kAllocmarkRmmArena:
      return std::make_unique<rmm::mr::arena_memory_resource<CountingUpstream>>(
          &instance.upstream, given(options.initial_bytes));
    case kAllocmarkRmmBinning:
      instance.pool = make_pool(instance, options);
      return std::make_unique<rmm::mr::binning_memory_resource<Pool>>(
          instance.pool.get(), static_cast<std::int8_t>(options.bin_exponent_min),
          static_cast<std::int8_t>(options.bin_exponent_max));
    case kAllocmarkRmmFixedSize:
      return std::make_unique<rmm::mr::fixed_size_memory_resource<CountingUpstream>>(
          &instance.upstream, options.block_bytes, options.block_count);
    case kAllocmarkRmmCudaAsync:
      return make_async(instance, options);
    default:
      return make_pool(instance, options);
  }
}

int open_instance(const AllocmarkRmmOptions* options, void** instance) {
  return guarded([&] {
    auto made = std::make_unique<Instance>();
    made->resource = make_resource(*made, *options);
    *instance = made.release();
  });
}

void close_instance(void* instance) {
  (void)guarded([&] { delete static_cast<Instance*>(instance); });
}

rmm::cuda_stream_view view_of(void* stream) {
  return rmm::cuda_stream_view(static_cast<cudaStream_t>(stream));
}

int allocate(void* instance, std::uint64_t size_bytes, void* stream, void** pointer) {
  return guarded([&] {
    *pointer = static_cast<Instance*>(instance)->resource->allocate(view_of(stream), size_bytes);
  });
}

int deallocate(void* instance, void* pointer, std::uint64_t size_bytes, void* stream) {
  return guarded([&] {
    static_cast<Instance*>(instance)->resource->deallocate(view_of(stream), pointer, size_bytes);
  });
}

int usage(void* instance, AllocmarkRmmUsage* usage) {
  return guarded([&] {
    const Instance& self = *static_cast<Instance*>(instance);
    *usage = self.upstream.usage();
    if (self.async_pool == nullptr) return;
    RMM_CUDA_TRY(cudaMemPoolGetAttribute(self.async_pool, cudaMemPoolAttrReservedMemCurrent,
                                         &usage->reserved_bytes));
  });
}

// Only the driver's pool can: RMM's own keep what they have until they end.
int trim(void* instance) {
  return guarded([&] {
    const Instance& self = *static_cast<Instance*>(instance);
    if (self.async_pool != nullptr) RMM_CUDA_TRY(cudaMemPoolTrimTo(self.async_pool, 0));
  });
}

void call_runtime() {
  (void)guarded([] { (void)rmm::get_num_cuda_devices(); });
}

const char* last_error() { return last_error_text.c_str(); }

constexpr AllocmarkRmmPlugin kPlugin = {
    .version = ALLOCMARK_RMM_PLUGIN_VERSION,
    .version_text = ALLOCMARK_RMM_VERSION,
    .open = open_instance,
    .close = close_instance,
    .allocate = allocate,
    .deallocate = deallocate,
    .usage = usage,
    .trim = trim,
    .call_runtime = call_runtime,
    .last_error = last_error,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const AllocmarkRmmPlugin* allocmark_rmm_plugin(
    void) {
  return &kPlugin;
}
