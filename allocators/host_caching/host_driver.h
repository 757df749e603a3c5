// What the cache of pinned memory asks of a machine: memory that is pinned, and events of streams.
// Requests flow in, addresses flow out. Implemented by counting_driver.h and cuda_host_driver.h.
#pragma once

#include <cstdint>

namespace allocmark::host_caching {

using Address = std::uint64_t;  // of host memory; 0 is none
using Stream = std::uint64_t;   // as the driver takes it: a cudaStream_t, or a number of a test
using Event = std::uint64_t;    // of the driver

// How memory is pinned, which decides how it is given back.
enum class PinKind : std::uint8_t {
  HostAlloc,     // cudaHostAlloc and cudaFreeHost
  HostRegister,  // malloc, a write to each page, cudaHostRegister; then cudaHostUnregister and free
};

class HostDriver {
 public:
  virtual ~HostDriver() = default;

  // `size_bytes` (above 0) of pinned memory, or 0 where there is no such memory; then nothing is
  // held. Blocks. `thread_count` (1 to 128) threads write to the pages of HostRegister; it is
  // ignored with HostAlloc.
  [[nodiscard]] virtual Address pin(std::uint64_t size_bytes, PinKind kind,
                                    std::uint64_t thread_count) = 0;
  // Gives back what pin() gave with that kind. May wait for the device.
  virtual void unpin(Address address, PinKind kind) = 0;

  // An event after all work that the stream has now. The caller destroys it.
  [[nodiscard]] virtual Event record_event(Stream stream) = 0;
  [[nodiscard]] virtual bool event_done(Event event) = 0;
  virtual void destroy_event(Event event) = 0;
};

}  // namespace allocmark::host_caching
