// The control interface of simcuda, the simulated CUDA runtime. Found at run time by
// dlsym(RTLD_DEFAULT, NAME), so that one binary runs with the real runtime (every lookup gives
// null) or with the simulated one. C, and stable: functions are added, never changed. simcu_test.h
// makes tests in C++ shorter.
//
// Every function may be called from any thread. Sizes are bytes, times ns of virtual time. Strings
// and pointers that are returned belong to simcuda: a string stays valid until the same function is
// called again (simcu_last_message: until this thread's next call). Functions that return int give
// 0 or a cudaError_t, and then simcu_last_message() says what was wrong.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMCU_API __attribute__((visibility("default")))

// Version of this interface; its presence says that simcuda is loaded.
#define SIMCU_VERSION 1
SIMCU_API int simcu_present(void);

// The calling thread's clock. The pointer stays valid for the thread's life and is read without a
// call.
typedef struct SimcuThreadClock {
  uint64_t modelled_ns;  // virtual time: every CUDA call adds its modelled cost, waits add the time
                         // waited
  uint64_t
      simulator_ticks;  // time-stamp-counter ticks spent inside simcuda by calls that take a lock
} SimcuThreadClock;
SIMCU_API const SimcuThreadClock* simcu_thread_clock(void);

// Work on a stream (cudaStream_t) without a kernel binary. Costs of a launch are charged. Returns a
// cudaError_t.
SIMCU_API int simcu_launch(void* stream, uint64_t duration_ns);
// The same, and the launch itself costs the calling thread no time.
SIMCU_API int simcu_enqueue(void* stream, uint64_t duration_ns);
// The calling thread does something else for that long: its clock goes on, and so does the work of
// the devices.
SIMCU_API void simcu_pass_time(uint64_t duration_ns);
// A kernel that runs until simcu_open_gate(gate). Gates are the caller's numbers. A call that waits
// for a gate which nobody opens for 5 s (of real time) returns cudaErrorLaunchTimeout instead of
// hanging.
SIMCU_API int simcu_launch_gated(void* stream, uint64_t gate);
SIMCU_API int simcu_open_gate(uint64_t gate);

// When the work that is queued now ends: on one stream, and on all of the thread's device. A time
// of the past (or 0) where nothing is left. Costs nothing and waits for nothing. Returns a
// cudaError_t: cudaErrorNotReady behind a closed gate.
SIMCU_API int simcu_stream_end(void* stream, uint64_t* end_ns);
SIMCU_API int simcu_device_end(uint64_t* end_ns);

// A kernel of a CUDA binary has no code that a host can run: a launch needs a model, else it fails
// with cudaErrorNotSupported and the kernel's name in simcu_last_message(). `model` gets the
// launch's argument array and the `context` of its registration; it is called by the launch,
// returns the kernel's duration in ns, and may touch memory through simcu_view.
typedef uint64_t (*SimcuKernelModel)(void** arguments, void* context);
SIMCU_API int simcu_register_kernel(const char* name_part, SimcuKernelModel model, void* context);

// The simulator's own readable and writable view of device memory, null where the range is not
// device memory. Dereferencing a device pointer itself faults, as on a real host.
SIMCU_API void* simcu_view(const void* device_pointer, uint64_t size_bytes);

// `touch` is called before any copy, fill or simcu_view comes to bytes of device memory, on the
// thread that does it, without any lock of the simulator: for a checker that writes its own bytes
// only where somebody comes near them. One at a time; null ends it. A call that another thread has
// begun may still go on then.
typedef void (*SimcuTouch)(const void* device_pointer, uint64_t size_bytes, void* context);
SIMCU_API void simcu_watch_touches(SimcuTouch touch, void* context);

// `watch` is called where a CUDA call begins (result SIMCU_CALL_BEGINS) and where it ends (result:
// a cudaError_t or CUresult), on the thread that calls and without any lock of the simulator. It
// may wait, and so hold the thread there while others go on: simcu::interleave in simcu_threads.h
// does. Calls that the watch itself makes are not told. One at a time; null ends it, and returns
// when no thread is in it any more, so it must not be called from a watch.
#define SIMCU_CALL_BEGINS (-1)
typedef void (*SimcuCallWatch)(const char* api, int result, void* context);
SIMCU_API void simcu_watch_calls(SimcuCallWatch watch, void* context);

// Faults: the nth call (1 = next) of `api` ("cudaMalloc", "cuMemCreate", ...) and the count - 1
// after it fail with `error` (a cudaError_t or CUresult; errors that break a real context break
// this one for good). api null clears the plan. A name that no function has, or one of a function
// that is not implemented, is refused. Environment: SIMCUDA_FAIL="cudaMalloc:3:1:2;..."; with a
// mistake in it every CUDA call fails, and stderr says why.
SIMCU_API int simcu_fail_calls(const char* api, uint64_t nth, uint64_t count, int error);

// Calls of `api` by all threads so far, or since simcu_reset; of all functions where null.
// SIMCU_NO_SUCH_CALL where the CUDA runtime has no function of that name (simcu_last_message
// suggests one).
#define SIMCU_NO_SUCH_CALL UINT64_MAX
SIMCU_API uint64_t simcu_call_count(const char* api);

// Calls of each function by this thread so far, by index; at most `capacity` of them are written.
// Returns how many functions there are. simcu_call_name says which one an index is, null beyond.
SIMCU_API uint64_t simcu_thread_calls(uint64_t* counts, uint64_t capacity);
SIMCU_API const char* simcu_call_name(uint64_t index);

// The allocation that holds an address, as cuMemGetAddressRange tells it, and its GPU, without a
// call that costs or counts. Returns a cudaError_t.
SIMCU_API int simcu_allocation_of(const void* device_pointer, uint64_t* base, uint64_t* size_bytes,
                                  int* device);

// For the start of a test: counts of calls begin at 0 again and all faults are taken back. Memory,
// streams and clocks stay as they are: compare simcu_used_bytes() and the clock before and after.
SIMCU_API void simcu_reset(void);

// Calls of functions that simcuda does not implement since the process began; they return
// cudaErrorNotSupported. Their names, comma-separated. A test that saw any says little.
SIMCU_API uint64_t simcu_unimplemented_count(void);
SIMCU_API const char* simcu_unimplemented_names(void);

// Writes every call from now on to a CSV file (api,arguments,result,modelled_ns); null stops.
// Environment: SIMCUDA_CALL_LOG=PATH.
SIMCU_API int simcu_call_log(const char* path);

// The order check: whether the memory of each block comes to its new user after the old one. It
// follows streams, events, waits, synchronisation, pools and the legacy stream by CUDA's rules,
// never by time: work that merely happened to end is not ordered. All host threads count as one.
// The program says when it takes a block from its allocator and when it gives it back.
typedef struct SimcuBlock {
  const void* pointer;
  uint64_t size_bytes;
  uint64_t id;       // the program's name for the block
  uint64_t request;  // another number of it, which no other block has
} SimcuBlock;
typedef enum SimcuMissing {
  SIMCU_MISSING_EVENT = 0,    // no event was recorded after the use
  SIMCU_MISSING_LATER_EVENT,  // the stream's last event was recorded before the use was over
  SIMCU_MISSING_RIGHT_EVENT,  // events were recorded after it, on other streams only
  SIMCU_MISSING_WAIT,         // one was recorded after it, but nobody waited for it
  SIMCU_MISSING_ALLOCATION    // the driver allocated it on a stream that the user does not follow
} SimcuMissing;
typedef struct SimcuUnorderedUse {
  uint64_t id;  // of the former user, as its simcu_order_take said
  uint64_t request;
  uint64_t size_bytes;
  void* stream;          // where it was used: cudaStream_t
  SimcuMissing missing;  // what would have ordered the two
} SimcuUnorderedUse;
// Begins the check, or begins it anew: former uses are forgotten.
SIMCU_API int simcu_order_begin(void);
SIMCU_API void simcu_order_end(void);
// The block will be used on `stream`. 1 where a former use of its bytes is not ordered before that,
// which `former` (may be null) then describes; else 0.
SIMCU_API int simcu_order_take(const SimcuBlock* block, void* stream, SimcuUnorderedUse* former);
// The block has been used on these streams until now. Call it before the allocator's free.
SIMCU_API void simcu_order_give_back(const SimcuBlock* block, void* const* streams,
                                     uint32_t stream_count);

// Device memory held by the process now, as cudaMemGetInfo would see it, without the context's
// share.
SIMCU_API uint64_t simcu_used_bytes(void);
// Most bytes used on the current device since the last such call, and the least that a refused
// request would have brought them to (UINT64_MAX: none was refused). With any memory from the first
// on and below the second, everything would have happened the same.
SIMCU_API void simcu_take_memory_extremes(uint64_t* used_bytes_max, uint64_t* refused_bytes_min);
// Text of the last simulator error of this thread; empty where none.
SIMCU_API const char* simcu_last_message(void);

// Environment read when the library loads:
//   SIMCUDA_PROFILE   name ("h200") or path of a profile file; default h200
//   SIMCUDA_START     what the process did before its first request: plain (default), kernel (one
//   of its kernels is
//                     loaded), c10 (PyTorch's allocator library and 7 streams); it decides where
//                     the first blocks lie
//   SIMCUDA_DEVICES   number of simulated GPUs, default 1
//   SIMCUDA_PEERS     1 (default): each may be given access to the others' memory; 0: none may
//   SIMCUDA_CAPACITY_BYTES  memory of each GPU that programs can take (whole 2 MiB pages of it;
//   what the context takes
//                     comes on top, so cudaMemGetInfo's total is larger); default: the profile's
//   SIMCUDA_TOTAL_BYTES  memory of each GPU as cudaMemGetInfo says it, from 1 GiB; what the context
//                     takes comes out of it; default: the profile's. Not with the one before
//   SIMCUDA_NODE      any text; UUIDs and serial numbers of the GPUs follow from it, so that
//   machines
//                     can be told apart
//   SIMCUDA_NAME      name of the GPUs instead of the profile's
//   SIMCUDA_HOST_CACHES  what calls leave in the host's caches: cold (default), as a driver does;
//                     warm, for programs of which nobody takes host time: simulated calls are then
//                     up to three times as fast
//   SIMCUDA_COSTS     what a call takes: drawn (default), from what was measured; mean, the mean
//                     below P99 at every call, so that equal calls cost the same

//   SIMCUDA_GPU_FAULTS  what is wrong with the GPUs: "GPU:KEY=NUMBER;...". Keys:
//     lost_at=N       the GPU falls off the bus with the process's Nth call for it; lost_file=/FILE
//                     makes that lasting: processes that start once the file exists find it lost
//     hang_at=N       that call never returns
//     leak_every=N    every Nth cudaFree forgets the memory instead of giving it back
//     corrupt_view=N  the Nth simcu_view shows a flipped bit
//     slow_percent=N  every call takes N percent of its virtual time; a /FILE with a number grows
//                     by one with every call
//     slow_percent_per_hour=N  every call takes N percent longer with each hour of virtual time
//     after_s=N       all this begins after so many seconds of virtual time; SIMCUDA_TIME_S says
//                     how many went by before the process began
//     What NVML says, a number, or /FILE with a number that grows by one with every look:
//     ecc_corrected, ecc_uncorrected, ecc_mode, retired_pages, remap_failed, throttle (bits),
//     celsius, sm_mhz, pcie_width, power_limit_mw, foreign_bytes (of another process), xid (an
//     event), no_permission (1: questions about errors are refused), nvml_error (of GPU 0: what
//     nvmlInit returns)

#ifdef __cplusplus
}
#endif
