// An allocator's functions, called as PyTorch calls a plugin's, and what the rules of this room
// share: a block with its owner, streams, patterns in device memory. Plugins are held against the
// rules on simcuda; a backend may be held against most of them on a GPU too.
#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/plugins/pluggable.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark::conformance {

struct Plugin {
  std::function<void*(ssize_t size_bytes, int device, cudaStream_t stream)> malloc;
  std::function<void(void* pointer, ssize_t size_bytes, int device, cudaStream_t stream)> free;
  std::function<void(void* pointer, cudaStream_t stream)> record_stream;  // null: none is named
  std::function<void()> trim;                                             // likewise
  std::function<void(int device_count)> init;                             // likewise
  // Ends the instance, of which nothing is live, and makes another. Null: of a plugin there is one.
  std::function<void()> renew;
};

// What rules expect beyond the functions.
struct Claims {
  std::uint64_t alignment_bytes = 16;
  bool stream_ordered = true;
  bool real_memory = true;
  MemorySide side = MemorySide::Device;
  // Of the sizes that are drawn: below 2 to the power of so much, times 16.
  std::uint64_t size_bits = 20;
  std::vector<cudaStream_t> streams = {nullptr};  // of requests for which none is named
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

// Blocks that live, by place.
class LiveRanges {
 public:
  // Another live block that shares a byte with it; then it is not added.
  [[nodiscard]] std::optional<Block> add(const Block& block);
  // The same; throws Broken with both blocks.
  void add_apart(const Block& block);
  void remove(const Block& block) { blocks_.erase(block.pointer); }

 private:
  std::map<char*, Block> blocks_;
};

// What all of a process shares, by name: what signals do, how numbers are rounded, the working
// folder, limits, the environment (rules_process.cc).
using ProcessSettings = std::map<std::string, std::string>;
[[nodiscard]] ProcessSettings process_settings();

// The plugin in use by one rule, on simulated device 0 unless the rule says otherwise.
class Scene {
 public:
  Scene(Plugin functions, const SimcuApi& runtime, Claims claimed = {})
      : plugin(std::move(functions)), simcu(runtime), claims(std::move(claimed)) {}

  const Plugin plugin;
  const SimcuApi simcu;
  const Claims claims;
  int device = 0;
  // Of this process, before the plugin was loaded.
  std::uint64_t resident_bytes_before = 0;
  ProcessSettings settings_before = {};

  // A request that must be served, and one that may fail (pointer null).
  [[nodiscard]] Block get(std::uint64_t size_bytes, cudaStream_t stream = nullptr);
  [[nodiscard]] Block try_get(std::uint64_t size_bytes, cudaStream_t stream = nullptr);
  void give(const Block& block);
  // Another stream uses the block; needs the plugin's function for that.
  void record(const Block& block, cudaStream_t stream);
  void give_all(std::vector<Block>& blocks);
  // All work ends and what is cached goes back, where a function for that is named.
  void settle();

  // Calls of the plugin that have begun and ended. For another thread.
  [[nodiscard]] std::uint64_t begun_count() const { return begun_count_; }
  [[nodiscard]] std::uint64_t ended_count() const { return ended_count_; }

  [[nodiscard]] cudaStream_t make_stream() const;
  // Of the device, and pinned of the host on simcuda, which alone tells. On a GPU other things than
  // allocators take some, hence the tolerance.
  [[nodiscard]] std::uint64_t used_bytes() const;
  [[nodiscard]] std::uint64_t used_bytes_tolerance() const { return simcu.present ? 0 : 8 << 20; }
  // All memory of the side that is claimed.
  [[nodiscard]] std::uint64_t total_bytes() const;
  // The bytes behind the block; Broken where they are no memory of the side that is claimed. Null
  // on a GPU for device memory, and where no memory is claimed.
  [[nodiscard]] unsigned char* bytes(const Block& block) const;
  // Every byte of the block becomes `byte`; the first that has another value.
  void fill(const Block& block, unsigned char byte) const;
  [[nodiscard]] std::optional<std::uint64_t> find_other(const Block& block,
                                                        unsigned char byte) const;

 private:
  [[nodiscard]] bool is_pinned(const Block& block) const;
  // Calls the plugin, and counts.
  template <typename Call>
  auto called(Call&& call);

  std::atomic<std::uint64_t> request_count_ = 0, begun_count_ = 0, ended_count_ = 0;
};

// "request 5 (4096 bytes)".
[[nodiscard]] std::string text_of(const Block& block);

}  // namespace allocmark::conformance
