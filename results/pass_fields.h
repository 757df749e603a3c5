// The rows of one timed pass in the table of fields (results/fields.h).
#pragma once

#include <string_view>

#include "results/field.h"

namespace allocmark::fields {

template <typename Fields, typename Pass>
void visit_settled(Fields& fields, Pass& pass) {
  fields.known_real(
      Field{"allocator_undisturbed_ns_per_step",
            "as the cell's, median over the steps of this pass; null where nobody looked", 12},
      pass.allocator_undisturbed_ns_per_step);
  fields.known_real(
      Field{"allocator_undisturbed_ns",
            "the allocator's total time in this pass, failed requests and trims included, with "
            "disturbed calls as they usually are, see \"Disturbed calls\"; null on a GPU",
            12},
      pass.allocator_undisturbed_ns);
  fields.known_real(Field{"allocator_scaled_ns",
                          "the same with scaled host parts; null where nothing was scaled", 12},
                    pass.allocator_scaled_ns);
  fields.known_real(
      Field{"thread_cpu_ns",
            "processor time of the thread that replays, in the pass: the harness's, the driver's "
            "model and the allocator's own code, without what others take of the processor",
            14},
      pass.thread_cpu_ns);
}

template <typename Fields, typename Pass>
void visit_pass(Fields& fields, Pass& pass) {
  const std::string_view latency = "total latency in this pass";
  fields.real(Field{"allocate_latency_ns_p50", latency}, pass.allocate_p50_ns);
  fields.real(Field{"allocate_latency_ns_p99", latency}, pass.allocate_p99_ns);
  fields.real(Field{"deallocate_latency_ns_p50", latency}, pass.deallocate_p50_ns);
  fields.real(Field{"wall_ns",
                    "host time of replaying the trace: with the harness, without modelled driver "
                    "time"},
              pass.wall_ns);
  const auto histogram = [](const char* name) {
    return Field{name,
                 "how often which total latency was seen in this pass, see \"Histograms\"; null "
                 "without samples",
                 1, "{allocate,deallocate}_latency_histogram"};
  };
  fields.histogram(histogram("allocate_latency_histogram"), pass.allocate_buckets);
  fields.histogram(histogram("deallocate_latency_histogram"), pass.deallocate_buckets);
  fields.known_real(
      Field{"allocator_ns_per_step",
            "as the cell's, median over the steps of this pass; null without marks", 4},
      pass.allocator_ns_per_step);
  fields.known_real(Field{"allocator_scaled_ns_per_step",
                          "the same with scaled host parts; null where nothing was scaled", 11},
                    pass.allocator_scaled_ns_per_step);
  fields.known_real(Field{"request_latency_ns_p99",
                          "P99 of the latency of this pass's requests; null where the trace tells "
                          "of none",
                          4},
                    pass.request_latency_ns_p99);
  const auto own = [](const char* name) {
    return Field{name,
                 "the same of the allocator's own code: host time of the calls for which the "
                 "simulated driver had nothing to do, or of all calls where those are fewer than "
                 "half; null on a GPU, whose host time contains the driver's",
                 5, "{allocate,deallocate}_own_latency_histogram"};
  };
  fields.histogram(own("allocate_own_latency_histogram"), pass.allocate_own_buckets);
  fields.histogram(own("deallocate_own_latency_histogram"), pass.deallocate_own_buckets);
  fields.optional_integer(Field{"oom_count", "failed requests of this pass", 5}, pass.oom_count);
  fields.optional_integer(
      Field{"residue_bytes",
            "as the cell's, after this pass; above 0 in every pass is a leak. Null as the cell's",
            5},
      pass.residue_bytes);
  fields.known_real(Field{"step_ns_mean", "as the cell's, of this pass", 13}, pass.step_ns_mean);
  fields.known_real(
      Field{"begin_s", "when this pass began, since the cell's process did, waits included", 7},
      pass.begin_s);
  fields.known_real(Field{"host_reference_ns",
                          "what the reference took on this processor just before the pass, see "
                          "\"Host time on another host\"; null where it was not measured",
                          7},
                    pass.host_reference_ns);
  visit_settled(fields, pass);
}

}  // namespace allocmark::fields
