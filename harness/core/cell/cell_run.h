// The course of one cell, as a class that cell.cc (set-up), cell_check.cc (what is checked),
// cell_timed.cc (what is timed) and cell_soak.cc (what is repeated for hours) share. Others run a
// cell with cell.h or soak.h.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/cell/cell.h"
#include "harness/core/cell/cell_result.h"
#include "harness/core/cell/soak.h"
#include "harness/core/check/timeline.h"
#include "harness/core/check/verify.h"
#include "harness/core/measure/clock.h"
#include "harness/core/measure/host_reference.h"
#include "harness/core/measure/quiet_cpu.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/measure/request_clock.h"
#include "harness/core/measure/settled_passes.h"
#include "harness/core/measure/step_clock.h"
#include "harness/core/measure/usual_calls.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/process_backends.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {

// Does it, and makes of what it throws the result's status and reason; but WriteError goes on.
void fail_on_error(CellResult& result, const std::function<void()>& body);

// Where CUDA calls failed that simcuda lacks, since the count was so: on a GPU they would not have.
void warn_of_unimplemented(CellResult& result, std::uint64_t count_before);

class CellRun {
 public:
  CellRun(const CellSpec& spec, PassTurns* turns, const PartSink& on_part, CellResult& result)
      : spec_(spec), turns_(turns), on_part_(on_part), result_(result) {}

  void run();
  void soak(const SoakSpec& spec, const std::function<void(const SoakWindow&)>& on_window);

 private:
  // What comes before the timed passes; false where the cell is over.
  [[nodiscard]] bool ready();
  void check_key();
  void prepare_trace();
  void prepare_device();
  // Of the device, where the recording tells nothing of it.
  void assume_work();
  void enforce_capacity();
  // The same of a backend of the host's memory: what this machine may pin bounds it.
  void bound_pinned();
  [[nodiscard]] bool is_on_host() const { return entry_->capabilities.side == MemorySide::Host; }
  // What a backend of the host's memory is asked for.
  void take_host_requests(std::unique_ptr<EventSource>& events);
  // The trace under the oracle with nothing else in the streams: figures, rules of addresses.
  void checked_pass();
  // Warns where the workload asked for so many bytes of the host.
  void tell_host_memory(std::uint64_t host_bytes);
  // Where device work is assumed: once more on an idle device, as in the timed passes.
  void idle_pass();
  // Once more, to look into blocks; its figures are held against the checked pass's.
  void contents_pass();
  [[nodiscard]] VerifySetup verify_setup(Backend& backend, VerifyPart part);
  // After a broken rule: the cell ends with it, and live blocks are not given back, by us or by the
  // backend's destructor, which could do anything. The process ends soon.
  void end_broken(const std::string& rule, std::unique_ptr<Backend> backend);
  // Where another process's cache was in the way: what its owner could do, as counters `remedy.*`.
  // `cached_bytes`: by process, when one first ran out of memory.
  void try_remedies(const std::vector<std::uint64_t>& cached_bytes);
  // Failed requests of a pass without clock and checks.
  [[nodiscard]] std::uint64_t failures_with(const ProcessBackends::Remedy& remedy);
  void write_timeline(const Timeline& timeline);
  void timed_passes();
  // Whether there is a further pass, when `done_count` are made; waits for its turn where it must.
  bool next_pass(std::uint32_t done_count, std::uint32_t pass_count);
  // The figures of the passes so far.
  void fill_timed();
  // What follows a timed pass besides the recorder's samples.
  struct Timing {
    Timing(const RecorderOptions& options, const TickClock& clock, const SimcuThreadClock* simcu,
           std::uint32_t preamble_label)
        : pass(options),
          sum(options),
          steps(clock, simcu, options.step_count_max, preamble_label) {}
    Recorder pass, sum;  // of this pass, and of all so far
    StepClock steps;
    std::optional<RequestClock> requests;  // nothing where the trace tells of no requests
  };
  void soak_pass(Backend& backend, Recorder& recorder, SoakWindow& window);
  // Where the requests of the pass that comes go; null where the trace has too many, or no memory.
  [[nodiscard]] std::vector<void*>* fresh_places();
  // The rule that the pass broke, if any; nothing where places were not kept.
  [[nodiscard]] std::optional<std::string> broken_place();
  // Likewise of a pass that placed otherwise than the checked one, of which it warns.
  [[nodiscard]] std::optional<std::string> broken_since_check(const Replayer& replayer,
                                                              std::uint32_t pass_index);
  void timed_pass(std::uint32_t pass_index);
  double measure_reference();
  [[nodiscard]] HostScale least_disturbed_scale() const;
  [[nodiscard]] std::uint64_t step_count_max() const;
  void keep_pass(PassSummary summary);
  void fill_ideal_program();
  // Whether the allocator is a stack and the trace frees otherwise: then the cell is skipped.
  [[nodiscard]] bool refuse_free_order();
  // How little memory the trace could do with.
  void pack_trace();
  [[nodiscard]] const SimcuThreadClock* simcu_clock() const {
    return simcu_.present ? simcu_.thread_clock() : nullptr;
  }
  // Waits for all work, gives live blocks back, destroys the backend and notes what the device did
  // not get back, which it returns; nothing where other cells share the device.
  template <typename Player>
  std::optional<std::uint64_t> end_pass(Player& player, std::unique_ptr<Backend>& backend,
                                        std::uint64_t bytes_before);
  [[nodiscard]] std::unique_ptr<Backend> make_backend() const;
  // The same instance, where the trace has several processes; else null.
  [[nodiscard]] static ProcessBackends* processes_of(Backend* backend) {
    return dynamic_cast<ProcessBackends*>(backend);
  }
  [[nodiscard]] std::uint64_t used_bytes() const {
    return has_device_ ? used_bytes_of(entry_->capabilities.side, simcu_) : 0;
  }
  // Not where others use the device; of pinned memory simcuda alone tells.
  [[nodiscard]] bool tells_used_bytes() const {
    return !spec_.shares_device && (!is_on_host() || simcu_.present);
  }
  void warn_once(const std::string& text) { allocmark::warn_once(result_, text); }

  const CellSpec& spec_;
  PassTurns* const turns_;  // null where the cell runs by itself
  const PartSink& on_part_;
  CellResult& result_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  TickClock clock_;
  SimcuApi simcu_;
  const BackendEntry* entry_ = nullptr;
  OomPolicy on_oom_ = OomPolicy::Skip;
  Capacity capacity_;
  bool has_device_ = false;
  bool over_ = false;  // the cell ends early, and the status says why
  std::uint64_t memory_limit_bytes_ = 0;
  std::uint64_t assumed_kernel_ns_ = 0;
  std::uint64_t available_bytes_ = 0;  // what the device leaves to backends, for OOM causes
  std::optional<PreparedTrace> trace_;
  std::optional<StreamSet> streams_;
  std::unique_ptr<DeviceWork> work_;
  Ballast ballast_;
  std::optional<QuietCpu> quiet_cpu_;
  std::optional<Timing> timing_;
  std::optional<UsualCalls> usual_;  // on a simulated device: host time is not to follow its load
  HostReference reference_;
  double clock_ns_ = 0, clock_step_ns_ = 0;  // what reading the clock costs, in which it advances
  std::vector<std::uint64_t> driver_ns_by_pass_;
  std::vector<void*> places_;                // of the requests of a pass without checks
  std::vector<PassParts> parts_by_pass_;     // where usual_ is
  std::uint64_t timed_placement_hash_ = 0;   // of timed passes, where they decide as they should
  std::uint64_t cold_ticks_ = 0;             // of the backend's first calls
  std::uint64_t resident_bytes_before_ = 0;  // of the process, before the backend's library loads
};

template <typename Player>
std::optional<std::uint64_t> CellRun::end_pass(Player& player, std::unique_ptr<Backend>& backend,
                                               std::uint64_t bytes_before) {
  work_->synchronize();
  player.release_live();
  backend.reset();
  if (!tells_used_bytes()) return std::nullopt;
  const std::uint64_t bytes_after = used_bytes();
  if (bytes_after <= bytes_before) return 0;
  result_.residue_bytes = std::max(result_.residue_bytes.value_or(0), bytes_after - bytes_before);
  std::string text = is_on_host()
                         ? "the backend was destroyed and some of its memory is still pinned"
                         : "the backend was destroyed and the device did not get all of its "
                           "memory back";
  if (entry_->residue_hint != nullptr) text += entry_->residue_hint(spec_.key.conf_text());
  warn_once(text);
  return bytes_after - bytes_before;
}

}  // namespace allocmark
