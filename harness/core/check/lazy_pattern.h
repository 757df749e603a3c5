// The pattern of whole blocks in simulated memory, without writing it: a block gets a few words of
// it, and the rest of a granule only when somebody is about to come near (simcu_watch_touches).
// Whatever changes contents shows: copies, fills and views tell before they do it, and what the
// simulator does to memory - dropping pages, mapping them elsewhere - concerns whole pages, and a
// word stands in each. Blocks flow in, the first changed word flows out. This file checks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "harness/core/check/pattern_bytes.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {

class LazyPattern {
 public:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t event_index = 0;  // of its allocation: what its words say
  };
  // What is written at once when somebody comes near.
  static constexpr std::uint64_t kGranuleBytes = std::uint64_t{64} << 10;
  // What the simulator drops and maps elsewhere is as large or larger: a word stands in each.
  static constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

  // Watches from now on until it ends; one at a time.
  explicit LazyPattern(const SimcuApi& simcu);
  ~LazyPattern();
  LazyPattern(const LazyPattern&) = delete;
  LazyPattern& operator=(const LazyPattern&) = delete;

  // The block has the pattern from now on. False where its memory is not there.
  [[nodiscard]] bool write(const Block& block);
  enum class Answer : std::uint8_t { Unchanged, Changed, Unmapped };
  // Looks at every word that was written. `change` is filled where one differs.
  [[nodiscard]] Answer check(const Block& block, PatternChange* change);
  // The block is given back: nothing is kept for it, nor written.
  void forget(const Block& block);

 private:
  struct Live {
    Block block;
    std::set<std::uint64_t> granules;  // by address / kGranuleBytes: wholly written
  };
  // Somebody comes near these bytes: the granules that hold them are written, where blocks lie.
  static void touched(const void* pointer, std::uint64_t size_bytes, void* context);
  void complete(std::uint64_t address, std::uint64_t size_bytes);
  static void complete_granule(Live& live, std::uint64_t granule, char* view);
  [[nodiscard]] char* view(const Block& block);
  [[nodiscard]] static std::vector<PatternPart> words_in(const Block& block,
                                                         const PatternPart& range);
  [[nodiscard]] static PatternPart part_of(const Block& block, std::uint64_t granule);

  const SimcuApi simcu_;
  std::mutex mutex_;
  std::atomic<std::thread::id> viewer_{};  // whose view is our own
  std::map<std::uint64_t, Live> live_;     // by address
};

}  // namespace allocmark
