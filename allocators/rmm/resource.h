// What RMM's resources have in common, and cudaMalloc as one of them. Requests flow in, addresses
// flow out. Resources stand on each other, as the config string says; hence an interface. None is
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "allocators/cuda/driver.h"

namespace allocmark::rmm {

// Of all resources of one backend.
struct Counters {
  std::uint64_t device_bytes = 0;       // of the device, not given back
  std::uint64_t take_count = 0;         // times that memory came from the device
  std::uint64_t give_count = 0;         // and went back
  std::uint64_t refusal_count = 0;      // times that the device refused
  std::uint64_t stream_wait_count = 0;  // of a stream for another one
  std::uint64_t device_wait_count = 0;  // of the host for the whole device
};

// Where resources work. Both outlive them.
struct Site {
  caching::Driver& driver;
  Counters& counters;
};

class Resource {
 public:
  Resource() = default;
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  virtual ~Resource() = default;

  // Takes what it starts with. False where there is no memory for that.
  [[nodiscard]] virtual bool open() { return true; }
  // More than 0 bytes. Nothing where there is no memory.
  [[nodiscard]] virtual std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                              caching::Stream stream) = 0;
  // With the size that was asked for, as RMM's callers say it.
  virtual void deallocate(std::uint64_t address, std::uint64_t size_bytes,
                          caching::Stream stream) = 0;

  // What a request takes of it.
  [[nodiscard]] virtual std::uint64_t taken_bytes(std::uint64_t size_bytes) const = 0;
  // That the stream gets without a wait: all of it, and the largest block.
  [[nodiscard]] virtual std::uint64_t free_bytes(caching::Stream stream) const = 0;
  [[nodiscard]] virtual std::uint64_t free_bytes_largest(caching::Stream stream) const = 0;
};

// RMM rounds requests up to it.
inline constexpr std::uint64_t kAlignmentBytes = 256;

// cuda_memory_resource: the device itself.
class CudaMemory final : public Resource {
 public:
  explicit CudaMemory(const Site& site) : site_(site) {}
  // Waits for the device and gives back all memory, also blocks that are handed out.
  ~CudaMemory() override;

  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) override;
  void deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) override;
  [[nodiscard]] std::uint64_t taken_bytes(std::uint64_t size_bytes) const override {
    return size_bytes;
  }
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream) const override { return 0; }
  [[nodiscard]] std::uint64_t free_bytes_largest(caching::Stream) const override { return 0; }

 private:
  const Site site_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // size in bytes, by address
};

}  // namespace allocmark::rmm
