// The one list of what a result holds: every field's stored name, in the order in which it is
// written. The JSON writer, the JSON reader and the CSV writer all walk this list, so that they
// cannot disagree. Flows in: a struct of schema.h, const or not; flows out: one call on `fields`
// per field. Adding a metric adds one line here.
//
// `fields` offers: text, integer, boolean, optional_integer, known_integer and known_real (0 means
// unknown), real, quantile (undefined where the count is 0), status, cause, texts, counters,
// optional_object, objects, histogram.
#pragma once

#include <string>

#include "results/schema.h"

namespace allocmark::fields {

template <typename Fields, typename Key>
void visit_key(Fields& fields, Key& key) {
  fields.text("workload", key.workload);
  fields.text("allocator", key.allocator);
  fields.text("conf", key.conf);
  fields.text("device", key.device);
  fields.text("capacity", key.capacity);
  fields.integer("seed", key.seed);
  fields.text("on_oom", key.on_oom);
}

template <typename Fields, typename Summary>
void visit_summary(Fields& fields, const std::string& prefix, Summary& summary) {
  fields.integer(prefix + "_count", summary.count);
  fields.quantile(prefix + "_ns_p50", summary.count, summary.p50_ns);
  fields.quantile(prefix + "_ns_p90", summary.count, summary.p90_ns);
  fields.quantile(prefix + "_ns_p99", summary.count, summary.p99_ns);
  fields.quantile(prefix + "_ns_p999", summary.count, summary.p999_ns);
  fields.quantile(prefix + "_ns_max", summary.count, summary.max_ns);
  fields.quantile(prefix + "_ns_mean", summary.count, summary.mean_ns);
}

template <typename Fields, typename Operation>
void visit_operation(Fields& fields, const std::string& name, Operation& operation) {
  visit_summary(fields, name + "_latency", operation.total);
  visit_summary(fields, name + "_host_latency", operation.host);
  visit_summary(fields, name + "_driver_latency", operation.driver);
}

template <typename Fields, typename Interval>
void visit_interval(Fields& fields, const std::string& name, Interval& interval) {
  fields.known_real(name + "_repeat_low", interval.low_ns);
  fields.known_real(name + "_repeat_high", interval.high_ns);
  fields.known_real(name + "_repeat_between_share", interval.between_share);
}

template <typename Fields, typename Repeat>
void visit_repeat(Fields& fields, Repeat& repeat) {
  visit_interval(fields, "allocate_latency_ns_p50", repeat.allocate_p50);
  visit_interval(fields, "allocate_latency_ns_p99", repeat.allocate_p99);
  visit_interval(fields, "deallocate_latency_ns_p50", repeat.deallocate_p50);
  visit_interval(fields, "deallocate_latency_ns_p99", repeat.deallocate_p99);
}

template <typename Fields, typename Event>
void visit_oom_event(Fields& fields, Event& event) {
  fields.integer("event_index", event.event_index);
  fields.integer("id", event.id);
  fields.integer("size_bytes", event.size_bytes);
  fields.integer("stream", event.stream);
  fields.cause("cause", event.cause);
  fields.optional_integer("free_largest_bytes", event.free_largest_bytes);
  fields.optional_integer("free_bytes", event.free_bytes);
}

template <typename Fields, typename SizeClass>
void visit_size_class(Fields& fields, SizeClass& size_class) {
  fields.text("size_class", size_class.size_class);
  visit_operation(fields, "allocate", size_class.allocate);
  visit_operation(fields, "deallocate", size_class.deallocate);
}

template <typename Fields, typename Pass>
void visit_pass(Fields& fields, Pass& pass) {
  fields.real("allocate_latency_ns_p50", pass.allocate_p50_ns);
  fields.real("allocate_latency_ns_p99", pass.allocate_p99_ns);
  fields.real("deallocate_latency_ns_p50", pass.deallocate_p50_ns);
  fields.real("wall_ns", pass.wall_ns);
  fields.histogram("allocate_latency_histogram", pass.allocate_buckets);
  fields.histogram("deallocate_latency_histogram", pass.deallocate_buckets);
  fields.known_real("allocator_ns_per_step", pass.allocator_ns_per_step);
  fields.known_real("request_latency_ns_p99", pass.request_latency_ns_p99);
}

template <typename Fields, typename Requests>
void visit_requests(Fields& fields, Requests& requests) {
  visit_summary(fields, "latency", requests.latency);
  visit_summary(fields, "first_token_latency", requests.first_token);
  visit_summary(fields, "ideal_latency", requests.ideal_latency);
  visit_summary(fields, "ideal_first_token_latency", requests.ideal_first_token);
  visit_summary(fields, "delay", requests.delay);
}

template <typename Fields, typename Cell>
void visit_oom(Fields& fields, Cell& cell) {
  fields.integer("oom_count", cell.oom_count);
  fields.integer("skipped_free_count", cell.skipped_free_count);
  fields.integer("trial_count", cell.trial_count);
  fields.integer("trial_oom_count", cell.trial_oom_count);
  fields.cause_counts("oom_count_", cell.oom_cause_counts);
  fields.optional_object("oom_first", cell.oom_first,
                         [](auto& nested, auto& event) { visit_oom_event(nested, event); });
}

template <typename Fields, typename Cell>
void visit_memory(Fields& fields, Cell& cell) {
  fields.integer("capacity_bytes", cell.capacity_bytes);
  fields.integer("requested_bytes_peak", cell.requested_bytes_peak);
  fields.optional_integer("allocated_bytes_peak", cell.allocated_bytes_peak);
  fields.optional_integer("active_bytes_peak", cell.active_bytes_peak);
  fields.optional_integer("reserved_bytes_peak", cell.reserved_bytes_peak);
  fields.optional_integer("allocated_bytes_at_reserved_peak",
                          cell.allocated_bytes_at_reserved_peak);
  fields.optional_integer("requested_bytes_at_reserved_peak",
                          cell.requested_bytes_at_reserved_peak);
  fields.optional_integer("reserved_bytes_at_requested_peak",
                          cell.reserved_bytes_at_requested_peak);
  fields.integer("device_bytes_peak", cell.device_bytes_peak);
  fields.optional_integer("device_allocate_count", cell.device_allocate_count);
  fields.optional_integer("device_free_count", cell.device_free_count);
  fields.optional_integer("retry_count", cell.retry_count);
  fields.optional_integer("synchronize_all_count", cell.synchronize_all_count);
  fields.counters("counters", cell.counters);
}

template <typename Fields, typename Cell>
void visit_cell(Fields& fields, Cell& cell) {
  visit_key(fields, cell.key);
  fields.status("status", cell.status);
  fields.text("reason", cell.reason);
  fields.texts("warnings", cell.warnings);
  fields.text("trace_name", cell.trace_name);
  fields.text("trace_hash", cell.trace_hash);
  fields.text("placement_hash", cell.placement_hash);
  fields.integer("event_count", cell.event_count);
  fields.integer("allocate_count", cell.allocate_count);
  fields.integer("deallocate_count", cell.deallocate_count);
  visit_oom(fields, cell);
  visit_memory(fields, cell);
  fields.integer("pass_count", cell.pass_count);
  visit_operation(fields, "allocate", cell.allocate);
  visit_operation(fields, "deallocate", cell.deallocate);
  visit_repeat(fields, cell.repeat);
  fields.objects("size_classes", cell.size_classes,
                 [](auto& nested, auto& item) { visit_size_class(nested, item); });
  fields.objects("passes", cell.passes, [](auto& nested, auto& item) { visit_pass(nested, item); });
  fields.optional_object("requests", cell.requests,
                         [](auto& nested, auto& requests) { visit_requests(nested, requests); });
  fields.known_real("allocator_ns_per_step", cell.allocator_ns_per_step);
  fields.real("modelled_driver_ns_total", cell.modelled_driver_ns_total);
  fields.known_real("step_ns_p50", cell.step_ns_p50);
  fields.known_real("program_ns", cell.program_ns);
  fields.known_real("program_ideal_ns", cell.program_ideal_ns);
  fields.optional_integer("kernel_ns_total", cell.kernel_ns_total);
  fields.real("harness_overhead_ns_p50", cell.harness_overhead_ns_p50);
  fields.real("wall_s", cell.wall_s);
  fields.integer("residue_bytes", cell.residue_bytes);
}

template <typename Fields, typename Host>
void visit_environment(Fields& fields, Host& environment) {
  fields.text("allocmark_version", environment.allocmark_version);
  fields.text("git_sha", environment.git_sha);
  fields.boolean("git_dirty", environment.git_dirty);
  fields.text("build_type", environment.build_type);
  fields.text("compiler", environment.compiler);
  fields.texts("argv", environment.argv);
  fields.text("started_utc", environment.started_utc);
  fields.text("hostname_hash", environment.hostname_hash);
  fields.text("os", environment.os);
  fields.text("kernel", environment.kernel);
  fields.text("cpu_model", environment.cpu_model);
  fields.text("cpu_governor", environment.cpu_governor);
  fields.known_integer("cpu_count", environment.cpu_count);
  fields.known_integer("memory_bytes", environment.memory_bytes);
  fields.text("device", environment.device);
  fields.text("gpu_name", environment.gpu_name);
  fields.text("gpu_uuid_hash", environment.gpu_uuid_hash);
  fields.known_integer("gpu_memory_bytes", environment.gpu_memory_bytes);
  fields.text("driver_version", environment.driver_version);
  fields.text("runtime_version", environment.runtime_version);
  fields.text("profile_name", environment.profile_name);
  fields.text("profile_hash", environment.profile_hash);
  fields.known_real("clock_resolution_ns", environment.clock_resolution_ns);
  fields.known_real("clock_overhead_ns", environment.clock_overhead_ns);
  fields.texts("warnings", environment.warnings);
}

}  // namespace allocmark::fields
