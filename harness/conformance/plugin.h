// A plugin's functions, called as PyTorch calls them, and what the rules of this room share: a
// block with its owner, streams, patterns in device memory. Everything here needs simcuda.
#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "allocators/plugins/pluggable.h"
#include "harness/replay/simcu_api.h"

namespace allocmark::conformance {

struct Plugin {
  void* (*malloc)(ssize_t size_bytes, int device, cudaStream_t stream) = nullptr;
  void (*free)(void* pointer, ssize_t size_bytes, int device, cudaStream_t stream) = nullptr;
  void (*record_stream)(void* pointer, cudaStream_t stream) = nullptr;  // null: none is named
  void (*trim)() = nullptr;                                             // likewise
  void (*init)(int device_count) = nullptr;                             // likewise
};

// Loads the library. Throws EnvironmentError.
[[nodiscard]] Plugin load_plugin(const PluggableConf& conf);

// Thrown by a rule: what was seen against it, or why it does not apply.
struct Broken {
  std::string seen;
};
struct NotApplicable {
  std::string reason;
};
void expect(bool holds, const std::string& otherwise);

struct Block {
  char* pointer = nullptr;
  std::uint64_t size_bytes = 0;
  cudaStream_t stream = nullptr;
  std::uint64_t number = 0;  // of the request, from 1
};

// The plugin in use by one rule, on simulated device 0 unless the rule says otherwise.
class Scene {
 public:
  Scene(const Plugin& functions, const SimcuApi& runtime) : plugin(functions), simcu(runtime) {}

  const Plugin plugin;
  const SimcuApi simcu;
  int device = 0;

  // A request that must be served, and one that may fail (pointer null).
  [[nodiscard]] Block get(std::uint64_t size_bytes, cudaStream_t stream = nullptr);
  [[nodiscard]] Block try_get(std::uint64_t size_bytes, cudaStream_t stream = nullptr);
  void give(const Block& block);
  void give_all(std::vector<Block>& blocks);
  // All work ends and what is cached goes back, where a function for that is named.
  void settle();

  [[nodiscard]] cudaStream_t make_stream() const;
  [[nodiscard]] std::uint64_t used_bytes() const { return simcu.used_bytes(); }
  // The bytes behind the block; Broken where they are no device memory.
  [[nodiscard]] unsigned char* bytes(const Block& block) const;

 private:
  std::atomic<std::uint64_t> request_count_ = 0;
};

// "request 5 (4096 bytes)".
[[nodiscard]] std::string text_of(const Block& block);

}  // namespace allocmark::conformance
