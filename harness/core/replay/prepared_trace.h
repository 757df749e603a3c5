// A workload made ready for replay: read once for its facts, kept as steps where it fits into
// memory, read again and again in batches where it does not. Events flow in, steps flow out;
// nothing here is timed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/core/replay/trace_compiler.h"
#include "workloads/trace/source.h"

namespace allocmark {

// Some events in a row and the steps made of them, index for index; valid during the call that gets
// it.
struct TraceBatch {
  std::span<const Event> events;  // empty where kept steps are handed out
  std::span<const ReplayStep> steps;
  std::uint32_t slot_count = 0;  // all slots so far are below it
};

class PreparedTrace {
 public:
  // 4 Mi steps are 64 MiB.
  static constexpr std::uint64_t kKeptCountMax = std::uint64_t{4} << 20;

  // Reads the whole source. Throws UsageError where the trace breaks a rule.
  explicit PreparedTrace(std::unique_ptr<EventSource> source,
                         std::uint64_t kept_count_max = kKeptCountMax);

  // Reads the source again and hands out events with their steps; stops where `consume` returns
  // false.
  void for_each_batch(const std::function<bool(const TraceBatch&)>& consume);
  // Hands out all steps at once where they are kept, else as for_each_batch.
  void for_each_step_batch(const std::function<bool(const TraceBatch&)>& consume);

  [[nodiscard]] const TraceFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // The processes of the trace; empty where it is one.
  [[nodiscard]] const std::vector<TraceJob>& jobs() const { return source_->header().jobs; }
  // What the job says of itself; final, as the source was read.
  [[nodiscard]] const TraceHeader& header() const { return source_->header(); }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] bool is_kept() const { return is_kept_; }
  // The first steps of the trace, up to count_max: what the null backend is measured with.
  [[nodiscard]] TraceBatch prefix(std::uint64_t count_max) const;

 private:
  void read(std::uint64_t kept_count_max);

  std::unique_ptr<EventSource> source_;
  TraceFacts facts_;
  std::string name_;
  std::uint64_t hash_ = 0;
  // TraceCompiler's; at first no request that failed is taken as the program's last.
  std::uint64_t wanted_from_event_ = ~std::uint64_t{0};
  bool is_kept_ = true;
  std::vector<ReplayStep> steps_;  // all, or the first kept_count_max
  std::uint32_t slot_count_ = 0;
};

}  // namespace allocmark
