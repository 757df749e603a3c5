// The C interface between the `rmm` backend and the plugin that is built against an RMM
// installation. Kept apart from RMM so that the suite itself neither needs nor links it: the
// backend finds the plugin at run time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALLOCMARK_RMM_PLUGIN_VERSION 1

enum AllocmarkRmmStatus {
  kAllocmarkRmmOk = 0,
  kAllocmarkRmmOutOfMemory = 1,
  kAllocmarkRmmError = 2,  // last_error() says what
};

enum AllocmarkRmmResource {
  kAllocmarkRmmPool = 0,
  kAllocmarkRmmArena = 1,
  kAllocmarkRmmBinning = 2,
  kAllocmarkRmmFixedSize = 3,
  kAllocmarkRmmCudaAsync = 4,
};

typedef struct AllocmarkRmmOptions {
  int resource;            // AllocmarkRmmResource
  uint64_t initial_bytes;  // pool, arena, cuda_async: taken at the start; UINT64_MAX = default
  uint64_t bytes_max;      // pool: it grows no further; UINT64_MAX = default
  uint64_t release_threshold_bytes;  // cuda_async; UINT64_MAX = default
  uint64_t block_bytes;              // fixed_size: of every block
  uint64_t block_count;              // fixed_size: taken at a time
  int bin_exponent_min;              // binning: smallest and largest bin, powers of two
  int bin_exponent_max;
} AllocmarkRmmOptions;

typedef struct AllocmarkRmmUsage {
  uint64_t reserved_bytes;         // taken from the device and not given back
  uint64_t device_allocate_count;  // calls that took memory; 0 with cuda_async
  uint64_t device_free_count;
} AllocmarkRmmUsage;

typedef struct AllocmarkRmmPlugin {
  int version;               // ALLOCMARK_RMM_PLUGIN_VERSION
  const char* version_text;  // of RMM, "25.12.0"

  // A memory resource on the current device.
  int (*open)(const AllocmarkRmmOptions* options, void** instance);
  void (*close)(void* instance);
  int (*allocate)(void* instance, uint64_t size_bytes, void* stream, void** pointer);
  int (*deallocate)(void* instance, void* pointer, uint64_t size_bytes, void* stream);
  int (*usage)(void* instance, AllocmarkRmmUsage* usage);

  // Gives cached memory back where the resource can.
  int (*trim)(void* instance);

  // Makes librmm itself (not this plugin) call the CUDA runtime: whether that is the runtime of
  // this process or one linked into librmm is for the caller to find out.
  void (*call_runtime)(void);
  const char* (*last_error)(void);
} AllocmarkRmmPlugin;

// The one symbol a plugin exports.
const AllocmarkRmmPlugin* allocmark_rmm_plugin(void);

#ifdef __cplusplus
}
#endif
