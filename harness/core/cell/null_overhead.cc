// The null backend under the recorder. This file times.
#include "harness/core/cell/null_overhead.h"

#include <algorithm>
#include <memory>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/replay.h"

namespace allocmark {

LatencySummary null_overhead(const TraceBatch& prefix, const NullOverheadSetup& setup) {
  if (prefix.steps.empty()) return {};
  const RecorderOptions options{.scale = setup.clock->scale(),
                                .has_driver_model = setup.simcu_clock != nullptr};
  Recorder recorder(options);
  const std::unique_ptr<DeviceWork> work = make_no_device_work();
  const StreamSet streams(setup.stream_count, /*has_device=*/false);
  const std::uint64_t round_count =
      1 + std::max<std::uint64_t>(1, setup.event_count_min / prefix.steps.size());
  for (std::uint64_t round = 0; round < round_count; ++round) {
    const std::unique_ptr<Backend> backend = find_backend("null").make(BackendOptions{});
    Replayer replayer(ReplaySetup{.backend = backend.get(),
                                  .work = work.get(),
                                  .streams = streams.all(),
                                  .recorder = &recorder,
                                  .clock = setup.clock,
                                  .simcu_clock = setup.simcu_clock});
    replayer.reserve_slots(prefix.slot_count);
    replayer.run(prefix.steps);
    if (round == 0) recorder.clear();
  }
  return recorder.latency_all();
}

NullProgram null_program(PreparedTrace& trace, const NullProgramSetup& setup) {
  // As in the timed passes: the recorder's own work is part of the program there.
  Recorder recorder(
      {.scale = setup.clock->scale(), .has_driver_model = setup.simcu_clock != nullptr});
  StepClock program(*setup.clock, setup.simcu_clock, /*step_count_max=*/0,
                    trace.facts().preamble_label);
  for (std::uint32_t i = 0; i < setup.pass_count; ++i) {
    recorder.clear();
    const std::unique_ptr<Backend> backend = find_backend("null").make(BackendOptions{});
    Replayer replayer(ReplaySetup{.backend = backend.get(),
                                  .work = setup.work,
                                  .streams = setup.streams,
                                  .recorder = &recorder,
                                  .steps = &program,
                                  .clock = setup.clock,
                                  .simcu_clock = setup.simcu_clock});
    program.begin_pass();
    trace.for_each_step_batch([&](const TraceBatch& batch) {
      replayer.reserve_slots(batch.slot_count);
      program.resume();
      replayer.run(batch.steps);
      program.pause();
      return true;
    });
    program.resume();
    setup.work->synchronize();
    program.pause();
    program.end_pass(replayer.counts().allocate_count);
  }
  return {.program_ns = program.program_ns_median(), .step_ns_mean = program.step_ns_mean()};
}

}  // namespace allocmark
