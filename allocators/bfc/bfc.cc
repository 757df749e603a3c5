// The heap on cudaMalloc, its config keys and its three entries; see bfc.h.
#include "allocators/bfc/bfc.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "allocators/backend/pool_backend.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

using bfc::Handle;
using bfc::HeapOptions;
using bfc::Region;

// One of the three allocators.
struct Flavour {
  std::string_view name;  // of the rules
  std::string_view summary;
  std::vector<std::string> keys;
  double fraction = 1;  // of the memory that is free; 0: no limit
};

const Flavour& tf() {
  static const Flavour flavour{
      .name = "tf2.21",
      .summary = "TensorFlow 2.21's BFCAllocator, rebuilt: best fit with coalescing",
      .keys = {"fraction", "allow_growth", "garbage_collection", "fragmentation_fraction"},
      .fraction = 1};
  return flavour;
}

const Flavour& xla() {
  static const Flavour flavour{
      .name = "xla-2026-09",
      .summary = "the BFCAllocator of XLA and JAX of September 2026, rebuilt",
      .keys = {"fraction", "preallocate", "spatial_partitioning", "garbage_collection",
               "fragmentation_fraction"},
      .fraction = 0.75};
  return flavour;
}

const Flavour& ort() {
  static const Flavour flavour{
      .name = "ort1.32",
      .summary = "the arena (BFCArena) of ONNX Runtime 1.32's CUDA provider, rebuilt",
      .keys = {"limit_mb", "fraction", "strategy", "initial_chunk_mb", "initial_growth_mb",
               "max_dead_mb", "max_extend_mb"},
      .fraction = 0};
  return flavour;
}

struct BfcConf {
  HeapOptions heap;  // its limit: that of the config string; 0: none
  double fraction = 1;
  std::optional<bool> partitions = std::nullopt;  // where the string says
};

// A key of ONNX Runtime's arena.
void read_arena_key(ConfReader& reader, const ConfPair& pair, HeapOptions* heap) {
  // Three of them are an int of bytes; beyond the last one's end doubling would wrap.
  constexpr ConfRange kIntRange{.lowest = 1, .highest = 2047};
  constexpr ConfRange kRange{.lowest = 1, .highest = kDeviceRequestBytesMax / kMiB};
  const auto bytes = [&](const ConfRange& range) { return reader.number(pair, range) * kMiB; };
  bfc::ArenaRules& arena = heap->arena;
  if (pair.key == "limit_mb") heap->limit_bytes = bytes(kRange);
  if (pair.key == "initial_chunk_mb") heap->first_region_bytes = bytes(kIntRange);
  if (pair.key == "initial_growth_mb") arena.regrowth_bytes = bytes(kIntRange);
  if (pair.key == "max_dead_mb") heap->rest_bytes_max = bytes(kIntRange);
  if (pair.key == "max_extend_mb") arena.doubling_bytes_max = bytes(kRange);
  if (pair.key == "strategy") {
    arena.takes_as_requested = reader.word(pair, {"power_of_two", "as_requested"}) == 1;
    arena.keeps_first_region = !arena.takes_as_requested;
  }
}

void read_key(ConfReader& reader, const ConfPair& pair, BfcConf& conf) {
  if (pair.key == "fraction") conf.fraction = reader.fraction(pair, false);
  if (pair.key == "allow_growth") conf.heap.allow_growth = reader.boolean(pair);
  if (pair.key == "preallocate") conf.heap.allow_growth = !reader.boolean(pair);
  if (pair.key == "garbage_collection") conf.heap.garbage_collection = reader.boolean(pair);
  if (pair.key == "fragmentation_fraction")
    conf.heap.fragmentation_fraction = reader.fraction(pair, true);
  if (pair.key == "spatial_partitioning") conf.partitions = reader.boolean(pair);
  read_arena_key(reader, pair, &conf.heap);
  if (conf.heap.limit_bytes > 0 && conf.fraction > 0)
    reader.fail(pair, "limit_mb or fraction, not both");
}

// Two ends need memory whose place is known from the start; XLA leaves them without.
void check_partitions(ConfReader& reader, const std::vector<ConfPair>& pairs, BfcConf& conf) {
  if (conf.heap.allow_growth) conf.heap.spatial_partitioning = false;
  if (!conf.partitions) return;
  if (*conf.partitions && conf.heap.allow_growth) {
    reader.fail(pairs.back(), "no spatial_partitioning:True with preallocate:False");
  }
  conf.heap.spatial_partitioning = *conf.partitions;
}

ConfFormat<BfcConf> conf_format(const Flavour& flavour) {
  ConfFormat<BfcConf> format{
      .defaults = {.heap = bfc::rules_of(flavour.name), .fraction = flavour.fraction},
      .check = check_partitions};
  for (const std::string& key : flavour.keys) format.keys.push_back({key, read_key});
  return format;
}

class CudaMallocSource final : public bfc::Source {
 public:
  std::optional<Region> take(std::uint64_t /*alignment_bytes*/, std::uint64_t size_bytes) override {
    const std::optional<std::uint64_t> address = take_device_memory(size_bytes);
    if (address) return Region{.address = *address, .size_bytes = size_bytes};
    ++refusal_count_;
    return std::nullopt;
  }
  void give(const Region& region) override { give_device_memory(region.address); }
  // Times that the device had less than was asked for.
  [[nodiscard]] std::uint64_t refusal_count() const { return refusal_count_; }

 private:
  std::uint64_t refusal_count_ = 0;
};

// As PoolBackend has it.
class BfcPool {
 public:
  explicit BfcPool(const HeapOptions& options)
      : limit_bytes_(options.limit_bytes),
        end_(options.spatial_partitioning ? bfc::End::Upper : bfc::End::Lower),
        heap_(options, source_) {}

  // The stream plays no part: TensorFlow and XLA run all kernels on one, and so does a session of
  // ONNX Runtime. Blocks the host only as cudaMalloc does, for a new region, and as cudaFree does,
  // where garbage_collection gives one back.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream /*stream*/) {
    return heap_.allocate({.size_bytes = size_bytes, .end = end_});
  }

  // Blocks the host until the streams are done that record_stream named for the block; TensorFlow
  // and XLA keep such a block until then.
  [[nodiscard]] bool deallocate(std::uint64_t address, cudaStream_t /*stream*/,
                                std::span<const cudaStream_t> others) {
    const Handle handle = heap_.chunks().find(address);
    if (handle == bfc::kNoChunk || !heap_.chunks().at(handle).in_use()) return false;
    wait_for_streams(others);
    heap_.deallocate(address);
    return true;
  }

  // ONNX Runtime's Shrink; the others have no call that gives memory back.
  void trim() { heap_.shrink(); }

  [[nodiscard]] MemoryStats totals() const {
    const auto in_use_bytes = static_cast<std::uint64_t>(heap_.counters().bytes_in_use);
    return {
        .allocated_bytes = in_use_bytes,
        .active_bytes = in_use_bytes,
        .reserved_bytes = static_cast<std::uint64_t>(heap_.counters().pool_bytes),
        .free_other_streams_bytes = 0,
        .free_largest_bytes = heap_.free_bytes_largest(),
        .device_allocate_count = heap_.region_count(),
        .device_free_count = heap_.collected_count(),
        .retry_count = source_.refusal_count(),
        .synchronize_all_count = 0,
        .limit_bytes = limit_bytes_ == bfc::kNoLimit ? std::nullopt : std::optional(limit_bytes_)};
  }

  // All streams see the same.
  void add_free(MemoryStats& /*stats*/, caching::Stream /*stream*/) const {}

  // As TensorFlow's AllocatorStats names them, no limit as -1; then regions given back for a
  // request, and requests that TensorFlow 2.21 would not have come back from.
  [[nodiscard]] std::vector<NamedCounter> counters() const {
    const bfc::HeapCounters& counters = heap_.counters();
    return {{"num_allocs", counters.num_allocs},
            {"bytes_in_use", counters.bytes_in_use},
            {"peak_bytes_in_use", counters.peak_bytes_in_use},
            {"largest_alloc_size", counters.largest_alloc_size},
            named_counter("bytes_limit", limit_bytes_),
            {"pool_bytes", counters.pool_bytes},
            {"peak_pool_bytes", counters.peak_pool_bytes},
            named_counter("largest_free_block_bytes", heap_.free_bytes_largest()),
            named_counter("collected_regions", heap_.collected_count()),
            named_counter("endless_requests", heap_.endless_count())};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const {
    const bfc::Chunks& chunks = heap_.chunks();
    std::vector<MemorySegment> segments;
    for (const Region& region : chunks.regions()) {
      MemorySegment& segment = segments.emplace_back(MemorySegment{
          .address = region.address, .size_bytes = region.size_bytes, .is_large = true});
      for (Handle at = chunks.find(region.address); at != bfc::kNoChunk; at = chunks.at(at).next) {
        const bfc::Chunk& chunk = chunks.at(at);
        add_block(segment, {.address = chunk.address,
                            .size_bytes = chunk.size_bytes,
                            .state = used_state(chunk.in_use())});
      }
    }
    return segments;
  }

 private:
  std::uint64_t limit_bytes_;
  bfc::End end_;
  CudaMallocSource source_;
  bfc::Heap heap_;
};

std::uint64_t limit_of(const BfcConf& conf, std::uint64_t memory_limit_bytes) {
  if (memory_limit_bytes != 0) return memory_limit_bytes;
  if (conf.fraction > 0) return share_of_free_memory(conf.fraction);
  return conf.heap.limit_bytes > 0 ? conf.heap.limit_bytes : bfc::kNoLimit;
}

BackendEntry entry_of(const Flavour& flavour) {
  const ConfFormat<BfcConf> format = conf_format(flavour);
  const auto make = [](BfcConf& conf, const BackendOptions& options) {
    conf.heap.limit_bytes = limit_of(conf, options.memory_limit_bytes);
    return std::make_unique<PoolBackend<BfcPool>>("bfc backend", conf.heap);
  };
  return {.name = "bfc@" + std::string(flavour.name),
          .summary = std::string(flavour.summary),
          .capabilities = {.any_thread = true,
                           .honours_memory_limit = true,
                           .limit_is_share_of_free = flavour.fraction > 0},
          .conf_keys = flavour.keys,
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make)};
}

}  // namespace

namespace bfc {

HeapOptions rules_of(std::string_view name) {
  // What TensorFlow's devices are made with.
  if (name == "tf2.21") return {.allow_growth = false, .garbage_collection = true};
  // The defaults of OrtArenaCfg.
  if (name == "ort1.32") {
    return {.allow_growth = true,
            .first_region_bytes = kMiB,
            .ends_backpedal = true,
            .arena = {.takes_as_requested = false,
                      .doubling_bytes_max = kGiB,
                      .doubles_first = true,
                      .asked_bytes_min = 8 * kKiB,
                      .regrowth_bytes = 2 * kMiB,
                      .keeps_first_region = true}};
  }
  // What XLA's GPU client makes its shared pool with: collective memory at the lower end, all other
  // at the upper one.
  return {.allow_growth = false,
          .garbage_collection = false,
          .aligns = true,
          .ends_backpedal = true,
          .spatial_partitioning = true,
          .lower = {.descending = false, .hole = Split::Exact, .gap = Split::Exact},
          .upper = {.descending = true, .hole = Split::RetainPadding, .gap = Split::RetainPadding}};
}

}  // namespace bfc

BackendEntry bfc_tf_entry() { return entry_of(tf()); }
BackendEntry bfc_xla_entry() { return entry_of(xla()); }
BackendEntry bfc_ort_entry() { return entry_of(ort()); }

}  // namespace allocmark
