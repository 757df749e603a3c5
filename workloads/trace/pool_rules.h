// The rules that a trace's steps of private pools and graphs keep: what is begun is ended, what is
// used is released once, no pool is named that is not there, and no graph runs whose pool is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "workloads/trace/event.h"

namespace allocmark {

// Nothing where a rule is kept.
using BrokenRule = std::optional<ErrorText>;

class PoolRules {
 public:
  // `place` is the line or event index, and messages name that of an
  // earlier step with it. Pool..., Capture... and GraphReplay events, and Trim with an id.
  [[nodiscard]] BrokenRule check(const Event& event, std::uint64_t place);
  // At the end of the trace: whether a pool or a capture was begun and not ended.
  [[nodiscard]] BrokenRule check_end() const;
  void clear() { pools_.clear(); }

 private:
  struct Pool {
    std::uint64_t use_count = 0;
    std::optional<std::uint64_t> released{};  // place where the last use ended
    std::optional<std::uint64_t> begun{};     // place, while requests are routed to it
    std::optional<std::uint32_t> stream{};    // that they are routed from; nothing: every stream
    std::optional<std::uint64_t> captured{};  // place, while a graph is captured into it
    std::uint32_t capture_stream = 0;
    bool has_graph = false;
    std::optional<std::uint64_t> on_oom{};
  };

  [[nodiscard]] BrokenRule check_use(const Event& event);
  [[nodiscard]] BrokenRule check_begin(const Event& event, std::uint64_t place);
  [[nodiscard]] BrokenRule check_used(const Event& event, Pool& pool, std::uint64_t place);
  [[nodiscard]] static BrokenRule check_end_of(const Event& event, Pool& pool);
  [[nodiscard]] BrokenRule check_capture(const Event& event, Pool& pool, std::uint64_t place);
  [[nodiscard]] static BrokenRule check_graph(const Event& event, Pool& pool);
  [[nodiscard]] static BrokenRule check_release(const Event& event, Pool& pool,
                                                std::uint64_t place);

  std::unordered_map<std::uint64_t, Pool> pools_;  // by id, used or not
};

}  // namespace allocmark
