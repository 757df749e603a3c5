// TensorFlow's or XLA's own BFCAllocator, through a plugin that scripts/build/fetch_tensorflow.sh
// makes: the original beside bfc::Heap, with the same functions and on the same kind of source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocators/bfc/heap.h"
#include "allocators/plugins/bfc_plugin/plugin.h"

namespace allocmark {

// Where the plugin of these rules ("tf2.21") is looked for: build/tensorflow/RULES, or the folder
// RULES in what ALLOCMARK_TENSORFLOW_RELEASES names. Empty where it is not.
[[nodiscard]] std::string bfc_plugin_path(const std::string& rules);

class BfcLibrary {
 public:
  // Throws EnvironmentError where the plugin does not load, or is of other rules.
  BfcLibrary(const std::string& plugin_path, const std::string& rules,
             const bfc::HeapOptions& options, bfc::Source& source);
  BfcLibrary(const BfcLibrary&) = delete;
  BfcLibrary& operator=(const BfcLibrary&) = delete;
  // Gives back all regions.
  ~BfcLibrary();

  // As bfc::Heap has them.
  [[nodiscard]] std::optional<std::uint64_t> allocate(const bfc::Request& request);
  void deallocate(std::uint64_t address);
  void set_safe_frontier(std::uint64_t count);
  void clear_peaks();

  [[nodiscard]] AllocmarkBfcChunk chunk_of(std::uint64_t address) const;
  [[nodiscard]] AllocmarkBfcCounters counters() const;
  // Every chunk, by address.
  [[nodiscard]] std::vector<AllocmarkBfcMapped> map() const;

 private:
  const AllocmarkBfcPlugin* plugin_;
  void* allocator_;
};

}  // namespace allocmark
