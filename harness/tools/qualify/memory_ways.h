// The ways to get device memory, behind one interface, for the tests that fill, empty and refill a
// GPU: cudaMalloc, a stream-ordered pool, virtual memory management. Sizes flow in, blocks flow
// out; running out of memory is an answer, every other error throws EnvironmentError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace allocmark::qualify {

struct TakenBlock {
  void* pointer = nullptr;
  std::uint64_t size_bytes = 0;
  unsigned long long handle = 0;  // of the physical memory, where it is mapped
};

class MemoryWay {
 public:
  virtual ~MemoryWay() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // The caller owns the block and gives it back; may block the host. Nothing: out of memory, and
  // the runtime's error state is clean again.
  [[nodiscard]] virtual std::optional<TakenBlock> take(std::uint64_t size_bytes) = 0;
  virtual void give_back(const TakenBlock& block) = 0;
  // Waits for the device and returns to it what is kept for reuse.
  virtual void settle() = 0;
};

// All ways that the driver has. On the current device.
[[nodiscard]] std::vector<std::unique_ptr<MemoryWay>> memory_ways();

// Takes pieces of `largest` bytes until there are no more, then of half as many, down to
// `smallest`.
[[nodiscard]] std::vector<TakenBlock> fill(MemoryWay& way, std::uint64_t largest_bytes,
                                           std::uint64_t smallest_bytes);
void give_back_all(MemoryWay& way, std::vector<TakenBlock>& blocks);
[[nodiscard]] std::uint64_t total_bytes(const std::vector<TakenBlock>& blocks);

}  // namespace allocmark::qualify
