// The null backend: addresses by arithmetic, no memory behind them. Its latency is the harness's
// own cost, which every report prints beside the allocators' figures. Requests flow in; nothing
// reaches the CUDA runtime.
#include <atomic>
#include <cstdint>
#include <memory>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf_value.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kAlignmentBytes = 512;
// Far above what any CUDA device or host process maps, so that a stray use faults.
constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 56;
// No device has more; a larger request is as impossible here as on a real one.
constexpr std::uint64_t kSizeBytesMax = std::uint64_t{1} << 48;

class NullBackend final : public Backend {
 public:
  // Never blocks. Nobody owns anything: the addresses are distinct, aligned and must not be used.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes,
                                        cudaStream_t /*stream*/) override {
    if (size_bytes > kSizeBytesMax) [[unlikely]] {
      return kOutOfMemory;
    }
    // One unit more than needed, so that size 0 gets an address of its own without a branch. 2^63
    // bytes pass before the counter wraps: 65 million requests of a whole 128 GiB device each.
    const std::uint64_t step_bytes = (size_bytes & ~(kAlignmentBytes - 1)) + kAlignmentBytes;
    const std::uint64_t address = next_address_.fetch_add(step_bytes, std::memory_order_relaxed);
    return {.pointer = reinterpret_cast<void*>(address), .status = AllocateStatus::Ok};
  }

  void deallocate(void* /*pointer*/, std::uint64_t /*size_bytes*/,
                  cudaStream_t /*stream*/) override {}

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override { return {}; }

 private:
  std::atomic<std::uint64_t> next_address_ = kFirstAddress;
};

std::unique_ptr<Backend> make_null(NoConf, const BackendOptions& /*options*/) {
  return std::make_unique<NullBackend>();
}

}  // namespace

BackendEntry null_entry() {
  return {.name = "null",
          .summary = "addresses without memory: measures what the harness itself costs",
          .capabilities = {.any_thread = true,
                           .real_memory = false,
                           .alignment_bytes = kAlignmentBytes},
          .conf_keys = {},
          .check_conf = conf_checker(read_no_conf),
          .make = conf_maker(read_no_conf, make_null)};
}

}  // namespace allocmark
