// The rows of latencies in the table of fields (results/fields.h): a cell's, scaled to another
// host, measured again, by size class, and those of a server's requests.
#pragma once

#include <string>
#include <string_view>

#include "results/field.h"

namespace allocmark::fields {

template <typename Fields, typename Summary>
void visit_summary(Fields& fields, const LatencyFields& of, Summary& summary) {
  const std::string row = of.row + "_ns_{p50,p90,p99,p999,max,mean}";
  const auto value = [&](const char* suffix) {
    return Field{of.name + suffix, of.meaning, 0, row};
  };
  fields.integer(Field{of.name + "_count", of.count_meaning, 0, of.row + "_count"}, summary.count);
  fields.quantile(value("_ns_p50"), summary.count, summary.p50_ns);
  fields.quantile(value("_ns_p90"), summary.count, summary.p90_ns);
  fields.quantile(value("_ns_p99"), summary.count, summary.p99_ns);
  fields.quantile(value("_ns_p999"), summary.count, summary.p999_ns);
  fields.quantile(value("_ns_max"), summary.count, summary.max_ns);
  fields.quantile(value("_ns_mean"), summary.count, summary.mean_ns);
}

template <typename Fields, typename Operation>
void visit_operation(Fields& fields, const std::string& name, Operation& operation) {
  const auto part = [&](const char* suffix) {
    return LatencyFields{
        .name = name + suffix,
        .row = "{allocate,deallocate}_{,host_,driver_}latency",
        .count_meaning = "samples; failed requests are not among them",
        .meaning = "quantiles, largest sample and mean, see \"Latency\"; null without samples"};
  };
  visit_summary(fields, part("_latency"), operation.total);
  visit_summary(fields, part("_host_latency"), operation.host);
  visit_summary(fields, part("_driver_latency"), operation.driver);
}

template <typename Fields, typename Interval>
void visit_interval(Fields& fields, const std::string& name, Interval& interval) {
  const std::string row = "{allocate,deallocate}_latency_ns_{p50,p99}_repeat_";
  const auto end = [&](const char* suffix) {
    return Field{name + suffix,
                 "where a second measurement of this number is expected at 95 %, see \"Measured "
                 "again\"; null where it is not stated",
                 3, row + "{low,high}"};
  };
  fields.known_real(end("_repeat_low"), interval.low_ns);
  fields.known_real(end("_repeat_high"), interval.high_ns);
  fields.known_real(
      Field{name + "_repeat_between_share",
            "what was taken for the difference of two runs at 95 % (0.13 is 13 %): a calibration's "
            "or the default",
            3, row + "between_share"},
      interval.between_share);
}

template <typename Fields, typename Cell>
void visit_scaled(Fields& fields, Cell& cell) {
  const auto value = [](const char* name) {
    return Field{
        name,
        "total latency with its host part scaled to another host, or to this one without load, see "
        "\"Host time on another host\"; null where nothing was scaled",
        7, "{allocate,deallocate}_scaled_latency_ns_{p50,p99}"};
  };
  fields.known_real(value("allocate_scaled_latency_ns_p50"), cell.scaled.allocate_p50_ns);
  fields.known_real(value("allocate_scaled_latency_ns_p99"), cell.scaled.allocate_p99_ns);
  fields.known_real(value("deallocate_scaled_latency_ns_p50"), cell.scaled.deallocate_p50_ns);
  fields.known_real(value("deallocate_scaled_latency_ns_p99"), cell.scaled.deallocate_p99_ns);
  fields.known_real(Field{"host_reference_ns",
                          "what the reference took beside the timed passes, their median; null "
                          "where it was not measured",
                          7},
                    cell.host_reference_ns);
  fields.known_real(Field{"host_scale",
                          "what host parts were multiplied by for the scaled values, median of "
                          "the passes",
                          7},
                    cell.host_scale);
  fields.known_real(
      Field{.name = "host_shift_ns",
            .meaning = "what was then added for the cost of reading the clock, median of "
                       "the passes; null where nothing was",
            .since_minor = 10,
            .is_signed = true},
      cell.host_shift_ns);
  fields.known_real(Field{"host_clock_ns",
                          "what was taken off each host part before that: a pair of readings of "
                          "this clock; null where nothing was",
                          11},
                    cell.host_clock_ns);
  fields.known_real(Field{"host_clock_step_ns",
                          "step of this clock, over which host parts were spread; null where "
                          "nothing was scaled",
                          11},
                    cell.host_clock_step_ns);
}

template <typename Fields, typename Repeat>
void visit_repeat(Fields& fields, Repeat& repeat) {
  visit_interval(fields, "allocate_latency_ns_p50", repeat.allocate_p50);
  visit_interval(fields, "allocate_latency_ns_p99", repeat.allocate_p99);
  visit_interval(fields, "deallocate_latency_ns_p50", repeat.deallocate_p50);
  visit_interval(fields, "deallocate_latency_ns_p99", repeat.deallocate_p99);
}

template <typename Fields, typename SizeClass>
void visit_size_class(Fields& fields, SizeClass& size_class) {
  fields.text(Field{"size_class",
                    "bounds of the requested size, `<=512B` to `>512MiB`; 10 MiB itself belongs to "
                    "the class above `<10MiB`"},
              size_class.size_class);
  visit_operation(fields, "allocate", size_class.allocate);
  visit_operation(fields, "deallocate", size_class.deallocate);
}

template <typename Fields, typename Requests>
void visit_requests(Fields& fields, Requests& requests) {
  const auto of = [](const char* name, std::string_view count_meaning, std::string_view meaning) {
    return LatencyFields{
        .name = name, .row = name, .count_meaning = count_meaning, .meaning = meaning};
  };
  visit_summary(fields,
                of("latency", "requests answered, over all passes",
                   "from arrival to the answer's last token"),
                requests.latency);
  visit_summary(fields,
                of("first_token_latency", "requests with a first token, over all passes",
                   "from arrival to the first token; no samples where a server has no tokens to "
                   "give (embeddings)"),
                requests.first_token);
  visit_summary(fields,
                of("ideal_latency", "requests answered, on the ideal clock",
                   "latency with an allocator that costs nothing: the same for every allocator"),
                requests.ideal_latency);
  visit_summary(fields,
                of("ideal_first_token_latency", "requests with a first token, on the ideal clock",
                   "time to the first token with an allocator that costs nothing"),
                requests.ideal_first_token);
  visit_summary(fields,
                of("delay", "requests answered",
                   "latency less ideal latency, request by request: what the allocator added, "
                   "waits behind other late requests included"),
                requests.delay);
}

}  // namespace allocmark::fields
