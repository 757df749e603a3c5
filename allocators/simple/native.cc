// cudaMalloc and cudaFree behind the interface; see native.h.
#include "allocators/simple/native.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"

namespace allocmark {
namespace {

std::optional<ErrorText> check_conf(std::string_view conf) { return split_conf(conf, {}).error; }

std::unique_ptr<Backend> make(const BackendOptions& options) {
  require_good_conf(check_conf(options.conf));
  return std::make_unique<NativeBackend>();
}

std::string unavailable_reason() { return {}; }

}  // namespace

NativeBackend::~NativeBackend() {
  // A failure here means that the context is gone, and the memory with it.
  live_.for_each([](const LiveBlock& block) { (void)cudaFree(block.pointer); });
}

AllocateResult NativeBackend::allocate(std::uint64_t size_bytes, cudaStream_t /*stream*/) {
  if (size_bytes == 0) {
    return {};  // as cudaMalloc(0): success and a null pointer
  }
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, size_bytes);
  if (is_out_of_memory(error)) {
    return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
  }
  ALLOCMARK_CUDA_CHECK(error);
  const std::scoped_lock lock(mutex_);
  live_.reserve_one();
  live_.insert({.pointer = pointer, .size_bytes = size_bytes});
  ++device_allocate_count_;
  return {.pointer = pointer, .status = AllocateStatus::Ok};
}

void NativeBackend::deallocate(void* pointer, std::uint64_t /*size_bytes*/,
                               cudaStream_t /*stream*/) {
  if (pointer == nullptr) {
    return;
  }
  {
    // Forgotten before it is freed: once cudaFree returns, another thread may get the same address.
    const std::scoped_lock lock(mutex_);
    if (live_.erase(pointer)) {
      ++device_free_count_;
    }
  }
  ALLOCMARK_CUDA_CHECK(cudaFree(pointer));
}

MemoryStats NativeBackend::stats(cudaStream_t /*stream*/) const {
  const std::scoped_lock lock(mutex_);
  // The driver rounds further (2 MiB pages), out of this backend's sight; nothing is cached here.
  return {.allocated_bytes = live_.size_bytes_total(),
          .active_bytes = live_.size_bytes_total(),
          .reserved_bytes = live_.size_bytes_total(),
          .free_other_streams_bytes = 0,
          .free_largest_bytes = 0,
          .device_allocate_count = device_allocate_count_,
          .device_free_count = device_free_count_,
          .retry_count = 0,
          .synchronize_all_count = std::nullopt};
}

BackendEntry native_entry() {
  return {.name = "native",
          .summary = "cudaMalloc and cudaFree for every request",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .real_memory = true,
                           .honours_memory_limit = false,
                           .alignment_bytes = 256},
          .conf_keys = {},
          .check_conf = check_conf,
          .make = make,
          .unavailable_reason = unavailable_reason};
}

}  // namespace allocmark
