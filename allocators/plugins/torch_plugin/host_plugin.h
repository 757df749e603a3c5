// The second C interface of the torch plugin: PyTorch's cache of pinned host memory, as the header
// of the release has it, on a machine that the caller brings. Nothing of CUDA is called. Optional:
// a plugin that was built without that header does not export it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "allocators/plugins/torch_plugin/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ALLOCMARK_TORCH_HOST_PLUGIN_VERSION 1

// What the cache asks of the machine, as HostDriver has it (allocators/host_caching). `context` is
// handed back; `registers` is 1 for memory that cudaHostRegister would pin.
typedef struct AllocmarkHostMachine {
  void* context;
  uint64_t (*pin)(void* context, uint64_t size_bytes, int registers, uint64_t thread_count);
  void (*unpin)(void* context, uint64_t address, int registers);
  uint64_t (*record_event)(void* context, uint64_t stream);
  int (*event_done)(void* context, uint64_t event);
  void (*destroy_event)(void* context, uint64_t event);
} AllocmarkHostMachine;

// Functions with a result return an AllocmarkPluginStatus.
typedef struct AllocmarkTorchHostPlugin {
  int version;  // ALLOCMARK_TORCH_HOST_PLUGIN_VERSION

  // Once per process, before all others. The machine must outlive the process's last call; what is
  // pinned is never given back at the end.
  int (*open)(const AllocmarkHostMachine* machine);
  // PyTorch's _set_allocator_settings.
  int (*configure)(const char* conf);

  // `address` 0: nothing was asked for. `block_bytes` is what the block has.
  int (*allocate)(uint64_t size_bytes, uint64_t* address, uint64_t* block_bytes);
  // `known` is 0 where no block of the cache begins there. Streams are numbers below 3: PyTorch
  // takes a block's streams in the order of a hash, which for these is their order.
  int (*use)(uint64_t address, uint64_t stream, int* known);
  int (*deallocate)(uint64_t address);
  int (*empty_cache)(void);
  // What the background thread does every 100 us, once a request has started it. The thread itself
  // is kept from running.
  int (*background_pass)(void);
  // A capture on the current stream into the pool {0, id}; since 2.11.
  int (*begin_capture)(uint64_t id);
  int (*end_capture)(uint64_t id);
  int (*release_pool)(uint64_t id);

  int (*reset_peak)(void);
  int (*reset_accumulated)(void);
  // Counter number `index` (from 0) by PyTorch's host_memory_stats() name, sorted; 0 after the last
  // one. Of times only how often they were taken.
  int (*counter)(size_t index, const char** name, int64_t* value);

  const char* (*last_error)(void);
} AllocmarkTorchHostPlugin;

const AllocmarkTorchHostPlugin* allocmark_torch_host_plugin(void);

#ifdef __cplusplus
}
#endif
