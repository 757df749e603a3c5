// The driver's contexts: each thread's stack of them, those that programs make, and the primary one
// of each device, which the runtime uses. In: handles, devices. Out: what is current.
#include "harness/simcuda/shim/contexts.h"

#include <array>
#include <mutex>

#include "harness/simcuda/shim/handle_arena.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct Contexts {
  std::mutex mutex;
  HandleArena<SimContext> arena;
  std::array<std::atomic<SimContext*>, kDeviceCountMax> primary{};
  std::atomic<unsigned long long> next_id = 1;
};
Contexts& contexts() { return made_once<Contexts>(); }

CUcontext handle(SimContext& context) { return reinterpret_cast<CUcontext>(&context); }

void push(ThreadState& thread, CUcontext context) {
  if (thread.context != nullptr) thread.contexts_below.push_back(thread.context);
  thread.context = context;
  thread.device = resolve_context(context)->device;
}

void pop(ThreadState& thread) {
  thread.context = nullptr;
  if (thread.contexts_below.empty()) return;
  thread.context = thread.contexts_below.back();
  thread.contexts_below.pop_back();
  if (const SimContext* below = resolve_context(thread.context)) thread.device = below->device;
}

constexpr unsigned kContextFlags = CU_CTX_FLAGS_MASK;

CUresult create(ThreadState& thread, CUcontext* result, unsigned flags, CUdevice device) {
  if (result == nullptr || (flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (device_at(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  SimContext* const made = contexts().arena.add();
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  made->device = device;
  made->flags = flags;
  made->id = contexts().next_id++;
  made->live = true;
  *result = handle(*made);
  push(thread, *result);
  return CUDA_SUCCESS;
}

CUresult destroy(ThreadState& thread, CUcontext context) {
  SimContext* const object = resolve_context(context);
  if (object == nullptr || object->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  object->live = false;
  if (thread.context == context) pop(thread);
  return CUDA_SUCCESS;
}

// What `ask` says of the context; `otherwise` where there is none.
template <class Out, class Ask>
CUresult give_of_context(Out* out, CUcontext context, CUresult otherwise, Ask ask) {
  const SimContext* const found = resolve_context(context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return otherwise;
  *out = ask(*found);
  return CUDA_SUCCESS;
}

// The context that a function means: the one named, or the current one.
CUcontext named_or_current(const ThreadState& thread, CUcontext context) {
  return context != nullptr ? context : thread.context;
}

unsigned flags_of(const SimContext& context) { return context.flags; }
unsigned long long id_of(const SimContext& context) { return context.id; }
// That of every context since.
unsigned api_version_of(const SimContext&) { return 3020; }

CUresult release_primary(CUdevice device) {
  if (device_at(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  SimContext& primary = primary_context(device);
  std::uint64_t count = primary.retain_count.load();
  while (count != 0 && !primary.retain_count.compare_exchange_weak(count, count - 1)) {
  }
  return count == 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

}  // namespace

SimContext* resolve_context(CUcontext context) {
  SimContext* const found = contexts().arena.find(context);
  return found != nullptr && found->live ? found : nullptr;
}

SimContext& primary_context(int device) {
  Contexts& all = contexts();
  std::atomic<SimContext*>& place = all.primary[static_cast<std::size_t>(device)];
  if (SimContext* const known = place.load(); known != nullptr) return *known;
  const std::lock_guard lock(all.mutex);
  if (place.load() == nullptr) {
    SimContext* const made = all.arena.add();
    made->device = device;
    made->is_primary = true;
    made->id = all.next_id++;
    made->live = true;
    place = made;
  }
  return *place.load();
}

void set_current_context(ThreadState& thread, CUcontext context) {
  pop(thread);
  if (context != nullptr) push(thread, context);
}

void use_primary_context(ThreadState& thread) {
  if (device_at(thread.device) == nullptr) return;  // the call says so itself
  SimContext& primary = primary_context(thread.device);
  primary.used_by_runtime = true;
  set_current_context(thread, handle(primary));
}

void forget_primary_context(int device) {
  SimContext& primary = primary_context(device);
  primary.used_by_runtime = false;
  primary.retain_count = 0;
  primary.flags = 0;
}

// ---- the current context

SIMCUDA_DRIVER(cuCtxGetCurrent, (CUcontext * context), (), give_value(context, thread.context))

SIMCUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call<"cuCtxSetCurrent">({number(context)}, [&](ThreadState& thread) {
    if (context != nullptr && resolve_context(context) == nullptr) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    set_current_context(thread, context);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
  return driver_call<"cuCtxPushCurrent">({number(context)}, [&](ThreadState& thread) {
    if (resolve_context(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    push(thread, context);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  return driver_call<"cuCtxPopCurrent">({}, [&](ThreadState& thread) {
    if (thread.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = thread.context;
    pop(thread);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_DRIVER(cuCtxGetDevice, (CUdevice * device), (), give_value(device, thread.device))

SIMCUDA_DRIVER(cuCtxGetFlags, (unsigned int* flags), (),
               give_of_context(flags, thread.context, CUDA_ERROR_CONTEXT_IS_DESTROYED, flags_of))
SIMCUDA_DRIVER(cuCtxGetApiVersion, (CUcontext context, unsigned int* version), (number(context)),
               give_of_context(version, named_or_current(thread, context),
                               CUDA_ERROR_INVALID_CONTEXT, api_version_of))
SIMCUDA_DRIVER(cuCtxGetId, (CUcontext context, unsigned long long* id), (number(context)),
               give_of_context(id, named_or_current(thread, context),
                               CUDA_ERROR_CONTEXT_IS_DESTROYED, id_of))

// ---- those that programs make

// The parameters choose an affinity, which changes nothing here.
SIMCUDA_FUNCTION(driver_call, CUresult, cuCtxCreate_v4, "cuCtxCreate",
                 (CUcontext * context, CUctxCreateParams* /*parameters*/, unsigned int flags,
                  CUdevice device),
                 (flags, as_number(device)), create(thread, context, flags, device))

SIMCUDA_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* /*parameters*/,
                                       int /*count*/, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(context, nullptr, flags, device);
}

SIMCUDA_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v4(context, nullptr, flags, device);
}

SIMCUDA_DRIVER(cuCtxDestroy, (CUcontext context), (number(context)), destroy(thread, context))

// ---- the primary one

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return driver_call<"cuDevicePrimaryCtxRetain">({as_number(device)}, [&](ThreadState&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_at(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    ++primary_context(device).retain_count;
    *context = handle(primary_context(device));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_DRIVER(cuDevicePrimaryCtxRelease, (CUdevice device), (as_number(device)),
               release_primary(device))

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return driver_call<"cuDevicePrimaryCtxSetFlags">({as_number(device), flags}, [&](ThreadState&) {
    if (device_at(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    primary_context(device).flags = flags;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags,
                                                   int* active) {
  return driver_call<"cuDevicePrimaryCtxGetState">({as_number(device)}, [&](ThreadState&) {
    if (device_at(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const SimContext& primary = primary_context(device);
    *flags = primary.flags;
    *active = primary.used_by_runtime || primary.retain_count != 0 ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

}  // namespace simcuda
