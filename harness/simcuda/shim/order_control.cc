// The order check's part of the control interface (simcu.h). In: blocks that a program takes and
// gives back. Out: uses that nothing orders before the next one.
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

// The interface has the same kinds under the same numbers.
constexpr SimcuMissing to_missing(order::Missing missing) {
  return static_cast<SimcuMissing>(missing);
}
static_assert(to_missing(order::Missing::AnyEvent) == SIMCU_MISSING_EVENT);
static_assert(to_missing(order::Missing::LaterEvent) == SIMCU_MISSING_LATER_EVENT);
static_assert(to_missing(order::Missing::RightEvent) == SIMCU_MISSING_RIGHT_EVENT);
static_assert(to_missing(order::Missing::Wait) == SIMCU_MISSING_WAIT);
static_assert(to_missing(order::Missing::Allocation) == SIMCU_MISSING_ALLOCATION);

}  // namespace

extern "C" {

SIMCU_API int simcu_order_begin(void) {
  see_devices();
  for (int i = 0; i < device_count(); ++i) {
    const std::lock_guard lock(device_at(i)->mutex);
    device_at(i)->core.begin_order_check();
  }
  return cudaSuccess;
}

SIMCU_API void simcu_order_end(void) {
  for (int i = 0; i < device_count(); ++i) {
    const std::lock_guard lock(device_at(i)->mutex);
    device_at(i)->core.end_order_check();
  }
}

SIMCU_API int simcu_order_take(const SimcuBlock* block, void* stream, SimcuUnorderedUse* former) {
  SimulatedDevice* device = device_of_address(number(block->pointer));
  const StreamRef ref = resolve_stream(this_thread(), static_cast<cudaStream_t>(stream));
  if (device == nullptr || ref.device != device) return 0;
  const std::uint64_t lo = number(block->pointer);
  const std::lock_guard lock(device->mutex);
  const auto use = device->core.take_memory({lo, lo + block->size_bytes},
                                            {.id = block->id, .request = block->request}, ref.id);
  if (!use) return 0;
  if (former != nullptr) {
    *former = {.id = use->owner.id,
               .request = use->owner.request,
               .size_bytes = use->size_bytes,
               .stream = device->stream_handle(use->stream),
               .missing = to_missing(use->missing)};
  }
  return 1;
}

SIMCU_API void simcu_order_give_back(const SimcuBlock* block, void* const* streams,
                                     uint32_t stream_count) {
  SimulatedDevice* device = device_of_address(number(block->pointer));
  if (device == nullptr) return;
  std::vector<StreamId> ids;
  for (std::uint32_t i = 0; i < stream_count; ++i) {
    const StreamRef ref = resolve_stream(this_thread(), static_cast<cudaStream_t>(streams[i]));
    if (ref.device == device) ids.push_back(ref.id);
  }
  const std::uint64_t lo = number(block->pointer);
  const std::lock_guard lock(device->mutex);
  device->core.give_memory_back({lo, lo + block->size_bytes},
                                {.id = block->id, .request = block->request}, ids);
}

}  // extern "C"

}  // namespace simcuda
