// Random operations on RMM's own resources and on those of allocators/rmm: addresses, failures,
// waits between streams and bytes of the device must be the same after each. Built by
// rmm_original.py against one release of RMM. Both take their memory from devices that exist only
// in numbers, and RMM's events are numbers, so that nothing depends on a GPU.
//
// usage: rmm_live OPERATIONS [FIRST_SEED]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/fixed_size_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>
#include <string>
#include <vector>

#include "allocators/rmm/arena.h"
#include "allocators/rmm/fixed_size.h"
#include "allocators/rmm/pool.h"
#include "tests/allocators/caching/fake_device.h"

namespace {

std::uintptr_t event_next = 0;
std::uint64_t wait_count = 0;

}  // namespace

// RMM orders streams by the addresses of their events.
extern "C" {
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(++event_next);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  ++wait_count;
  return cudaSuccess;
}
}

namespace {

namespace ours = allocmark::rmm;
using allocmark::caching::FakeDevice;

constexpr std::uint64_t kMiBytes = std::uint64_t{1} << 20;
constexpr int kProgramOperations = 4000;
constexpr std::uint32_t kBinLeast = 10;
constexpr std::uint32_t kBinMost = 14;

enum class Kind : std::uint8_t { Pool, Arena, Fixed, FixedOnPool, Binning };
constexpr const char* kKinds[] = {"pool", "arena", "fixed_size", "fixed_size on pool",
                                  "binning on pool"};

struct Sizes {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t initial_bytes = 0;  // of the pool or the arena
  std::optional<std::size_t> bytes_max = std::nullopt;
  std::size_t block_bytes = 0, block_count = 0;
};

void* take(FakeDevice* device, std::size_t size_bytes) {
  const std::optional<std::uint64_t> address = device->allocate(size_bytes, 0);
  if (!address) throw rmm::out_of_memory("the device has no more");
  return reinterpret_cast<void*>(*address);
}

void give(FakeDevice* device, void* pointer) {
  device->free(reinterpret_cast<std::uint64_t>(pointer));
}

#if RMM_VERSION_MAJOR > 26 || (RMM_VERSION_MAJOR == 26 && RMM_VERSION_MINOR >= 6)
struct Upstream {
  FakeDevice* device;
  void* allocate(cuda::stream_ref, std::size_t size_bytes, std::size_t = 256) {
    return take(device, size_bytes);
  }
  void deallocate(cuda::stream_ref, void* pointer, std::size_t, std::size_t = 256) noexcept {
    give(device, pointer);
  }
  void* allocate_sync(std::size_t size_bytes, std::size_t = 256) {
    return take(device, size_bytes);
  }
  void deallocate_sync(void* pointer, std::size_t, std::size_t = 256) noexcept {
    give(device, pointer);
  }
  bool operator==(const Upstream& other) const noexcept { return device == other.device; }
  friend void get_property(const Upstream&, cuda::mr::device_accessible) noexcept {}
};

class Theirs {
 public:
  Theirs(Kind kind, FakeDevice* device, const Sizes& sizes) {
    using Any = cuda::mr::any_resource<cuda::mr::device_accessible>;
    const Upstream upstream{device};
    const auto pool = [&] {
      return rmm::mr::pool_memory_resource{upstream, sizes.initial_bytes, sizes.bytes_max};
    };
    const auto fixed = [&](auto below) {
      return rmm::mr::fixed_size_memory_resource{below, sizes.block_bytes, sizes.block_count};
    };
    switch (kind) {
      case Kind::Pool:
        made_ = std::make_unique<Any>(pool());
        break;
      case Kind::Arena:
        made_ =
            std::make_unique<Any>(rmm::mr::arena_memory_resource{upstream, sizes.initial_bytes});
        break;
      case Kind::Fixed:
        made_ = std::make_unique<Any>(fixed(upstream));
        break;
      case Kind::FixedOnPool:
        made_ = std::make_unique<Any>(fixed(pool()));
        break;
      case Kind::Binning:
        made_ =
            std::make_unique<Any>(rmm::mr::binning_memory_resource{pool(), kBinLeast, kBinMost});
        break;
    }
  }
  void* allocate(std::size_t size_bytes, cudaStream_t stream) {
    return made_->allocate(cuda::stream_ref{stream}, size_bytes, 256);
  }
  void deallocate(void* pointer, std::size_t size_bytes, cudaStream_t stream) {
    made_->deallocate(cuda::stream_ref{stream}, pointer, size_bytes, 256);
  }

 private:
  std::unique_ptr<cuda::mr::any_resource<cuda::mr::device_accessible>> made_;
};
#else
class Upstream final : public rmm::mr::device_memory_resource {
 public:
  explicit Upstream(FakeDevice* device) : device_(device) {}

 private:
  void* do_allocate(std::size_t size_bytes, rmm::cuda_stream_view) override {
    return take(device_, size_bytes);
  }
  void do_deallocate(void* pointer, std::size_t, rmm::cuda_stream_view) noexcept override {
    give(device_, pointer);
  }
  FakeDevice* device_;
};

class Theirs {
 public:
  Theirs(Kind kind, FakeDevice* device, const Sizes& sizes) : upstream_(device) {
    using Pool = rmm::mr::pool_memory_resource<Upstream>;
    if (kind != Kind::Arena && kind != Kind::Fixed)
      pool_ = std::make_unique<Pool>(&upstream_, sizes.initial_bytes, sizes.bytes_max);
    auto* const pool = static_cast<Pool*>(pool_.get());
    if (kind == Kind::Arena)
      made_ = std::make_unique<rmm::mr::arena_memory_resource<Upstream>>(&upstream_,
                                                                         sizes.initial_bytes);
    if (kind == Kind::Fixed)
      made_ = std::make_unique<rmm::mr::fixed_size_memory_resource<Upstream>>(
          &upstream_, sizes.block_bytes, sizes.block_count);
    if (kind == Kind::FixedOnPool)
      made_ = std::make_unique<rmm::mr::fixed_size_memory_resource<Pool>>(pool, sizes.block_bytes,
                                                                          sizes.block_count);
    if (kind == Kind::Binning)
      made_ = std::make_unique<rmm::mr::binning_memory_resource<Pool>>(pool, kBinLeast, kBinMost);
    top_ = made_ ? made_.get() : pool_.get();
  }
  void* allocate(std::size_t size_bytes, cudaStream_t stream) {
    return top_->allocate(rmm::cuda_stream_view{stream}, size_bytes);
  }
  void deallocate(void* pointer, std::size_t size_bytes, cudaStream_t stream) {
    top_->deallocate(rmm::cuda_stream_view{stream}, pointer, size_bytes);
  }

 private:
  Upstream upstream_;
  std::unique_ptr<rmm::mr::device_memory_resource> pool_, made_;
  rmm::mr::device_memory_resource* top_ = nullptr;
};
#endif

class Ours {
 public:
  Ours(Kind kind, const Sizes& sizes) : device(sizes.capacity_bytes, sizes.capacity_bytes) {
    const ours::Site site{.driver = device, .counters = counters};
    const auto put = [&](auto made) { stack_.push_back(std::move(made)); };
    put(std::make_unique<ours::CudaMemory>(site));
    if (kind != Kind::Arena && kind != Kind::Fixed)
      put(std::make_unique<ours::Pool>(
          site, top(),
          ours::PoolOptions{.initial_bytes = sizes.initial_bytes, .bytes_max = sizes.bytes_max}));
    if (kind == Kind::Arena) put(std::make_unique<ours::Arena>(site, top(), sizes.initial_bytes));
    if (kind == Kind::Fixed || kind == Kind::FixedOnPool)
      put(std::make_unique<ours::FixedSize>(
          site, top(),
          ours::FixedSizeOptions{.block_bytes = sizes.block_bytes,
                                 .block_count = sizes.block_count}));
    if (kind == Kind::Binning)
      put(std::make_unique<ours::Binning>(
          site, top(), ours::Binning::Exponents{.least = kBinLeast, .most = kBinMost}, false));
  }
  ~Ours() {
    while (!stack_.empty()) stack_.pop_back();
  }
  bool open() {
    return std::ranges::all_of(stack_, [](const auto& resource) { return resource->open(); });
  }
  ours::Resource& top() { return *stack_.back(); }

  FakeDevice device;
  ours::Counters counters;

 private:
  std::vector<std::unique_ptr<ours::Resource>> stack_;
};

using Random = std::mt19937_64;

Sizes random_sizes(Kind kind, Random* random) {
  const auto below = [&](std::uint64_t end) { return (*random)() % end; };
  Sizes sizes;
  sizes.capacity_bytes = (32 + below(480)) * kMiBytes;
  sizes.initial_bytes = below(2) == 0 ? (1 + below(24)) * kMiBytes : (4 + below(1000)) * 256;
  sizes.block_bytes = (1 + below(256)) * 1024;
  sizes.block_count = 1 + below(40);
  if (kind == Kind::Arena)
    sizes.initial_bytes = (1 + below(sizes.capacity_bytes / kMiBytes - 1)) * kMiBytes;
  if (kind == Kind::FixedOnPool)
    sizes.initial_bytes = std::max(sizes.initial_bytes, sizes.block_bytes * sizes.block_count);
  if (kind == Kind::Binning) sizes.initial_bytes = std::max(sizes.initial_bytes, 5 * kMiBytes);
  if (kind != Kind::Arena && below(2) == 0)
    sizes.bytes_max = sizes.initial_bytes + below(sizes.capacity_bytes / 256) * 256;
  return sizes;
}

struct Totals {
  long operation_count = 0, request_count = 0, refused_count = 0, program_count = 0;
};

// False, after a line about it, where the two differ.
bool run_program(Kind kind, std::uint64_t seed, const std::vector<cudaStream_t>& streams,
                 Totals* totals) {
  Random random(seed);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  const Sizes sizes = random_sizes(kind, &random);
  FakeDevice their_device(sizes.capacity_bytes, sizes.capacity_bytes);
  Ours mine(kind, sizes);
  wait_count = 0;
  Theirs theirs(kind, &their_device, sizes);
  if (!mine.open()) return std::printf("seed %ju: only RMM opens\n", seed), false;
  struct Block {
    void* pointer;
    std::uint64_t size_bytes;
    std::uint64_t stream;
  };
  std::vector<Block> live;
  const std::uint64_t stream_count = 1 + below(streams.size());
  const std::uint64_t style = below(3);
  const bool is_fixed = kind == Kind::Fixed || kind == Kind::FixedOnPool;
  for (int i = 0; i < kProgramOperations; ++i, ++totals->operation_count) {
    if (live.empty() || below(100) < 54) {
      std::uint64_t size_bytes = 1 + below(std::uint64_t{1} << (style == 0 ? 16 : 2 + below(24)));
      if (is_fixed) size_bytes = 1 + below(sizes.block_bytes + sizes.block_bytes / 50);
      const std::uint64_t stream = below(stream_count);
      void* pointer = nullptr;
      try {
        pointer = theirs.allocate(size_bytes, streams[stream]);
      } catch (const std::bad_alloc&) {
        ++totals->refused_count;
      }
      const std::uint64_t address = mine.top().allocate(size_bytes, stream).value_or(0);
      ++totals->request_count;
      if (reinterpret_cast<std::uint64_t>(pointer) != address)
        return std::printf("seed %ju, operation %d: RMM gives %p, ours %#jx\n", seed, i, pointer,
                           address),
               false;
      if (pointer != nullptr) live.push_back({pointer, size_bytes, stream});
    } else {
      std::swap(live[below(live.size())], live.back());
      const Block block = live.back();
      live.pop_back();
      const std::uint64_t stream = below(10) == 0 ? below(stream_count) : block.stream;
      theirs.deallocate(block.pointer, block.size_bytes, streams[stream]);
      mine.top().deallocate(reinterpret_cast<std::uint64_t>(block.pointer), block.size_bytes,
                            stream);
    }
    if (their_device.used_bytes() != mine.device.used_bytes() ||
        wait_count != mine.counters.stream_wait_count)
      return std::printf("seed %ju, operation %d: waits or bytes of the device\n", seed, i), false;
  }
  for (const Block& block : live)
    theirs.deallocate(block.pointer, block.size_bytes, streams[block.stream]);
  ++totals->program_count;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const long operation_count = argc > 1 ? std::atol(argv[1]) : 100'000;
  const std::uint64_t seed_first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::vector<cudaStream_t> streams{nullptr, nullptr, nullptr, nullptr};
  for (std::size_t i = 1; i < streams.size(); ++i) {
    if (cudaStreamCreate(&streams[i]) != cudaSuccess) return 4;
  }
  for (const Kind kind : {Kind::Pool, Kind::Arena, Kind::Fixed, Kind::FixedOnPool, Kind::Binning}) {
    Totals totals;
    for (std::uint64_t seed = seed_first; totals.operation_count < operation_count; ++seed) {
      if (!run_program(kind, seed, streams, &totals)) return 1;
    }
    std::printf(
        "RMM %d.%02d, %s: %ld operations in %ld programs, %ld requests, %ld refused, 0 "
        "differences\n",
        RMM_VERSION_MAJOR, RMM_VERSION_MINOR, kKinds[static_cast<int>(kind)],
        totals.operation_count, totals.program_count, totals.request_count, totals.refused_count);
  }
}
