// See program.h.
#include "harness/core/profile/program.h"

#include <memory>
#include <span>

#include "harness/core/replay/trace_compiler.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {

std::uint64_t held_bytes_before(const SlotProgram& program, std::size_t step_index) {
  std::uint64_t held_bytes = 0;
  for (const SlotStep& step : std::span(program.steps).first(step_index)) {
    held_bytes += step.is_free ? -step.size_bytes : step.size_bytes;
  }
  return held_bytes;
}

SlotProgram load_program(std::string_view workload) {
  const std::unique_ptr<EventSource> source = open_workload(workload, 0);
  TraceCompiler compiler;
  std::vector<ReplayStep> compiled;
  while (true) {
    const std::span<const Event> events = source->next();
    if (events.empty()) break;
    compiler.compile(events, compiled, source->labels());
  }
  SlotProgram program{.steps = {}, .slot_count = compiler.slot_count()};
  std::vector<std::uint64_t> live(program.slot_count, 0);
  for (const ReplayStep& step : compiled) {
    if (step.kind != EventKind::Alloc && step.kind != EventKind::Free) continue;
    const bool is_free = step.kind == EventKind::Free;
    program.steps.push_back({.slot = step.slot, .size_bytes = step.size_bytes, .is_free = is_free});
    live[step.slot] = is_free ? 0 : step.size_bytes;
  }
  for (std::uint32_t slot = 0; slot < program.slot_count; ++slot) {
    if (live[slot] == 0) continue;
    program.steps.push_back({.slot = slot, .size_bytes = live[slot], .is_free = true});
  }
  return program;
}

}  // namespace allocmark
