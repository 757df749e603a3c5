/// @file
/// The control interface of simcuda, the simulated CUDA runtime. Found at run time by
/// dlsym(RTLD_DEFAULT, NAME), so that one binary runs with the real runtime (every lookup gives
/// null) or with the simulated one. C, and stable: functions are added, never changed. simcu_test.h
/// makes tests in C++ shorter.
///
/// - **Threads**: every function may be called from any thread.
/// - **Units**: sizes are bytes, times ns of virtual time. A stream is a cudaStream_t.
/// - **Ownership**: strings and pointers that are returned belong to simcuda. A string stays valid
///   until the same function is called again (simcu_last_message: until this thread's next call).
///   What the caller passes stays the caller's, and is not kept beyond the call unless said below.
/// - **Errors**: a function that returns int gives 0 or a cudaError_t, unless said below, and then
///   simcu_last_message() says what was wrong.
/// - **Order**: no function waits for a stream, unless said below.
///
/// @par Environment
/// Read when the library loads:
/// @verbatim
/// SIMCUDA_PROFILE   name ("h200") or path of a profile file; default h200
/// SIMCUDA_START     what the process did before its first request: plain (default), kernel (one of
///                   its kernels is loaded), c10 (PyTorch's allocator library and 7 streams); it
///                   decides where the first blocks lie
/// SIMCUDA_DEVICES   number of simulated GPUs, default 1
/// CUDA_VISIBLE_DEVICES  which of them CUDA shows, and in which order, as for a GPU's driver; NVML
///                   shows all. Read at the first call that needs a device
/// SIMCUDA_PEERS     1 (default): each may be given access to the others' memory; 0: none may
/// SIMCUDA_CAPACITY_BYTES  memory of each GPU that programs can take (whole 2 MiB pages of it; what
///                   the context takes comes on top, so cudaMemGetInfo's total is larger); default:
///                   the profile's
/// SIMCUDA_TOTAL_BYTES  memory of each GPU as cudaMemGetInfo says it, from 1 GiB; what the context
///                   takes comes out of it; default: the profile's. Not with the one before
/// SIMCUDA_HOST_RESERVE_BYTES  the GPUs have no memory but the host's, which hangs with less than
///                   that available
/// SIMCUDA_HOST_BYTES  of it, what other programs of the host hold; default 0
/// SIMCUDA_HOST_CACHE_BYTES  page cache in the GPUs' memory: cudaMemGetInfo does not call it free,
///                   and every request gets it; default 0
/// SIMCUDA_NODE      any text; UUIDs and serial numbers of the GPUs follow from it, so that two
///                   machines can be told apart
/// SIMCUDA_NAME      name of the GPUs instead of the profile's
/// SIMCUDA_HOST_CACHES  what calls leave in the host's caches: cold (default), as a driver does;
///                   warm, for programs of which nobody takes host time: simulated calls are then
///                   up to three times as fast
/// SIMCUDA_COSTS     what a call takes: drawn (default), from what was measured; mean, the mean
///                   below P99 at every call, so that equal calls cost the same
/// SIMCUDA_FAIL      faults, as simcu_fail_calls() plans them: "cudaMalloc:3:1:2;..."
/// SIMCUDA_CALL_LOG  path of a file, as for simcu_call_log()
/// SIMCUDA_GPU_FAULTS  what is wrong with the GPUs: "GPU:KEY=NUMBER;...". Keys:
///   lost_at=N       the GPU falls off the bus with the process's Nth call for it; lost_file=/FILE
///                   makes that lasting: processes that start once the file exists find it lost
///   hang_at=N       that call never returns
///   leak_every=N    every Nth cudaFree forgets the memory instead of giving it back
///   corrupt_view=N  the Nth simcu_view shows a flipped bit
///   slow_percent=N  every call takes N percent of its virtual time; a /FILE with a number grows by
///                   one with every call
///   slow_percent_per_hour=N  every call takes N percent longer with each hour of virtual time
///   after_s=N       all this begins after so many seconds of virtual time; SIMCUDA_TIME_S says how
///                   many went by before the process began
///   What NVML says, a number, or /FILE with a number that grows by one with every look:
///   ecc_corrected, ecc_uncorrected, ecc_mode, retired_pages, remap_failed, throttle (bits),
///   celsius, sm_mhz, pcie_width, power_limit_mw, foreign_bytes (of another process), xid (an
///   event), no_permission (1: questions about errors are refused), nvml_error (of GPU 0: what
///   nvmlInit returns)
/// @endverbatim
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Makes a function visible in the library; nothing for its users.
#define SIMCU_API __attribute__((visibility("default")))

/// Version of this interface.
#define SIMCU_VERSION 1
/// The version of the loaded simcuda; that the function is there says that simcuda is loaded.
SIMCU_API int simcu_present(void);

/// The clock of a thread.
typedef struct SimcuThreadClock {
  /// Virtual time, ns: every CUDA call adds its modelled cost, waits add the time waited.
  uint64_t modelled_ns;
  /// Ticks of the time-stamp counter spent inside simcuda by calls that take a lock.
  uint64_t simulator_ticks;
} SimcuThreadClock;
/// The calling thread's clock. The pointer stays valid for the thread's life and is read without a
/// call.
SIMCU_API const SimcuThreadClock* simcu_thread_clock(void);

/// Work of `duration_ns` on a stream without a kernel binary. The launch costs the calling thread
/// what a launch costs.
SIMCU_API int simcu_launch(void* stream, uint64_t duration_ns);
/// As simcu_launch(), but the launch itself costs the calling thread no time.
SIMCU_API int simcu_enqueue(void* stream, uint64_t duration_ns);
/// The calling thread does something else for that long: its clock goes on, and so does the work of
/// the devices.
SIMCU_API void simcu_pass_time(uint64_t duration_ns);
/// A kernel that runs until simcu_open_gate(gate). Gates are the caller's numbers. A call that
/// waits for a gate which nobody opens for 5 s (of real time) returns cudaErrorLaunchTimeout
/// instead of hanging.
SIMCU_API int simcu_launch_gated(void* stream, uint64_t gate);
/// Ends the kernels that wait for the gate.
SIMCU_API int simcu_open_gate(uint64_t gate);

/// When the work that is queued now on one stream ends, in ns of virtual time: a time of the past
/// (or 0) where nothing is left. Costs nothing and waits for nothing. cudaErrorNotReady behind a
/// closed gate.
SIMCU_API int simcu_stream_end(void* stream, uint64_t* end_ns);
/// As simcu_stream_end(), of all streams of the thread's device.
SIMCU_API int simcu_device_end(uint64_t* end_ns);

/// Gets a launch's argument array and the `context` of its registration; called by the launch, on
/// its thread. Returns the kernel's duration in ns. It may touch memory through simcu_view().
typedef uint64_t (*SimcuKernelModel)(void** arguments, void* context);
/// Models the kernels whose name contains `name_part`, which is copied; `context` must live as long
/// as launches do. A kernel of a CUDA binary has no code that a host can run: without a model its
/// launch fails with cudaErrorNotSupported and the kernel's name in simcu_last_message().
SIMCU_API int simcu_register_kernel(const char* name_part, SimcuKernelModel model, void* context);
/// Sizes in bytes of the arguments, in their order, of the kernels whose name contains `name_part`.
/// Both are copied. Where a stream is captured, a launch keeps its arguments' values until the
/// graph is launched; a kernel whose sizes nobody told cannot be captured (cudaErrorNotSupported).
SIMCU_API int simcu_register_arguments(const char* name_part, const uint64_t* sizes_bytes,
                                       uint32_t count);

/// The simulator's own readable and writable view of device memory, null where the range is not
/// device memory. Do not keep it beyond the free of the memory. Dereferencing a device pointer
/// itself faults, as on a real host.
SIMCU_API void* simcu_view(const void* device_pointer, uint64_t size_bytes);

/// Called before any copy, fill or simcu_view() comes to bytes of device memory, on the thread that
/// does it, without any lock of the simulator: for a checker that writes its own bytes only where
/// somebody comes near them.
typedef void (*SimcuTouch)(const void* device_pointer, uint64_t size_bytes, void* context);
/// Sets the one `touch`; null ends it. A call that another thread has begun may still go on then.
SIMCU_API void simcu_watch_touches(SimcuTouch touch, void* context);

/// What SimcuCallWatch gets as result where a call begins.
#define SIMCU_CALL_BEGINS (-1)
/// Called where a CUDA call begins (result SIMCU_CALL_BEGINS) and where it ends (result: a
/// cudaError_t or CUresult), on the thread that calls and without any lock of the simulator. It may
/// wait, and so hold the thread there while others go on: simcu::interleave() in simcu_threads.h
/// does. Calls that the watch itself makes are not told.
typedef void (*SimcuCallWatch)(const char* api, int result, void* context);
/// Sets the one `watch`; null ends it, and returns when no thread is in it any more, so it must not
/// be called from a watch.
SIMCU_API void simcu_watch_calls(SimcuCallWatch watch, void* context);

/// Plans a fault: the nth call (1 = next) of `api` ("cudaMalloc", "cuMemCreate", ...) and the
/// count - 1 after it fail with `error`, a cudaError_t or CUresult; errors that break a real
/// context break this one for good. `api` null clears the plan. A name that no function has, or one
/// of a function that is not implemented, is refused. With a mistake in SIMCUDA_FAIL every CUDA
/// call fails, and stderr says why.
SIMCU_API int simcu_fail_calls(const char* api, uint64_t nth, uint64_t count, int error);

/// What simcu_call_count() gives for a name that no function has.
#define SIMCU_NO_SUCH_CALL UINT64_MAX
/// Calls of `api` by all threads so far, or since simcu_reset(); of all functions where null.
/// SIMCU_NO_SUCH_CALL where the CUDA runtime has no function of that name (simcu_last_message()
/// suggests one).
SIMCU_API uint64_t simcu_call_count(const char* api);

/// Calls of each function by this thread so far, by index; at most `capacity` of them are written.
/// Returns how many functions there are.
SIMCU_API uint64_t simcu_thread_calls(uint64_t* counts, uint64_t capacity);
/// The function that an index of simcu_thread_calls() stands for, null beyond the last.
SIMCU_API const char* simcu_call_name(uint64_t index);

/// The allocation that holds an address, as cuMemGetAddressRange tells it, and its GPU, without a
/// call that costs or counts.
SIMCU_API int simcu_allocation_of(const void* device_pointer, uint64_t* base, uint64_t* size_bytes,
                                  int* device);

/// For the start of a test: counts of calls begin at 0 again and all faults are taken back. Memory,
/// streams and clocks stay as they are: compare simcu_used_bytes() and the clock before and after.
SIMCU_API void simcu_reset(void);

/// Calls since the process began that simcuda refuses though a GPU serves them, all with
/// cudaErrorNotSupported: functions that it does not implement, managed memory, kernels without a
/// model, kinds of pools. A test that saw any says little.
SIMCU_API uint64_t simcu_unimplemented_count(void);
/// The names of these functions, kernels ("kernel NAME") and kinds, comma-separated. Valid until
/// the thread asks again.
SIMCU_API const char* simcu_unimplemented_names(void);

/// Writes every call from now on to a CSV file (api,arguments,result,modelled_ns); null stops.
SIMCU_API int simcu_call_log(const char* path);

/// A block of the program's allocator, for the order check.
///
/// The check says whether the memory of each block comes to its new user after the old one. It
/// follows streams, events, waits, synchronisation, pools and the legacy stream by CUDA's rules,
/// never by time: work that merely happened to end is not ordered. All host threads count as one.
/// The program says when it takes a block from its allocator and when it gives it back.
typedef struct SimcuBlock {
  /// Where the block begins; device memory.
  const void* pointer;
  /// Its size in bytes.
  uint64_t size_bytes;
  /// The program's name for the block.
  uint64_t id;
  /// Another number of it, which no other block has.
  uint64_t request;
} SimcuBlock;
/// What would have ordered a use after the former one.
typedef enum SimcuMissing {
  /// No event was recorded after the use.
  SIMCU_MISSING_EVENT = 0,
  /// The stream's last event was recorded before the use was over.
  SIMCU_MISSING_LATER_EVENT,
  /// Events were recorded after it, on other streams only.
  SIMCU_MISSING_RIGHT_EVENT,
  /// One was recorded after it, but nobody waited for it.
  SIMCU_MISSING_WAIT,
  /// The driver allocated it on a stream that the user does not follow.
  SIMCU_MISSING_ALLOCATION
} SimcuMissing;
/// A former use of a block's bytes that is not ordered before the new one.
typedef struct SimcuUnorderedUse {
  /// Of the former user, as its simcu_order_take() said.
  uint64_t id;
  /// Of the former user too.
  uint64_t request;
  /// Size of the former block in bytes.
  uint64_t size_bytes;
  /// Where it was used: a cudaStream_t.
  void* stream;
  /// What would have ordered the two.
  SimcuMissing missing;
} SimcuUnorderedUse;
/// Begins the check, or begins it anew: former uses are forgotten.
SIMCU_API int simcu_order_begin(void);
/// Ends the check.
SIMCU_API void simcu_order_end(void);
/// The block will be used on `stream`. 1 where a former use of its bytes is not ordered before
/// that, which `former` (may be null) then describes; else 0.
SIMCU_API int simcu_order_take(const SimcuBlock* block, void* stream, SimcuUnorderedUse* former);
/// The block has been used on these streams until now. Call it before the allocator's free.
SIMCU_API void simcu_order_give_back(const SimcuBlock* block, void* const* streams,
                                     uint32_t stream_count);

/// Device memory held by the process now, as cudaMemGetInfo would see it, without the context's
/// share.
SIMCU_API uint64_t simcu_used_bytes(void);
/// Memory of the host that is pinned for the process now: cudaHostAlloc, cudaMallocHost,
/// cudaHostRegister, and what pools of the host have taken.
SIMCU_API uint64_t simcu_pinned_bytes(void);
/// The block of pinned memory of the host that holds an address, as the program asked for it.
/// Managed memory is none. cudaErrorInvalidValue where there is no such block.
SIMCU_API int simcu_pinned_range(const void* pointer, uint64_t* base, uint64_t* size_bytes);
/// Most bytes used on the current device since the last such call, and the least that a refused
/// request would have brought them to (UINT64_MAX: none was refused). With any memory from the
/// first on and below the second, everything would have happened the same.
SIMCU_API void simcu_take_memory_extremes(uint64_t* used_bytes_max, uint64_t* refused_bytes_min);
/// Memory that the current device and its host share (SIMCUDA_HOST_RESERVE_BYTES, ..._CACHE_BYTES).
typedef struct SimcuSharedHost {
  uint64_t total_bytes;      ///< MemTotal
  uint64_t free_bytes;       ///< MemFree, which cudaMemGetInfo says
  uint64_t available_bytes;  ///< MemAvailable: page cache counts as free
  uint64_t reserve_bytes;    ///< With less available the host hangs; 0: it has other memory.
  int lost;                  ///< 1: it hangs, and every request for memory fails.
} SimcuSharedHost;
/// 1 where the two share memory; else 0, and `host` stays as it is.
SIMCU_API int simcu_shared_host(SimcuSharedHost* host);
/// The program holds so many bytes of the host beside what CUDA gave it. cudaErrorMemoryAllocation
/// where that is the device's memory and too little is left: the host hangs, and what was held
/// before stays held. Elsewhere nothing happens.
SIMCU_API int simcu_hold_host(uint64_t size_bytes);
/// The host answers again. What the program holds stays.
SIMCU_API void simcu_restart_host(void);
/// Text of the last simulator error of this thread; empty where none.
SIMCU_API const char* simcu_last_message(void);

#ifdef __cplusplus
}
#endif
