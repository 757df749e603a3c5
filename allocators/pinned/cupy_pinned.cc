// The backend cupy_pinned: CuPy's pool of pinned host memory on cudaHostAlloc. Requests flow in,
// pinned memory flows out; cupy_blocks.h has the rules.
#include <memory>
#include <mutex>

#include "allocators/conf/conf_value.h"
#include "allocators/pinned/bounded_driver.h"
#include "allocators/pinned/cupy_blocks.h"
#include "allocators/pinned/pinned.h"

namespace allocmark {
namespace {

using host_caching::Address;

class CupyPinnedBackend final : public Backend {
 public:
  explicit CupyPinnedBackend(std::uint64_t limit_bytes) : driver_(limit_bytes), blocks_(driver_) {}

  // The caller owns the block until deallocate(), on any thread. Blocks where memory is pinned.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes,
                                        cudaStream_t /*stream*/) override {
    if (size_bytes == 0) return {};
    const std::scoped_lock lock(mutex_);
    const Address address = blocks_.allocate(size_bytes);
    if (address == 0) return kOutOfMemory;
    return {.pointer = reinterpret_cast<void*>(address), .status = AllocateStatus::Ok};
  }
  // Never blocks. A stream is waited for only where record_stream() named it.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    const std::scoped_lock lock(mutex_);
    blocks_.free(reinterpret_cast<Address>(pointer));
  }
  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    blocks_.use(reinterpret_cast<Address>(pointer), reinterpret_cast<host_caching::Stream>(stream));
  }
  void trim() override {
    const std::scoped_lock lock(mutex_);
    blocks_.free_all();
  }
  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    return {.allocated_bytes = blocks_.held_bytes(),
            .reserved_bytes = driver_.pinned_bytes(),
            .device_allocate_count = driver_.pin_count(),
            .device_free_count = driver_.unpin_count(),
            .synchronize_all_count = 0};
  }

 private:
  mutable std::mutex mutex_;  // guards everything below
  BoundedDriver driver_;
  CupyBlocks blocks_;
};

std::unique_ptr<Backend> make_cupy_pinned(NoConf, const BackendOptions& options) {
  return std::make_unique<CupyPinnedBackend>(options.memory_limit_bytes);
}

}  // namespace

BackendEntry cupy_pinned_entry() {
  return {
      .name = "cupy_pinned",
      .summary = "pinned host memory by CuPy 14's PinnedMemoryPool, rebuilt",
      .capabilities = {.any_thread = true, .side = MemorySide::Host, .honours_memory_limit = true},
      .conf_keys = {},
      .check_conf = conf_checker(read_no_conf),
      .make = conf_maker(read_no_conf, make_cupy_pinned)};
}

}  // namespace allocmark
