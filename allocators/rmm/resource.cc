// See resource.h.
#include "allocators/rmm/resource.h"

#include <exception>

namespace allocmark::rmm {

CudaMemory::~CudaMemory() {
  try {
    site_.driver.wait_for_device();
    for (const auto& [address, size_bytes] : taken_) site_.driver.free(address);
  } catch (const std::exception&) {
    // The context is gone, and all of it with that.
  }
}

std::optional<std::uint64_t> CudaMemory::allocate(std::uint64_t size_bytes,
                                                  caching::Stream stream) {
  const std::optional<std::uint64_t> address = site_.driver.allocate(size_bytes, stream);
  if (!address) {
    ++site_.counters.refusal_count;
    return std::nullopt;
  }
  taken_.emplace(*address, size_bytes);
  site_.counters.device_bytes += size_bytes;
  ++site_.counters.take_count;
  return address;
}

void CudaMemory::deallocate(std::uint64_t address, std::uint64_t size_bytes,
                            caching::Stream /*stream*/) {
  site_.driver.free(address);
  taken_.erase(address);
  site_.counters.device_bytes -= size_bytes;
  ++site_.counters.give_count;
}

}  // namespace allocmark::rmm
