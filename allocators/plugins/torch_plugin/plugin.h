// The C interface between the `torch` backend and the plugin that is built against a PyTorch
// installation. Kept apart from c10 so that the suite itself neither needs nor links PyTorch: the
// backend finds the plugin at run time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALLOCMARK_TORCH_PLUGIN_VERSION 6

// Every plugin holds this text, then its PyTorch's version, "; libc10_cuda " and the build id of
// the library that it was built against, "; interface " and ALLOCMARK_TORCH_PLUGIN_VERSION.
#define ALLOCMARK_TORCH_IDENTITY_MARK "allocmark plugin of PyTorch "

enum AllocmarkPluginStatus {
  kAllocmarkPluginOk = 0,
  kAllocmarkPluginOutOfMemory = 1,
  kAllocmarkPluginError = 2,  // last_error() says what
};

// One segment of PyTorch's snapshot.
typedef struct AllocmarkPluginSegment {
  uint64_t address, size_bytes;
  uint64_t pool;             // the private pool that has it; 0: none
  uint64_t allocated_bytes;  // held by callers
  int is_large, is_expandable;
} AllocmarkPluginSegment;

// c10's functions of private pools; `flag` and `stream` as PoolCall has them
// (allocators/backend/backend.h), whose actions these are, in their order.
enum AllocmarkPluginPoolAction {
  kAllocmarkPluginPoolCreate = 0,
  kAllocmarkPluginPoolBegin = 1,
  kAllocmarkPluginPoolEnd = 2,
  kAllocmarkPluginPoolRelease = 3,
  kAllocmarkPluginPoolUseOnOom = 4,
  kAllocmarkPluginPoolNoSplit = 5,
  kAllocmarkPluginPoolTrim = 6,
  kAllocmarkPluginPoolCaptureBegin = 7,
  kAllocmarkPluginPoolCaptureEnd = 8,
};

// Of all pools together.
typedef struct AllocmarkPluginTotals {
  int64_t allocated_bytes, active_bytes, reserved_bytes;
  int64_t device_allocate_count, device_free_count, retry_count, synchronize_all_count;
} AllocmarkPluginTotals;

typedef struct AllocmarkTorchPlugin {
  int version;  // ALLOCMARK_TORCH_PLUGIN_VERSION

  // Starts the allocator on the current device; `memory_limit_bytes` 0 means none. c10 reads its
  // config string from the environment when it is loaded, once per process.
  int (*open)(uint64_t memory_limit_bytes);
  // Gives cached memory back and zeroes the counters, so that the next open finds a fresh
  // allocator.
  void (*close)(void);

  // Changes of a running allocator: PyTorch's _set_allocator_settings, and the memory limit (0:
  // none).
  int (*configure)(const char* conf);
  int (*limit)(uint64_t memory_limit_bytes);

  int (*allocate)(uint64_t size_bytes, void* stream, void** pointer);
  int (*deallocate)(void* pointer);
  int (*record_stream)(void* pointer, void* stream);
  int (*trim)(void);
  // One AllocmarkPluginPoolAction on the pool of that id, which is {0, id} in c10.
  int (*pool)(int action, uint64_t id, void* stream, int flag);

  // Counter number `index` (from 0) by PyTorch's memory_stats() name; 0 after the last one.
  int (*counter)(size_t index, const char** name, int64_t* value);
  int (*totals)(AllocmarkPluginTotals* totals);
  // Segment number `index` (from 0) by address; 0 after the last one.
  int (*segment)(size_t index, AllocmarkPluginSegment* segment);
  // Largest cached block that a request on `stream` could use, and bytes cached for other streams.
  int (*cached)(void* stream, uint64_t* free_largest_bytes, uint64_t* free_other_streams_bytes);

  // The text of the last kAllocmarkPluginError or kAllocmarkPluginOutOfMemory.
  const char* (*last_error)(void);
  const char* (*version_text)(void);  // "2.11.0"
} AllocmarkTorchPlugin;

// A plugin exports this, and what host_plugin.h has.
const AllocmarkTorchPlugin* allocmark_torch_plugin(void);

#ifdef __cplusplus
}
#endif
