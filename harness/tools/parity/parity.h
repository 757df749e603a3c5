// Parity: replays a trace through the caching allocator with a golden's recorded addresses as the
// device's answers (or on a device that decides by itself), and compares every placement, failure,
// change of reserved memory and counter. Checks; times nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/cuda/driver.h"
#include "harness/tools/parity/golden.h"
#include "workloads/trace/event.h"
#include "workloads/trace/source.h"

namespace allocmark::caching {

// A device that a trace is replayed on. What a golden says is told to it before it is asked; a
// device that decides by itself does not listen.
class ParityDevice : public Driver {
 public:
  // A kernel that does not end by itself starts; end_busy ends all.
  virtual void start_busy(Stream stream) = 0;
  virtual void end_busy() = 0;
  // The answer recorded for the allocation that comes now.
  virtual void expect(const GoldenAnswer& /*answer*/) {}
  // The next request for memory fails once: the device was full.
  virtual void refuse_next() {}
  // What the driver's own pool reserved.
  virtual void expect_pool_reserved(std::uint64_t /*bytes*/, std::uint64_t /*bytes_peak*/) {}
};

// The allocator asked the device at a moment when PyTorch's did not: there is no answer.
class ParityDivergence : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A device that answers as the golden says: the next segment comes from the recorded address.
// Events complete when the trace says so. The golden must outlive it.
[[nodiscard]] std::unique_ptr<ParityDevice> make_recorded_device(const Golden& golden);

// The simulated H200: it chooses every address by itself, so that placement policy and allocator
// are tested together. Starts as the program did that the goldens were recorded with: one kernel
// loaded, seven streams made.
[[nodiscard]] std::unique_ptr<ParityDevice> make_simulated_device();

struct ParityMismatch {
  std::uint64_t operation = 0;  // 0-based index into the trace
  std::string what;             // which answer differs
  std::string request;          // the operation in words
  std::string golden;           // what PyTorch answered
  std::string ours;
  std::string state;  // the segment and the free blocks around both answers, as lines
};

struct ParityReport {
  std::uint64_t operation_count = 0;
  std::uint64_t decision_count =
      0;  // allocations, changes of reserved memory, counters and messages compared
  std::uint64_t placement_count = 0;
  std::uint64_t failure_count = 0;  // out of memory, in the golden
  std::uint64_t device_refusal_count =
      0;  // times the device itself was full, told by what PyTorch gave back
  std::uint64_t counter_count = 0;
  std::uint64_t mismatch_count = 0;
  std::optional<ParityMismatch> first;
};

// The config string a golden of this name was recorded with: "C05_x090.txt" ->
// "max_split_size_mb:128,...". Nothing where the name does not begin with C00 to C15.
[[nodiscard]] std::optional<std::string_view> golden_conf(std::string_view name);

// A trace whose events goldens number: one operation per event, in the trace's order. Reads the
// source to its end. A trace with kernels is a UsageError: goldens know nothing of them.
[[nodiscard]] std::vector<allocmark::Event> parity_events(EventSource& source);

// With `device` null the device gives the recorded addresses; else it decides by itself, and
// addresses of its heap are compared relative to the first one, the others as they are.
// Throws UsageError where trace and golden do not belong together, or conf is not one that PyTorch
// accepts. The events are those of parity_events.
[[nodiscard]] ParityReport compare_with_golden(std::span<const allocmark::Event> trace,
                                               const Golden& golden, std::string_view conf,
                                               ParityDevice* device = nullptr);

// The first mismatch for a person, as indented lines; empty where there is none.
[[nodiscard]] std::string describe(const ParityReport& report, bool with_state = true);

}  // namespace allocmark::caching
