// PyTorch's other backend, backend:cudaMallocAsync: requests go unrounded to the device's default
// stream-ordered pool. Not thread-safe: the owner holds a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocators/caching/counters.h"
#include "allocators/caching/settings.h"
#include "allocators/cuda/driver.h"

namespace allocmark::caching {

// What is known when a request fails.
struct AsyncOutOfMemory {
  std::uint64_t requested_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::optional<std::uint64_t> limit_bytes{};
  DeviceMemory device{};
  const Rules* rules = &newest_rules();  // of the release whose text it is
};

// The text of PyTorch's OutOfMemoryError with this backend.
[[nodiscard]] std::string out_of_memory_message(const AsyncOutOfMemory& failure);

class AsyncAllocator {
 public:
  // memory_limit_bytes 0 is no limit; the key per_process_memory_fraction is ignored, as in
  // PyTorch.
  AsyncAllocator(Driver& driver, std::uint64_t memory_limit_bytes,
                 const Rules& rules = newest_rules());
  // Gives live blocks back too, and trims the pool.
  ~AsyncAllocator();
  AsyncAllocator(const AsyncAllocator&) = delete;
  AsyncAllocator& operator=(const AsyncAllocator&) = delete;

  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream stream);
  // False where the address is not one that is held.
  [[nodiscard]] bool deallocate(std::uint64_t address);
  [[nodiscard]] bool record_stream(std::uint64_t address, Stream stream);
  void empty_cache();
  // 0 is none.
  void change_limit(std::uint64_t memory_limit_bytes) {
    limit_bytes_ = memory_limit_bytes == 0 ? kUnlimited : memory_limit_bytes;
  }

  // As PyTorch fills them: the pool's own figures in three arrays, 0 everywhere else.
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  // 0 is none.
  [[nodiscard]] std::uint64_t limit_bytes() const {
    return limit_bytes_ == kUnlimited ? 0 : limit_bytes_;
  }
  [[nodiscard]] const std::optional<AsyncOutOfMemory>& last_failure() const {
    return last_failure_;
  }

 private:
  struct Use {
    std::uint64_t size_bytes = 0;
    Stream stream = 0;
    std::vector<Stream> other_streams{};
  };

  void prepare();
  void give_back(std::uint64_t address, const Use& use);
  void join(Stream stream);

  Driver& driver_;
  const Rules& rules_;
  std::uint64_t limit_bytes_;
  bool prepared_ = false;
  Stream unifier_ = 0;  // frees of memory that several streams used go here
  std::uint64_t used_bytes_ = 0;
  std::unordered_map<std::uint64_t, Use> uses_;
  std::optional<AsyncOutOfMemory> last_failure_;
};

}  // namespace allocmark::caching
