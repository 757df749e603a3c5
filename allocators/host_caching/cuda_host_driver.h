// The CUDA runtime that this process has, a card's or simcuda's, as a machine that pins memory.
#pragma once

#include "allocators/host_caching/host_driver.h"

namespace allocmark::host_caching {

// A Stream is a cudaStream_t. Failures other than a lack of memory throw EnvironmentError. Memory
// of a machine is not overcommitted when pinned: the caller bounds what it asks for.
class CudaHostDriver final : public HostDriver {
 public:
  [[nodiscard]] Address pin(std::uint64_t size_bytes, PinKind kind,
                            std::uint64_t thread_count) override;
  void unpin(Address address, PinKind kind) override;
  [[nodiscard]] Event record_event(Stream stream) override;
  [[nodiscard]] bool event_done(Event event) override;
  void destroy_event(Event event) override;
};

}  // namespace allocmark::host_caching
