// The legacy memory pool of llama.cpp's CUDA backend: which memory a request gets, and when it is
// taken from the device. One pool serves one stream. Requests flow in, addresses flow out; memory
// comes from a Memory. Not thread-safe.
//
// LegacyPool keeps up to 256 freed buffers. A request takes the one that is least larger, whole,
// however much larger that is. Without one it asks the device for 5 % more than was asked for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace allocmark::ggml {

// A device, as LegacyPool needs it.
class Memory {
 public:
  virtual ~Memory() = default;
  // The address, or nothing where there is no memory.
  [[nodiscard]] virtual std::optional<std::uint64_t> take(std::uint64_t size_bytes) = 0;
  virtual void give(std::uint64_t address) = 0;
  virtual void synchronize() = 0;
};

struct Buffer {
  std::uint64_t address = 0;  // 0: none
  std::uint64_t size_bytes = 0;
};

struct PoolCounters {
  std::uint64_t used_bytes = 0;  // handed out
  std::uint64_t held_bytes = 0;  // of the device
  std::uint64_t take_count = 0;
  std::uint64_t give_count = 0;
  std::uint64_t retry_count = 0;  // times that all buffers went back and the device was asked again
};

class LegacyPool {
 public:
  // The memory must outlive the pool. `flushes`: false for releases that end the program where the
  // device refuses; here the request fails.
  LegacyPool(Memory& memory, bool flushes) : memory_(memory), flushes_(flushes) {}
  LegacyPool(const LegacyPool&) = delete;
  LegacyPool& operator=(const LegacyPool&) = delete;
  // Gives back all memory, also buffers that are handed out.
  ~LegacyPool();

  // What is handed out is at least as large; nothing where there is no memory.
  [[nodiscard]] std::optional<Buffer> allocate(std::uint64_t size_bytes);
  // False where the address is none that allocate() gave and that was not given back since.
  [[nodiscard]] bool deallocate(std::uint64_t address);
  // Gives kept buffers back to the device.
  void clear();

  [[nodiscard]] const PoolCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t kept_bytes() const {
    return counters_.held_bytes - counters_.used_bytes;
  }
  [[nodiscard]] std::uint64_t kept_bytes_largest() const;
  // Kept and handed out, by address.
  struct Held {
    Buffer buffer;
    bool used = false;
  };
  [[nodiscard]] std::vector<Held> held() const;

 private:
  static constexpr std::size_t kBufferCountMax = 256;

  [[nodiscard]] Buffer* best_of(std::uint64_t size_bytes);

  Memory& memory_;
  const bool flushes_;
  std::array<Buffer, kBufferCountMax> kept_{};
  std::unordered_map<std::uint64_t, std::uint64_t> used_;  // size in bytes, by address
  PoolCounters counters_;
};

}  // namespace allocmark::ggml
