// What the caching allocator asks of a device: the mechanism below its policy. Implemented on CUDA
// (real or simulated), on recorded answers (parity) and on a fake (tests, fuzzing). No CUDA types:
// streams, events and handles are opaque numbers, addresses are device addresses. Running out of
// memory is a value; every other failure is an exception.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace allocmark::caching {

using Stream = std::uintptr_t;     // a cudaStream_t; 0 is the default stream
using Event = std::uintptr_t;      // a cudaEvent_t
using PageHandle = std::uint64_t;  // a CUmemGenericAllocationHandle

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// What the device's stream-ordered pool says about itself.
struct PoolUsage {
  std::uint64_t used_bytes = 0;
  std::uint64_t used_bytes_peak = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_bytes_peak = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  // Throws where an earlier call of the program left an error behind; called before the device is
  // asked for memory.
  virtual void check_pending_error() {}

  // Whole segments. `stream` is the one the request is for; it only matters where a graph is being
  // captured.
  [[nodiscard]] virtual std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                              Stream stream) = 0;
  virtual void free(std::uint64_t address) = 0;

  [[nodiscard]] virtual DeviceMemory memory() = 0;               // now, as cudaMemGetInfo says
  [[nodiscard]] virtual std::uint64_t device_total_bytes() = 0;  // a property of the device

  // Lines about other processes for an out-of-memory text; empty where nothing is known.
  [[nodiscard]] virtual std::string process_lines() { return {}; }

  [[nodiscard]] virtual Event create_event() = 0;
  virtual void destroy_event(Event event) = 0;
  virtual void record_event(Event event, Stream stream) = 0;
  [[nodiscard]] virtual bool event_done(Event event) = 0;  // never blocks
  virtual void wait_for_event(Event event) = 0;            // blocks the host
  virtual void wait_for_stream(Stream stream) = 0;         // blocks the host
  virtual void wait_for_device() = 0;                      // blocks the host

  // Virtual memory. create_page gives nothing where physical memory is out.
  [[nodiscard]] virtual std::uint64_t reserve_address(std::uint64_t size_bytes) = 0;
  virtual void free_address(std::uint64_t address, std::uint64_t size_bytes) = 0;
  [[nodiscard]] virtual std::optional<PageHandle> create_page(std::uint64_t size_bytes) = 0;
  virtual void release_page(PageHandle page) = 0;
  virtual void map_page(std::uint64_t address, std::uint64_t size_bytes, PageHandle page) = 0;
  virtual void unmap_page(std::uint64_t address, std::uint64_t size_bytes) = 0;
  virtual void allow_access(std::uint64_t address, std::uint64_t size_bytes) = 0;

  // The device's default stream-ordered pool, for backend:cudaMallocAsync.
  virtual void prepare_pool() = 0;  // keeps everything cached, allows every kind of reuse
  [[nodiscard]] virtual std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes,
                                                                   Stream stream) = 0;
  virtual void pool_free(std::uint64_t address, Stream stream) = 0;
  virtual void trim_pool() = 0;
  [[nodiscard]] virtual PoolUsage pool_usage() = 0;
  [[nodiscard]] virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  virtual void make_stream_wait(Stream stream, Event event) = 0;  // does not block the host
};

// A device whose pool holds nothing, for what never sets backend:cudaMallocAsync: its requests of
// the pool are refused, and streams of its own order nothing.
class PoollessDriver : public Driver {
 public:
  void prepare_pool() override {}
  std::optional<std::uint64_t> pool_allocate(std::uint64_t, Stream) override { return {}; }
  void pool_free(std::uint64_t, Stream) override {}
  void trim_pool() override {}
  PoolUsage pool_usage() override { return {}; }
  Stream create_stream() override { return 0; }
  void destroy_stream(Stream) override {}
  void make_stream_wait(Stream, Event) override {}
};

}  // namespace allocmark::caching
