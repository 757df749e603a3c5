// The C interface between allocmark and its plugin over the BFCAllocator of TensorFlow or XLA. The
// memory is the caller's: numbers, which nobody reads or writes behind. One thread.
#pragma once

#include <stdint.h>

#define ALLOCMARK_BFC_PLUGIN_VERSION 1

// Where an allocator's regions come from.
struct AllocmarkBfcSource {
  void* context;
  // The address; 0: no memory.
  uint64_t (*take)(void* context, uint64_t alignment_bytes, uint64_t size_bytes,
                   uint64_t* received_bytes);
  void (*give)(void* context, uint64_t address, uint64_t size_bytes);
};

// Flags are 0 or 1. Of an end: 1 for descending, and for exact splits of holes and of the gap.
struct AllocmarkBfcOptions {
  uint64_t limit_bytes;
  double fragmentation_fraction;
  int allow_growth;
  int garbage_collection;
  int joins_regions;
  int timestamps;
  int spatial_partitioning;
  int lower[3];
  int upper[3];
};

struct AllocmarkBfcCounters {
  int64_t num_allocs;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  int64_t largest_alloc_size;
  int64_t pool_bytes;
  int64_t peak_pool_bytes;
};

struct AllocmarkBfcChunk {
  uint64_t size_bytes;
  uint64_t requested_bytes;
  int64_t allocation_id;
};

// A chunk as the allocator's own memory map has it; bin -1: in none.
struct AllocmarkBfcMapped {
  uint64_t address;
  uint64_t size_bytes;
  uint64_t requested_bytes;
  uint64_t freed_at;  // of a free one
  int in_use;
  int bin;
};

struct AllocmarkBfcRequest {
  uint64_t size_bytes;
  uint64_t alignment_bytes;
  uint64_t freed_before;
  int upper_end;
};

struct AllocmarkBfcPlugin {
  int version;
  const char* rules;  // "tf2.21" or "xla-2026-09"
  void* (*create)(const struct AllocmarkBfcOptions* options,
                  const struct AllocmarkBfcSource* source);
  void (*destroy)(void* allocator);
  // The address; 0: refused.
  uint64_t (*allocate)(void* allocator, const struct AllocmarkBfcRequest* request);
  void (*deallocate)(void* allocator, uint64_t address);
  void (*chunk)(void* allocator, uint64_t address, struct AllocmarkBfcChunk* chunk);
  void (*set_safe_frontier)(void* allocator, uint64_t count);
  void (*counters)(void* allocator, struct AllocmarkBfcCounters* counters);
  void (*clear_peaks)(void* allocator);
  // Hands over every chunk, by address.
  void (*map)(void* allocator, void* context,
              void (*add)(void* context, const struct AllocmarkBfcMapped* chunk));
};
