// The rows about steps and the whole program in the table of fields (results/fields.h).
#pragma once

#include "results/field.h"

namespace allocmark::fields {

// How long the program's steps take, and what is known of its own work.
template <typename Fields, typename Cell>
void visit_steps(Fields& fields, Cell& cell) {
  fields.known_real(
      Field{"step_ns_p50",
            "median time between two step marks, with everything in it, see \"Steps and program "
            "time\"; null without marks",
            2},
      cell.step_ns_p50);
  fields.known_real(
      Field{"step_ns_mean",
            "mean time of a step by the same clock, median of the passes: of the parts in which "
            "something was asked, without what a recording holds before its first step; null "
            "without marks",
            13},
      cell.step_ns_mean);
  fields.known_real(
      Field{"step_ideal_ns_mean",
            "the same with the null allocator and the same kernels; null where the trace has no "
            "kernels. What a setting adds to a step is the difference",
            13},
      cell.step_ideal_ns_mean);
  fields.known_real(Field{"program_ns",
                          "time of one pass by the same clock, until the device has done all its "
                          "work; median of the passes",
                          2},
                    cell.program_ns);
  fields.known_real(
      Field{"program_ideal_ns",
            "the same with the null allocator and the same kernels; null where the trace has no "
            "kernels (`--kernels`)",
            2},
      cell.program_ideal_ns);
  fields.optional_integer(
      Field{"kernel_ns_total",
            "durations of the trace's kernels, summed over streams; null where it has none", 2},
      cell.kernel_ns_total);
  fields.optional_integer(
      Field{
          "assumed_kernel_ns",
          "length of the kernel that the checked pass assumed after every request, because the "
          "recording tells nothing of the device's work and the driver's pools decide by it; null "
          "where none was. Timed passes have none",
          13},
      cell.assumed_kernel_ns);
  fields.optional_integer(
      Field{"idle_oom_count", "failed requests without those kernels, on an idle device", 13},
      cell.idle_oom_count);
  fields.optional_integer(
      Field{"host_ns_total",
            "the program's own time on the host, as recorded (`host` events); null where the trace "
            "does not tell it",
            13},
      cell.host_ns_total);
}

template <typename Fields, typename Cell>
void visit_program(Fields& fields, Cell& cell) {
  fields.known_real(
      Field{"allocator_ns_per_step",
            "the allocator's total time between two step marks, median, failed requests and trims "
            "included; null without marks"},
      cell.allocator_ns_per_step);
  fields.known_real(
      Field{"allocator_undisturbed_ns_per_step",
            "the same with disturbed calls as they usually are, see \"Disturbed calls\"; null on a "
            "GPU",
            12},
      cell.allocator_undisturbed_ns_per_step);
  fields.known_real(
      Field{"allocator_scaled_ns_per_step",
            "that with host parts scaled to another host, see \"Host time on another host\"; null "
            "where nothing was scaled. Before schema 1.12 disturbed calls are in it as measured",
            11},
      cell.allocator_scaled_ns_per_step);
  fields.real(Field{"modelled_driver_ns_total",
                    "driver time modelled in one pass, median of the passes; 0 on a GPU"},
              cell.modelled_driver_ns_total);
  visit_steps(fields, cell);
  fields.real(Field{"harness_overhead_ns_p50",
                    "P50 of allocate on the null backend in the same process: what the harness "
                    "adds to each sample"},
              cell.harness_overhead_ns_p50);
  fields.real(Field{"wall_s",
                    "the whole cell with its set-up and its untimed passes; no measure of the "
                    "allocator"},
              cell.wall_s);
}

}  // namespace allocmark::fields
