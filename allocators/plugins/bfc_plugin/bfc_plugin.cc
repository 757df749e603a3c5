// TensorFlow's or XLA's own BFCAllocator behind the functions of plugin.h. Compiled against the
// headers of a wheel (scripts/build/fetch_tensorflow.sh), and loaded with that wheel's library.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "allocators/plugins/bfc_plugin/plugin.h"
#include "xla/tsl/framework/bfc_allocator.h"
#include "xla/tsl/framework/shared_counter.h"
#include "xla/tsl/protobuf/bfc_memory_map.pb.h"

// XLA's since April 2026 keeps alignments, since June 2026 it serves from two ends.
#if __has_include("xla/tsl/framework/scoped_allocation_trace.h")
#define ALLOCMARK_BFC_OF_XLA 1
#endif

namespace {

class CallerSource final : public tsl::SubAllocator {
 public:
  CallerSource(const AllocmarkBfcSource& source, bool joins_regions)
      : SubAllocator({}, {}), source_(source), joins_regions_(joins_regions) {}

  void* Alloc(size_t alignment, size_t size_bytes, size_t* received_bytes) override {
    std::uint64_t received = size_bytes;
    const std::uint64_t address = source_.take(source_.context, alignment, size_bytes, &received);
    *received_bytes = received;
    return reinterpret_cast<void*>(address);
  }
  void Free(void* pointer, size_t size_bytes) override {
    source_.give(source_.context, reinterpret_cast<std::uint64_t>(pointer), size_bytes);
  }
  bool SupportsCoalescing() const override { return joins_regions_; }

 private:
  AllocmarkBfcSource source_;
  bool joins_regions_;
};

struct Allocator {
  tsl::SharedCounter clock;
  std::unique_ptr<tsl::BFCAllocator> bfc;
};

#ifdef ALLOCMARK_BFC_OF_XLA
tsl::BFCAllocator::AllocationPolicy policy_of(const int (&end)[3]) {
  using Bfc = tsl::BFCAllocator;
  return {end[0] != 0 ? Bfc::HoleOrder::kDescendingAddress : Bfc::HoleOrder::kAscendingAddress,
          end[1] != 0 ? Bfc::SplitPolicy::kExact : Bfc::SplitPolicy::kRetainPadding,
          end[2] != 0 ? Bfc::SplitPolicy::kExact : Bfc::SplitPolicy::kRetainPadding};
}
#endif

void* create(const AllocmarkBfcOptions* options, const AllocmarkBfcSource* source) {
  tsl::BFCAllocator::Options bfc;
  bfc.allow_growth = options->allow_growth != 0;
  // Else a request that fails would wait ten seconds for another thread's free.
  bfc.allow_retry_on_failure = false;
  bfc.garbage_collection = options->garbage_collection != 0;
  bfc.fragmentation_fraction = options->fragmentation_fraction;
#ifdef ALLOCMARK_BFC_OF_XLA
  bfc.enable_spatial_partitioning = options->spatial_partitioning != 0;
  bfc.lower_end_policy = policy_of(options->lower);
  bfc.upper_end_policy = policy_of(options->upper);
#endif
  auto made = std::make_unique<Allocator>();
  made->bfc = std::make_unique<tsl::BFCAllocator>(
      std::make_unique<CallerSource>(*source, options->joins_regions != 0), options->limit_bytes,
      "allocmark", bfc);
  if (options->timestamps != 0) made->bfc->SetTimingCounter(&made->clock);
  return made.release();
}

tsl::BFCAllocator& bfc_of(void* allocator) { return *static_cast<Allocator*>(allocator)->bfc; }
void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

void destroy(void* allocator) { delete static_cast<Allocator*>(allocator); }

std::uint64_t allocate(void* allocator, const AllocmarkBfcRequest* request) {
  std::function<std::uint64_t()> freed_by = [request] { return request->freed_before; };
  // No retry: a failure is no reason to write all chunks to the log.
  const tsl::AllocationAttributes attributes(
      false, true, request->freed_before == 0 ? nullptr : &freed_by
#ifdef ALLOCMARK_BFC_OF_XLA
      ,
      request->upper_end != 0 ? tsl::AllocationEnd::kUpper : tsl::AllocationEnd::kLower
#endif
  );
  return reinterpret_cast<std::uint64_t>(
      bfc_of(allocator).AllocateRaw(request->alignment_bytes, request->size_bytes, attributes));
}

void deallocate(void* allocator, std::uint64_t address) {
  bfc_of(allocator).DeallocateRaw(pointer_to(address));
}

void chunk(void* allocator, std::uint64_t address, AllocmarkBfcChunk* chunk) {
  const tsl::BFCAllocator& bfc = bfc_of(allocator);
  chunk->size_bytes = bfc.AllocatedSize(pointer_to(address));
  chunk->requested_bytes = bfc.RequestedSize(pointer_to(address));
  chunk->allocation_id = bfc.AllocationId(pointer_to(address));
}

void set_safe_frontier(void* allocator, std::uint64_t count) {
  bfc_of(allocator).SetSafeFrontier(count);
}

void counters(void* allocator, AllocmarkBfcCounters* counters) {
  const tsl::AllocatorStats stats = *bfc_of(allocator).GetStats();
  *counters = {.num_allocs = stats.num_allocs,
               .bytes_in_use = stats.bytes_in_use,
               .peak_bytes_in_use = stats.peak_bytes_in_use,
               .largest_alloc_size = stats.largest_alloc_size,
               .pool_bytes = stats.pool_bytes.value_or(0),
               .peak_pool_bytes = stats.peak_pool_bytes.value_or(0)};
}

void clear_peaks(void* allocator) { (void)bfc_of(allocator).ClearStats(); }

void map(void* allocator, void* context,
         void (*add)(void* context, const AllocmarkBfcMapped* chunk)) {
  const tensorflow::MemoryDump dump = bfc_of(allocator).RecordMemoryMap();
  for (const tensorflow::MemChunk& chunk : dump.chunk()) {
    const AllocmarkBfcMapped mapped{
        .address = chunk.address(),
        .size_bytes = static_cast<std::uint64_t>(chunk.size()),
        .requested_bytes = static_cast<std::uint64_t>(chunk.requested_size()),
        .freed_at = chunk.freed_at_count(),
        .in_use = chunk.in_use() ? 1 : 0,
        .bin = chunk.bin()};
    add(context, &mapped);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* allocmark_bfc_plugin() {
  static const AllocmarkBfcPlugin plugin{.version = ALLOCMARK_BFC_PLUGIN_VERSION,
#ifdef ALLOCMARK_BFC_OF_XLA
                                         .rules = "xla-2026-09",
#else
                                         .rules = "tf2.21",
#endif
                                         .create = create,
                                         .destroy = destroy,
                                         .allocate = allocate,
                                         .deallocate = deallocate,
                                         .chunk = chunk,
                                         .set_safe_frontier = set_safe_frontier,
                                         .counters = counters,
                                         .clear_peaks = clear_peaks,
                                         .map = map};
  return &plugin;
}
