// Bugs of RMM's memory resources, each shown on simcuda by the class itself, with the headers of
// the release that it is compiled against. scripts/measure/library_museum.py runs it. The upstream
// resource is our own, so that every CUDA call reaches simcuda: the library of the wheels has a
// runtime of its own inside.
#include <cuda_runtime.h>

#if __has_include(<rmm/mr/tracking_resource_adaptor.hpp>)
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/mr/tracking_resource_adaptor.hpp>
#else
#include <rmm/mr/device/arena_memory_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>
#include <rmm/mr/device/statistics_resource_adaptor.hpp>
#include <rmm/mr/device/tracking_resource_adaptor.hpp>
#endif

#include "tests/museum/fence.h"
#include "tests/museum/probe.h"

namespace {

using museum::make_stream;

constexpr std::size_t kBytes = 2 << 20;

class Upstream final : public rmm::mr::device_memory_resource {
  void* do_allocate(std::size_t size_bytes, rmm::cuda_stream_view /*stream*/) override {
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, size_bytes) != cudaSuccess) throw rmm::out_of_memory("cudaMalloc");
    return pointer;
  }
  void do_deallocate(void* pointer, std::size_t /*size_bytes*/,
                     rmm::cuda_stream_view /*stream*/) noexcept override {
    (void)cudaFree(pointer);
  }
};

// From 25.12 on the stream comes first.
template <class Resource>
void* take(Resource& resource, cudaStream_t stream, std::size_t size_bytes = kBytes) {
  const rmm::cuda_stream_view view(stream);
  if constexpr (requires { resource.allocate(view, size_bytes); }) {
    return resource.allocate(view, size_bytes);
  } else {
    return resource.allocate(size_bytes, view);
  }
}
template <class Resource>
void give(Resource& resource, void* pointer, cudaStream_t stream, std::size_t size_bytes = kBytes) {
  const rmm::cuda_stream_view view(stream);
  if constexpr (requires { resource.deallocate(view, pointer, size_bytes); }) {
    resource.deallocate(view, pointer, size_bytes);
  } else {
    resource.deallocate(pointer, size_bytes, view);
  }
}

// One thread frees, another asks; then one block is live.
std::string tracking_forgets() {
  struct Stage {
    Upstream upstream;
    rmm::mr::tracking_resource_adaptor<Upstream> tracking{&upstream};
    void* freed = take(tracking, nullptr);
  };
  return museum::search([] {
    auto* const stage = new Stage;
    return museum::Try{.first = [stage] { give(stage->tracking, stage->freed, nullptr); },
                       .second = [stage] { (void)take(stage->tracking, nullptr); },
                       .look = [stage](const std::string& place) -> std::string {
                         const std::size_t count =
                             stage->tracking.get_outstanding_allocations().size();
                         if (count == 1) return {};
                         return "deallocate stood at " + place +
                                "; another thread allocated; one block is live, and " +
                                std::to_string(count) + " are known";
                       }};
  });
}

std::string statistics_peak() {
  struct Stage {
    Upstream upstream;
    rmm::mr::statistics_resource_adaptor<Upstream> statistics{&upstream};
    void* freed = take(statistics, nullptr);
    void* taken = nullptr;
  };
  return museum::search([] {
    auto* const stage = new Stage;
    return museum::Try{.first = [stage] { give(stage->statistics, stage->freed, nullptr); },
                       .second = [stage] { stage->taken = take(stage->statistics, nullptr); },
                       .look = [stage](const std::string& place) -> std::string {
                         const auto peak_bytes = stage->statistics.get_bytes_counter().peak;
                         // The other thread got the same memory, so the two blocks never were live
                         // at once.
                         if (stage->taken != stage->freed || peak_bytes <= std::int64_t{kBytes})
                           return {};
                         return "deallocate stood at " + place +
                                "; another thread got the same memory; the peak " + "says " +
                                std::to_string(peak_bytes >> 20) + " MiB, and 2 MiB were live";
                       }};
  });
}

// Ends the process where the erased entry is read.
std::string tracking_reads_erased() {
  museum::begin_fence();
  Upstream upstream;
  rmm::mr::tracking_resource_adaptor<Upstream> tracking{&upstream};
  give(tracking, take(tracking, nullptr), nullptr);
  return {};
}

// A stream is destroyed while its kernel runs, and a new one gets its handle.
std::string stream_handle_reused() {
  auto& upstream = *new Upstream;
  auto& pool = *new rmm::mr::pool_memory_resource<Upstream>(upstream, std::size_t{64} << 20);
  cudaStream_t const old_stream = make_stream();
  void* const used = take(pool, old_stream);
  simcu::require(SIMCU(simcu_order_begin)() == 0);
  const SimcuBlock block{used, kBytes, 1, 1};
  SimcuUnorderedUse former{};
  (void)SIMCU(simcu_order_take)(&block, old_stream, &former);
  simcu::require(SIMCU(simcu_launch)(old_stream, 1'000'000'000) == 0);
  void* streams[] = {old_stream};
  SIMCU(simcu_order_give_back)(&block, streams, 1);
  give(pool, used, old_stream);
  MUSEUM_CHECK(cudaStreamDestroy(old_stream));
  cudaStream_t new_stream = make_stream();
  for (int i = 0; i < 64 && new_stream != old_stream; ++i) new_stream = make_stream();
  if (new_stream != old_stream) throw std::runtime_error("no new stream got the old handle");
  void* const again = take(pool, new_stream);
  const SimcuBlock block_again{again, kBytes, 2, 2};
  if (again != used || SIMCU(simcu_order_take)(&block_again, new_stream, &former) == 0) return {};
  return "a stream was destroyed with its kernel running; a new stream with its handle got the " +
         std::string("kernel's block, unordered");
}

constexpr museum::Bug kBugs[] = {
    {"tracking_forgets", tracking_forgets},
    {"statistics_peak", statistics_peak},
    {"tracking_reads_erased", tracking_reads_erased},
    {"stream_handle_reused", stream_handle_reused},
};

}  // namespace

int main(int argc, char** argv) { return museum::main_of(kBugs, argc, argv); }
