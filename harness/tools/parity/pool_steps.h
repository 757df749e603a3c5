// The steps of private pools in random programs of the live comparison.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "allocators/caching/release.h"
#include "base/random.h"
#include "harness/tools/parity/program.h"

namespace allocmark::caching {

// The steps of private pools in a program, drawn apart from the others, so that these stay what
// they are without pools. Left out is what PyTorch answers with an internal error, and what depends
// on the addresses of its own objects: the order of several frees that waited for the end of a
// pool's routing, where the order of blocks depends on it, and uses that came while requests were
// routed and are forgotten at a later such time.
class PoolSteps {
 public:
  PoolSteps(std::uint64_t seed, const Rules& rules, std::uint32_t stream_count)
      : random_(seed + 0x9E3779B97F4A7C15u), rules_(rules), stream_count_(stream_count) {}

  // Now and then one step, or more.
  void add(std::vector<allocmark::Event>& events);

  void note_record(std::uint64_t block);

  // Whether the block may be given back now; notes that it is.
  [[nodiscard]] bool may_free(std::uint64_t block);

 private:
  static constexpr std::size_t kUsedMax = 4;

  struct Pool {
    std::uint64_t id = 0;
    int use_count = 0;
    bool begun = false;
    bool captures = false;
    bool every_stream = false;
    std::uint32_t stream = 0;  // of the captured graph, and of requests where not every_stream
    bool on_oom = false;
  };

  [[nodiscard]] bool captures() const {
    return std::ranges::any_of(pools_, rules_.pools_capture ? &Pool::begun : &Pool::captures);
  }
  [[nodiscard]] std::size_t used_count() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(pools_, [](const Pool& pool) { return pool.use_count > 0; }));
  }
  // A random one of those that it is true for, or null.
  template <typename Predicate>
  [[nodiscard]] Pool* any(Predicate chosen) {
    std::vector<Pool*> found;
    for (Pool& pool : pools_) {
      if (chosen(pool)) found.push_back(&pool);
    }
    return found.empty() ? nullptr : found[random_.below(found.size())];
  }

  void create(std::vector<allocmark::Event>& events);

  // A pool that serves when memory is out may not be routed to from some streams only.
  void begin(std::vector<allocmark::Event>& events);

  void end(std::vector<allocmark::Event>& events);

  // A capture begins or ends, one at a time on each stream.
  void capture(std::vector<allocmark::Event>& events);
  void end_capture(Pool& pool, std::vector<allocmark::Event>& events);

  void release(std::vector<allocmark::Event>& events);

  void turn(Pool& pool, std::vector<allocmark::Event>& events);
  // At most one is on: PyTorch asks several in the order of a hash.
  void turn(std::vector<allocmark::Event>& events);

  void never_split(std::vector<allocmark::Event>& events);

  void empty(std::vector<allocmark::Event>& events);

  Random random_;
  const Rules& rules_;
  std::uint32_t stream_count_;
  std::vector<Pool> pools_;                                 // by id - 1
  std::set<std::uint64_t> recorded_, recorded_in_capture_;  // live blocks
  int deferred_count_ = 0;
};

}  // namespace allocmark::caching
