// The backend host_exact: each request is pinned by itself, by cudaHostAlloc or by mmap and
// cudaHostRegister, and unpinned at its free: no rounding beyond pages, no cache. Requests flow in,
// pinned memory flows out.
#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/streams.h"
#include "allocators/pinned/pin_budget.h"
#include "allocators/pinned/pinned.h"
#include "base/bytes.h"
#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kPageBytes = 4 * kKiB;
constexpr std::uint64_t kLargestHostBytes = std::uint64_t{1} << 46;

enum class Way : std::uint8_t { Alloc, Register };

struct ExactConf {
  Way way = Way::Alloc;
};

// Null where there is no such memory.
void* pin_by_alloc(std::uint64_t size_bytes) {
  void* pointer = nullptr;
  const cudaError_t error = cudaHostAlloc(&pointer, size_bytes, cudaHostAllocDefault);
  if (is_out_of_memory(error)) return nullptr;
  ALLOCMARK_CUDA_CHECK(error);
  return pointer;
}

void* pin_by_register(std::uint64_t size_bytes) {
  void* const pages =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  const cudaError_t error = cudaHostRegister(pages, size_bytes, cudaHostRegisterDefault);
  if (error == cudaSuccess) return pages;
  munmap(pages, size_bytes);
  if (!is_out_of_memory(error)) ALLOCMARK_CUDA_CHECK(error);
  return nullptr;
}

class HostExactBackend final : public Backend {
 public:
  HostExactBackend(Way way, std::uint64_t limit_bytes) : way_(way), budget_(limit_bytes) {}
  // A failure here means that the context is gone, and the pinning with it.
  ~HostExactBackend() override {
    for (const auto& [pointer, size_bytes] : live_) (void)unpin(pointer, size_bytes);
    (void)cudaGetLastError();
  }

  // The caller owns the block until deallocate(), on any thread. Blocks while memory is pinned.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes,
                                        cudaStream_t /*stream*/) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kLargestHostBytes) return kOutOfMemory;
    const std::scoped_lock lock(mutex_);
    const std::uint64_t taken_bytes = rounded_up(size_bytes, kPageBytes);
    if (!budget_.take(taken_bytes)) return kOutOfMemory;
    void* pointer = nullptr;
    try {
      pointer = way_ == Way::Alloc ? pin_by_alloc(taken_bytes) : pin_by_register(taken_bytes);
    } catch (...) {
      budget_.give_back(taken_bytes);
      throw;
    }
    if (pointer == nullptr) {
      budget_.give_back(taken_bytes);
      return kOutOfMemory;
    }
    live_[pointer] = taken_bytes;
    ++pin_count_;
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  // Waits for the streams that record_stream() named, and unpins.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    wait_for_streams(uses_.take(pointer));
    const auto found = live_.find(pointer);
    if (found == live_.end()) {
      throw EnvironmentError({.what = "this block is not pinned by this backend",
                              .where = "host_exact",
                              .wanted = "a pointer that allocate returned"});
    }
    ALLOCMARK_CUDA_CHECK(unpin(pointer, found->second));
    budget_.give_back(found->second);
    live_.erase(found);
    ++unpin_count_;
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    uses_.add(pointer, stream);
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    return {.allocated_bytes = budget_.held_bytes(),
            .active_bytes = budget_.held_bytes(),
            .reserved_bytes = budget_.held_bytes(),
            .free_other_streams_bytes = 0,
            .free_largest_bytes = 0,
            .device_allocate_count = pin_count_,
            .device_free_count = unpin_count_,
            .retry_count = 0,
            .synchronize_all_count = 0};
  }

 private:
  [[nodiscard]] cudaError_t unpin(void* pointer, std::uint64_t size_bytes) const {
    if (way_ == Way::Alloc) return cudaFreeHost(pointer);
    const cudaError_t error = cudaHostUnregister(pointer);
    if (error == cudaSuccess) munmap(pointer, size_bytes);
    return error;
  }

  Way way_;
  mutable std::mutex mutex_;  // guards everything below
  PinBudget budget_;
  std::unordered_map<void*, std::uint64_t> live_{};  // bytes that are pinned
  StreamUses uses_;
  std::uint64_t pin_count_ = 0;
  std::uint64_t unpin_count_ = 0;
};

std::unique_ptr<Backend> make_host_exact(const ExactConf& conf, const BackendOptions& options) {
  return std::make_unique<HostExactBackend>(conf.way, options.memory_limit_bytes);
}

}  // namespace

BackendEntry host_exact_entry() {
  const ConfFormat<ExactConf> format{
      .keys = {word_key("way", &ExactConf::way, {"alloc", "register"})}};
  return {
      .name = "host_exact",
      .summary = "pinned host memory, each request by itself: cudaHostAlloc or cudaHostRegister",
      .capabilities = {.any_thread = true, .side = MemorySide::Host, .honours_memory_limit = true},
      .conf_keys = format.key_names(),
      .check_conf = conf_checker(format),
      .make = conf_maker(format, make_host_exact)};
}

}  // namespace allocmark
