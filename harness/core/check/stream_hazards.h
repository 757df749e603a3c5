// Which memory that was given back is still in use by which stream: the check on a GPU for reuse
// that comes too early. Launches and frees flow in; a broken rule flows out, which the caller
// confirms with the device. When a use ends is known from points in the stream, made at the free,
// which the device is asked about, or from the time (a kernel begins no earlier than its launch,
// and after the one before it). It finds reuse that happens too early, not reuse that could:
// simcuda has OrderedReuse for that. This file checks and is never used in a timed pass.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "harness/core/check/shadow_heap.h"

namespace allocmark {

class StreamHazards {
 public:
  struct Kernel {
    std::uint32_t stream = 0;
    std::uint64_t now_ns = 0;       // before its launch
    std::uint64_t duration_ns = 0;  // UINT64_MAX: nobody knows
  };
  void launch(const Kernel& kernel);
  // All work is done.
  void synchronize();
  // The work on one stream is done after all (found out by asking the device).
  void end_work(std::uint32_t stream);

  // The block has been used on another stream.
  void record(std::uint64_t id, std::uint32_t stream);
  // Marks the end of what the stream has queued so far; gives numbers that rise, from 1.
  using MakePoint = std::function<std::uint64_t(std::uint32_t stream)>;
  // The owner gives the block back. What its streams have queued so far may use it until it ends:
  // at a point where they are made, else at the estimated time.
  void deallocate(const ShadowBlock& block, std::uint64_t now_ns, const MakePoint& make_point = {});
  // The stream has got past the point.
  void pass(std::uint32_t stream, std::uint64_t point);

  // A use of the block's memory, by another stream than its own, that is not over.
  [[nodiscard]] std::optional<BrokenRule> early_reuse(const ShadowBlock& block,
                                                      std::uint64_t now_ns);

  [[nodiscard]] std::size_t segment_count() const { return segments_.size(); }

 private:
  struct Use {
    std::uint32_t stream = 0;
    std::uint64_t end_ns = 0;
    std::uint64_t point = 0;  // 0: none was made
    ShadowBlock block;
  };
  // Addresses [key, end) with the uses that may not be over; segments never overlap.
  struct Segment {
    std::uint64_t end = 0;
    std::vector<Use> uses;
  };
  using Segments = std::map<std::uint64_t, Segment>;

  void split(std::uint64_t address);
  void add_uses(std::uint64_t begin, std::uint64_t end, const std::vector<Use>& uses);
  [[nodiscard]] std::uint64_t end_of(std::uint32_t stream) const;
  [[nodiscard]] bool is_over(const Use& use, std::uint64_t now_ns) const;

  std::vector<std::uint64_t> end_ns_by_stream_;
  std::vector<std::uint64_t> passed_point_by_stream_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> recorded_streams_by_id_;
  Segments segments_;
};

}  // namespace allocmark
