// A workload made ready for replay: read once for its facts, kept as steps where it fits into
// memory, read again and again in batches where it does not. A program can hand it to the processes
// that it starts, which then read and compile nothing. Events flow in, steps flow out; nothing here
// is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
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

  // Reads the whole source and writes facts and steps, as they lie in memory, to an empty file for
  // other processes of this build. Returns what they need beside the file. Throws UsageError as
  // above, and WriteError.
  [[nodiscard]] static TraceHeader write(std::unique_ptr<EventSource> source, int fd);
  // The trace that write() wrote. Its steps stay in the file, which need not stay open. Throws
  // FileError where the file is shorter than promised, EnvironmentError where it cannot be mapped.
  PreparedTrace(int fd, TraceHeader header);

  // Reads the source again and hands out events with their steps; stops where `consume` returns
  // false. Not of a trace that was handed over: it has no events.
  void for_each_batch(const std::function<bool(const TraceBatch&)>& consume);
  // Hands out all steps at once where they are kept, else as for_each_batch.
  void for_each_step_batch(const std::function<bool(const TraceBatch&)>& consume);

  [[nodiscard]] const TraceFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& name() const { return header_.name; }
  // The processes of the trace; empty where it is one.
  [[nodiscard]] const std::vector<TraceJob>& jobs() const { return header_.jobs; }
  // What the job says of itself; final, as the source was read.
  [[nodiscard]] const TraceHeader& header() const { return header_; }
  // Of marks; not of a trace that was handed over.
  [[nodiscard]] const std::vector<std::string>& labels() const { return source_->labels(); }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] bool is_kept() const { return is_kept_; }
  // The first steps of the trace, up to count_max: what the null backend is measured with.
  [[nodiscard]] TraceBatch prefix(std::uint64_t count_max) const;

 private:
  // Unmaps the bytes.
  class Mapping {
   public:
    Mapping() = default;
    explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}
    ~Mapping();
    Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    Mapping& operator=(Mapping&& other) noexcept {
      std::swap(bytes_, other.bytes_);
      return *this;
    }

   private:
    std::span<const std::byte> bytes_;
  };

  // Takes the steps of a batch; `steps_before` stand before them.
  using Keep = std::function<void(std::span<const ReplayStep> steps, std::uint64_t steps_before)>;

  PreparedTrace(std::unique_ptr<EventSource> source, const Keep& keep);
  void read(const Keep& keep);
  void keep_in_memory(std::span<const ReplayStep> steps, std::uint64_t steps_before,
                      std::uint64_t kept_count_max);

  std::unique_ptr<EventSource> source_;  // null where it was handed over
  Mapping mapping_;                      // empty elsewhere
  TraceHeader header_;
  TraceFacts facts_;
  std::uint64_t hash_ = 0;
  // TraceCompiler's; at first no request that failed is taken as the program's last.
  std::uint64_t wanted_from_event_ = ~std::uint64_t{0};
  bool is_kept_ = true;
  std::vector<ReplayStep> steps_;
  std::span<const ReplayStep> kept_;  // all, or the first kept_count_max; steps_ or in mapping_
  std::uint32_t slot_count_ = 0;
};

}  // namespace allocmark
