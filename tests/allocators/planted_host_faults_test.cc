// Goal: the conformance suite judges backends of the host's memory, too. Method: a plain cache of
// pinned memory into which one fault at a time is planted must break the rule that names that
// fault, and must keep all rules when it has none. On simcuda: a GPU's host tells nothing of what
// is pinned.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/divided_up.h"
#include "tests/allocators/conformance.h"
#include "tests/catch.h"
#include "tests/support/device_probe.h"
#include "tests/support/golden.h"

namespace allocmark {
namespace {

enum class HostFault : std::uint8_t {
  None,
  Overlapping,
  Unpinned,
  PinsTooLittle,
  OnTheDevice,
  Scribbles,
  IgnoresLimit,
  LeavesLastError,
  NeverUnpins,
  ReportsTooLittle,
  TrimDoesNothing,
  LeaksAtTheEnd,
};

constexpr std::uint64_t kStepBytes = 4 * kKiB;
constexpr std::uint64_t kLargestBytes = std::uint64_t{1} << 46;

class PlantedHostBackend final : public Backend {
 public:
  PlantedHostBackend(HostFault fault, std::uint64_t limit_bytes)
      : fault_(fault), limit_bytes_(limit_bytes) {}
  ~PlantedHostBackend() override {
    empty_cache();
    if (fault_ == HostFault::LeaksAtTheEnd) return;
    for (const auto& [pointer, block] : live_) give_back(block.base);
    for (void* const base : lost_) give_back(base);
  }

  AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t /*stream*/) override {
    constexpr AllocateResult kRefused{.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
    const std::scoped_lock lock(mutex_);
    if (size_bytes == 0) return {};
    if (size_bytes > kLargestBytes) return kRefused;
    const std::uint64_t block_bytes = rounded_up(size_bytes, kStepBytes);
    const bool is_over = limit_bytes_ != 0 && live_bytes_ + size_bytes > limit_bytes_;
    if (is_over && fault_ != HostFault::IgnoresLimit) return kRefused;
    void* base = from_cache(block_bytes);
    if (base == nullptr) base = pin(block_bytes);
    if (base == nullptr) {
      empty_cache();
      base = pin(block_bytes);
    }
    if (base == nullptr) return kRefused;
    void* pointer = base;
    if (fault_ == HostFault::Overlapping && !live_.empty() &&
        live_.begin()->second.block_bytes > block_bytes)
      pointer = static_cast<char*>(live_.begin()->first) + 256;
    if (fault_ == HostFault::Scribbles && !live_.empty())
      *static_cast<unsigned char*>(live_.begin()->first) ^= 0xFF;
    live_[pointer] = {.base = base, .block_bytes = block_bytes};
    live_bytes_ += size_bytes;
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    const Block block = live_.at(pointer);
    live_.erase(pointer);
    live_bytes_ -= size_bytes;
    if (fault_ == HostFault::NeverUnpins) {
      lost_.push_back(block.base);
    } else {
      cache_[block.block_bytes].push_back(block.base);
    }
  }

  void trim() override {
    const std::scoped_lock lock(mutex_);
    if (fault_ != HostFault::TrimDoesNothing) empty_cache();
  }

  MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats;
    stats.allocated_bytes = live_bytes_;
    stats.reserved_bytes = fault_ == HostFault::ReportsTooLittle ? live_bytes_ / 2 : pinned_bytes_;
    return stats;
  }

 private:
  struct Block {
    void* base = nullptr;
    std::uint64_t block_bytes = 0;
  };

  void* from_cache(std::uint64_t block_bytes) {
    std::vector<void*>& cached = cache_[block_bytes];
    if (cached.empty()) return nullptr;
    void* const base = cached.back();
    cached.pop_back();
    return base;
  }

  void* pin(std::uint64_t block_bytes) {
    void* base = nullptr;
    if (fault_ == HostFault::Unpinned) {
      base = std::aligned_alloc(kStepBytes, block_bytes);
    } else {
      const std::uint64_t taken_bytes =
          fault_ == HostFault::PinsTooLittle ? block_bytes - block_bytes / 4 : block_bytes;
      const cudaError_t error = fault_ == HostFault::OnTheDevice
                                    ? cudaMalloc(&base, taken_bytes)
                                    : cudaMallocHost(&base, taken_bytes);
      if (fault_ != HostFault::LeavesLastError) (void)is_out_of_memory(error);
      if (error != cudaSuccess) return nullptr;
    }
    if (base != nullptr) {
      pinned_bytes_ += block_bytes;
      sizes_bytes_[base] = block_bytes;
    }
    return base;
  }

  void give_back(void* base) {
    if (fault_ == HostFault::Unpinned) {
      std::free(base);
    } else {
      (void)(fault_ == HostFault::OnTheDevice ? cudaFree(base) : cudaFreeHost(base));
    }
    pinned_bytes_ -= sizes_bytes_.at(base);
  }

  void empty_cache() {
    for (auto& [block_bytes, blocks] : cache_) {
      for (void* const base : std::exchange(blocks, {})) give_back(base);
    }
  }

  HostFault fault_;
  std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::map<void*, Block> live_;
  std::map<std::uint64_t, std::vector<void*>> cache_;
  std::map<void*, std::uint64_t> sizes_bytes_;
  std::vector<void*> lost_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t pinned_bytes_ = 0;
};

Subject planted_on_host(HostFault fault) {
  return {.name = "planted on the host",
          .conf = {},
          .capabilities = {.any_thread = true,
                           .stream_ordered = false,
                           .real_memory = true,
                           .side = MemorySide::Host,
                           .honours_memory_limit = true,
                           .alignment_bytes = 256},
          .make_backend = [fault](const BackendOptions& options) -> std::unique_ptr<Backend> {
            return std::make_unique<PlantedHostBackend>(fault, options.memory_limit_bytes);
          }};
}

struct HostPlant {
  HostFault fault;
  std::string_view name;
  std::string_view does;
  std::string_view rule;
  std::string_view said;  // part of the reason
};

constexpr HostPlant kPlants[] = {
    {HostFault::Overlapping, "overlapping", "hands out a part of a live block", "overlap",
     "which is live"},
    {HostFault::Unpinned, "unpinned", "hands out memory that is not pinned", "device-memory",
     "not so much pinned memory of the host"},
    {HostFault::PinsTooLittle, "pins_too_little", "pins three quarters of a block", "device-memory",
     "not so much pinned memory of the host"},
    {HostFault::OnTheDevice, "on_the_device", "hands out memory of the device", "device-memory",
     "not so much pinned memory of the host"},
    {HostFault::Scribbles, "scribbles", "changes a byte of a live block", "contents",
     "was changed by somebody else"},
    {HostFault::IgnoresLimit, "ignores_limit", "pins more than it was allowed", "memory-limit",
     "under a limit of"},
    {HostFault::LeavesLastError, "leaves_last_error", "leaves the error of a refused call behind",
     "last-error", "cudaGetLastError says"},
    {HostFault::NeverUnpins, "never_unpins", "keeps what is freed, and pins anew", "growth",
     "after 8"},
    {HostFault::ReportsTooLittle, "reports_too_little", "says that half is reserved", "counters",
     "reserved"},
    {HostFault::TrimDoesNothing, "trim_does_nothing", "gives nothing back at a trim", "trim",
     "stayed"},
    {HostFault::LeaksAtTheEnd, "leaks_at_the_end", "leaves live blocks pinned at its end", "end",
     "bytes are lost"},
};

// Whether the plant's rule says what is wrong.
bool is_found(const HostPlant& plant) {
  for (const Rule& rule : conformance_rules()) {
    if (rule.name != plant.rule) continue;
    const Verdict verdict = hold_against(rule, planted_on_host(plant.fault));
    UNSCOPED_INFO("rule " << plant.rule << ": " << verdict.reason);
    return verdict.outcome == Outcome::Broken &&
           verdict.reason.find(plant.said) != std::string::npos;
  }
  return false;
}

std::string row_of(const HostPlant& plant, bool found) {
  std::string row;
  for (const std::string& cell :
       {"`" + std::string(plant.name) + "`", std::string(plant.does),
        "`" + std::string(plant.rule) + "`", std::string(found ? "yes" : "no")})
    row += "| " + cell + " ";
  return row + "|\n";
}

}  // namespace

TEST_CASE("a backend of the host's memory without planted faults keeps every rule") {
  if (!on_simcuda()) return;
  std::uint64_t kept_count = 0;
  for (const Rule& rule : conformance_rules()) {
    const Verdict verdict = hold_against(rule, planted_on_host(HostFault::None));
    INFO("rule " << rule.name << ": " << verdict.reason);
    CHECK(verdict.outcome != Outcome::Broken);
    kept_count += verdict.outcome == Outcome::Kept ? 1 : 0;
  }
  CHECK(kept_count > 20);
}

TEST_CASE("every fault planted on the host breaks its rule, as the page of planted faults says") {
  if (!on_simcuda()) return;
  std::string rows;
  for (const HostPlant& plant : kPlants) {
    const bool found = is_found(plant);
    CHECK(found);
    rows += row_of(plant, found);
  }
  const std::string page = read_golden("results/compare/PLANTED_FAULTS.md");
  const std::string section = page.substr(std::min(page.find("## On the host"), page.size()));
  INFO("the rows of \"On the host\" are:\n" << rows);
  CHECK(section.find("| :-- | :-- | :-- | :-- |\n" + rows + "\n") != std::string::npos);
}

}  // namespace allocmark
