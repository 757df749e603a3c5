// Variables of device code in programs that nvcc compiled: cudaGetSymbolAddress and copies by
// symbol. In: what start-up code registers, and host variables that stand for the device's. Out:
// memory of each device, taken at the first call; all of it is zero, whatever the source says.
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/memory_copy.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/static_runtime.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct Symbols {
  std::mutex mutex;
  std::unordered_map<const void*, VariableFacts> registered;       // by host variable
  std::map<std::pair<int, const void*>, std::uint64_t> addresses;  // by device and host variable
};
Symbols& symbols() { return made_once<Symbols>(); }

std::optional<VariableFacts> find_symbol(const void* symbol) {
  const std::lock_guard lock(symbols().mutex);
  const auto found = symbols().registered.find(symbol);
  return found != symbols().registered.end() ? found->second
                                             : variable_of_redirected_module(symbol);
}

// Calls `use` with the symbol's memory on the thread's device and its size in bytes.
template <class Use>
cudaError_t with_symbol(const ThreadState& thread, const void* symbol, const Use& use) {
  SimulatedDevice* const device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  const std::optional<VariableFacts> facts = find_symbol(symbol);
  if (!facts) return cudaErrorInvalidSymbol;
  std::uint64_t address = 0;
  {
    const std::lock_guard lock(symbols().mutex);
    std::uint64_t& place = symbols().addresses[{device->index, symbol}];
    if (place == 0) place = place_variable(*device, *facts);
    address = place;
  }
  return address == 0 ? cudaErrorMemoryAllocation : use(address, facts->size_bytes);
}

// Calls `use` with a part of the symbol's memory.
template <class Use>
cudaError_t with_part(const ThreadState& thread, const void* symbol, std::size_t offset_bytes,
                      std::size_t count_bytes, const Use& use) {
  return with_symbol(thread, symbol, [&](std::uint64_t address, std::size_t size_bytes) {
    if (offset_bytes > size_bytes || count_bytes > size_bytes - offset_bytes) {
      return cudaErrorInvalidValue;
    }
    return use(reinterpret_cast<void*>(address + offset_bytes));
  });
}

}  // namespace

SIMCUDA_EXPORT void __cudaRegisterVar(void** /*handle*/, char* host_variable,
                                      char* /*device_address*/, const char* device_name,
                                      int /*is_external*/, size_t size_bytes, int /*is_constant*/,
                                      int /*is_global*/) {
  const std::lock_guard lock(symbols().mutex);
  symbols().registered[host_variable] = {
      .name = device_name, .size_bytes = size_bytes, .first_bytes = {}};
}

SIMCUDA_EXPORT cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return runtime_call<"cudaGetSymbolAddress">({number(symbol)}, [&](ThreadState& thread) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    return with_symbol(thread, symbol, [&](std::uint64_t address, std::size_t) {
      *pointer = reinterpret_cast<void*>(address);
      return cudaSuccess;
    });
  });
}

SIMCUDA_EXPORT cudaError_t cudaGetSymbolSize(size_t* size_bytes, const void* symbol) {
  return runtime_call<"cudaGetSymbolSize">({number(symbol)}, [&](ThreadState& thread) {
    if (size_bytes == nullptr) return cudaErrorInvalidValue;
    return with_symbol(thread, symbol, [&](std::uint64_t, std::size_t known_bytes) {
      *size_bytes = known_bytes;
      return cudaSuccess;
    });
  });
}

SIMCUDA_MOVES(RUNTIME, cuda, MemcpyToSymbol,
              (const void* symbol, const void* from, size_t count, size_t offset,
               cudaMemcpyKind kind),
              (number(symbol), number(from), count),
              with_part(thread, symbol, offset, count, [&](void* place) {
                return copy_memory(thread, place, from, line(count), kind, stream, wait);
              }))
SIMCUDA_MOVES(RUNTIME, cuda, MemcpyFromSymbol,
              (void* to, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind),
              (number(to), number(symbol), count),
              with_part(thread, symbol, offset, count, [&](const void* place) {
                return copy_memory(thread, to, place, line(count), kind, stream, wait);
              }))

}  // namespace simcuda
