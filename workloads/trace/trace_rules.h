// The rules that the events of a valid trace keep, checked one event at a time; used by every
// reader of trace files and by the tests of every generator. Memory is bounded by the live blocks
// and the gaps between ids.
#pragma once

#include <cstdint>
#include <map>

#include "base/error.h"
#include "workloads/trace/event.h"
#include "workloads/trace/live_blocks.h"
#include "workloads/trace/pool_rules.h"

namespace allocmark {

// Which ids were ever allocated, as ranges: one range for ids that count up, more where the ids
// have gaps.
class SeenIds {
 public:
  // Beyond this many gaps an id below the highest one counts as new unless it is live, so that
  // memory stays bounded: the reuse of a freed id may then pass unnoticed.
  static constexpr std::size_t kRangeCountMax = std::size_t{1} << 20;

  [[nodiscard]] bool contains(std::uint64_t id) const;
  void insert(std::uint64_t id);
  void clear() { ranges_.clear(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // first id -> last id, never adjacent
};

class TraceRules {
 public:
  // The broken rule, or nothing where the event is in order. `place` is the line or event index;
  // messages about an id name the place where it was allocated. ErrorText::where stays empty: the
  // caller knows the file.
  [[nodiscard]] BrokenRule check(const Event& event, std::uint64_t place);
  // What only the end of the trace shows; likewise.
  [[nodiscard]] BrokenRule check_end() const { return pools_.check_end(); }
  void clear();
  [[nodiscard]] const LiveBlocks& live() const { return device_.live; }
  // Without requests that failed: nobody had them.
  [[nodiscard]] std::uint64_t live_bytes() const { return device_.live_bytes; }
  // The same of pinned memory of the host, whose blocks have ids of their own.
  [[nodiscard]] const LiveBlocks& host_live() const { return host_.live; }
  [[nodiscard]] std::uint64_t host_live_bytes() const { return host_.live_bytes; }

 private:
  // Where blocks are: on the device, or pinned on the host.
  struct Space {
    LiveBlocks live{};
    std::uint64_t live_bytes = 0;
    SeenIds seen{};
  };
  [[nodiscard]] static BrokenRule check_alloc(const Event& event, std::uint64_t place,
                                              Space& space);
  [[nodiscard]] static BrokenRule check_free(const Event& event, Space& space);
  [[nodiscard]] static BrokenRule check_record(const Event& event, const Space& space);
  [[nodiscard]] static ErrorText not_live(const Event& event, const Space& space);

  Space device_;
  Space host_;
  PoolRules pools_;
};

}  // namespace allocmark
