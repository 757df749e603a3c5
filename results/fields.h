// The one table of what a result holds, with the headers of fields that it includes (those of the
// environment are in environment_fields.h): every field's stored name and meaning, in the order in
// which it is written. The JSON writer, the JSON reader and the CSV writer walk it, and
// results/schema.json and the tables of results/DEFINITIONS.md are made from it
// (scripts/check/approve_goldens.sh), so none of them can disagree. Flows in: a struct of schema.h,
// const or not; flows out: one call on `fields` per field. Adding a metric adds one row here.
//
// `fields` offers: text, optional_text (left out where empty), integer, boolean, optional_integer,
// known_integer and known_real (0 means unknown), real, quantile (undefined where the count is 0),
// status, cause, texts, counters, optional_object, objects, histogram.
#pragma once

#include "results/field.h"
#include "results/latency_fields.h"
#include "results/pass_fields.h"
#include "results/program_fields.h"
#include "results/schema.h"

namespace allocmark::fields {

// What results/json.cc writes beside the table's rows.
inline const Field kKind{"kind", "`environment` or `cell`"};
inline const Field kVersion{"schema_version", "the version of this format"};
inline const Field kCellId{"cell_id", "the hash that names a cell, see \"Identity of a cell\""};
inline const Field kUnsupported{
    "quantiles_unsupported",
    "names of the cell's quantiles that rest on too few samples (\"Enough samples\"); those of "
    "size "
    "classes as `size_classes.CLASS.NAME`. The parts `host` and `driver` have the samples of the "
    "total and are not named. Follows from the counts",
    1};

template <typename Fields, typename Key>
void visit_key(Fields& fields, Key& key) {
  fields.text(Field{"workload",
                    "as given: a generator with parameters, a scenario, a recorded name or "
                    "`file:PATH`"},
              key.workload);
  fields.text(
      Field{"allocator", "the backend's name; `null` hands out no memory and measures the harness"},
      key.allocator);
  fields.text(Field{"conf", "the config string; `\"\"` is unset"}, key.conf);
  fields.text(Field{"device", "`sim:PROFILE` or `cuda:N`"}, key.device);
  fields.text(Field{"capacity",
                    "as given: `unlimited`, a size, or a multiple of the trace's peak of requested "
                    "bytes (`1.05x`)"},
              key.capacity);
  fields.integer(Field{"seed", "of the workload's random choices"}, key.seed);
  fields.text(Field{.name = "on_oom",
                    .meaning = "`skip`: the program goes on without the block; `stop`: the trace "
                               "ends at the first failed request; `retry-after-sync`: the program "
                               "waits for the device, asks once more, then goes on without it",
                    .choices = "skip,stop,retry-after-sync"},
              key.on_oom);
  fields.optional_text(
      Field{"workload_definition",
            "what the scenario in `workload` said when the run was planned, and of servers the "
            "figures of the device's card; left out where there is neither, and in CSV",
            5},
      key.workload_definition);
  fields.optional_text(
      Field{"workload_files",
            "hash of the bytes of the trace file in `workload`, or in what its scenario says; of "
            "several with commas between; left out where there is none, and in CSV",
            8},
      key.workload_files);
  fields.optional_text(Field{"conf_definition",
                             "the config string that the name in `conf` (`as:NAME`) stands for; no "
                             "part of the cell's identity; left out where there is no name, and in "
                             "CSV",
                             5},
                       key.conf_definition);
}

template <typename Fields, typename Growth>
void visit_growth(Fields& fields, Growth& growth) {
  fields.real(Field{.name = "bytes_per_step",
                    .meaning = "median of the slopes between any two of the steps",
                    .is_signed = true},
              growth.bytes_per_step);
  fields.real(Field{.name = "bytes_per_step_low",
                    .meaning = "lower end of its 95 % interval, by Kendall's tau",
                    .is_signed = true},
              growth.bytes_per_step_low);
  fields.real(Field{.name = "bytes_per_step_high", .meaning = "upper end", .is_signed = true},
              growth.bytes_per_step_high);
  fields.integer(Field{"step_count", "steps that it rests on: the second half of the trace's"},
                 growth.step_count);
}

template <typename Fields, typename Event>
void visit_oom_event(Fields& fields, Event& event) {
  fields.integer(Field{"event_index", "0-based place in the trace"}, event.event_index);
  fields.integer(Field{"id", "of the failed request"}, event.id);
  fields.integer(Field{"size_bytes", "of the failed request"}, event.size_bytes);
  fields.integer(Field{"stream", "of the failed request"}, event.stream);
  fields.cause(Field{"cause", "see \"OOM causes\""}, event.cause);
  fields.optional_integer(Field{"free_largest_bytes",
                                "largest cached block that could have been used for it; null where "
                                "the allocator cannot tell"},
                          event.free_largest_bytes);
  fields.optional_integer(
      Field{"free_bytes", "all cached blocks at that moment; null where not recorded"},
      event.free_bytes);
  fields.optional_integer(Field{"live_bytes", "live requests at that moment, without this one", 12},
                          event.live_bytes);
  fields.optional_integer(
      Field{"device_left_bytes", "what the card leaves to programs, see \"Capacity\"", 12},
      event.device_left_bytes);
  fields.optional_integer(Field{"limit_bytes",
                                "what a limit of the process allows it: a memory fraction, or "
                                "`@limit`; null without one",
                                12},
                          event.limit_bytes);
  fields.counters(Field{"free_by_stream",
                        "cached blocks by stream, `stream<i>` as in the trace; empty where the "
                        "allocator cannot tell",
                        12},
                  event.free_by_stream);
  fields.optional_integer(
      Field{"free_other_processes_bytes",
            "cached by other processes; null where the workload is one process", 12},
      event.free_other_processes_bytes);
}

template <typename Fields, typename Cell>
void visit_outcome(Fields& fields, Cell& cell) {
  fields.status(Field{"status", "see \"Statuses\""}, cell.status);
  fields.text(Field{"reason", "`\"\"` for `ok`; else what happened, where, and the next step"},
              cell.reason);
  fields.texts(Field{"warnings", "what to know before using the numbers"}, cell.warnings);
  fields.text(Field{"trace_name", "the trace's own name"}, cell.trace_name);
  fields.text(
      Field{"trace_hash", "hash of all events: equal hashes mean equal work, on every machine"},
      cell.trace_hash);
  fields.text(Field{"placement_hash",
                    "hash of where every allocation landed relative to the first; equal hashes "
                    "mean that the allocator decided the same"},
              cell.placement_hash);
  fields.integer(Field{"event_count", "events of the trace"}, cell.event_count);
  fields.integer(
      Field{"allocate_count", "requests of the trace, whether or not they were served or reached"},
      cell.allocate_count);
  fields.integer(Field{"deallocate_count", "frees of the trace, whether or not they were reached"},
                 cell.deallocate_count);
}

template <typename Fields, typename Cell>
void visit_oom(Fields& fields, Cell& cell) {
  fields.integer(Field{"oom_count", "failed requests; with `stop` at most 1"}, cell.oom_count);
  fields.integer(
      Field{"skipped_free_count", "frees that were left out because their allocation had failed"},
      cell.skipped_free_count);
  fields.integer(Field{"failed_before_count",
                       "requests that failed when the trace was recorded and after which the "
                       "program went on: asked here, and in no other count of requests or failures",
                       12},
                 cell.failed_before_count);
  fields.integer(Field{"failed_again_count", "those of them that fail here, too", 12},
                 cell.failed_again_count);
  fields.integer(Field{"trial_count", "timed passes"}, cell.trial_count);
  fields.integer(Field{"trial_oom_count",
                       "timed passes in which a request failed. A deterministic allocator gives "
                       "none or all; it says nothing about other seeds"},
                 cell.trial_oom_count);
  fields.cause_counts(
      Field{"oom_count_", "failed requests by cause, see \"OOM causes\"; they sum to `oom_count`",
            0,
            "oom_count_{capacity,rounding,stranded,fragmentation,unknown,pending,limit,"
            "other_process,refused,host_lost}"},
      cell.oom_cause_counts);
  fields.optional_object(
      Field{"oom_first", "the first failed request, see \"Fields of oom_first\"; or null"},
      cell.oom_first, [](auto& nested, auto& event) { visit_oom_event(nested, event); });
}

// What no allocator can undercut.
template <typename Fields, typename Cell>
void visit_bounds(Fields& fields, Cell& cell) {
  fields.integer(
      Field{
          "requested_bytes_peak",
          "most bytes live at once in the trace as written, without rounding, served here or not: "
          "what a perfect allocator would need. Without requests that failed when recorded"},
      cell.requested_bytes_peak);
  fields.optional_integer(
      Field{"rounded_bytes_peak",
            "the same with every request rounded up to 512 B, in which most allocators align", 15},
      cell.rounded_bytes_peak);
  fields.optional_integer(
      Field{"packed_bytes",
            "what the requests, rounded likewise, take in the best packing that a short search "
            "found, which knows all of them beforehand, see \"Regret\"; null above 20,000 requests",
            15},
      cell.packed_bytes);
}

template <typename Fields, typename Cell>
void visit_memory(Fields& fields, Cell& cell) {
  fields.integer(
      Field{"capacity_bytes", "what the cell might use, see \"Capacity\"; the total before 1.12"},
      cell.capacity_bytes);
  visit_bounds(fields, cell);
  fields.optional_integer(
      Field{"allocated_bytes_peak",
            "most bytes handed out, rounded as the allocator rounds; null where the allocator "
            "cannot tell, as for the next five"},
      cell.allocated_bytes_peak);
  fields.optional_integer(
      Field{"active_bytes_peak", "the same with blocks that wait for another stream"},
      cell.active_bytes_peak);
  fields.optional_integer(
      Field{"reserved_bytes_peak",
            "most bytes taken from the device and not returned, cached blocks included"},
      cell.reserved_bytes_peak);
  fields.optional_integer(Field{"allocated_bytes_at_reserved_peak",
                                "handed out when `reserved_bytes_peak` was first reached"},
                          cell.allocated_bytes_at_reserved_peak);
  fields.optional_integer(Field{"requested_bytes_at_reserved_peak",
                                "asked for by the program and served, at that moment"},
                          cell.requested_bytes_at_reserved_peak);
  fields.optional_integer(Field{"reserved_bytes_at_requested_peak",
                                "taken from the device when the program's served requests were "
                                "most; null where not recorded"},
                          cell.reserved_bytes_at_requested_peak);
  fields.optional_object(
      Field{"growth", "reserved less live memory from step to step; null with fewer than 16 steps",
            5},
      cell.growth, [](auto& nested, auto& growth) { visit_growth(nested, growth); });
  fields.optional_integer(Field{"device_bytes_peak",
                                "most bytes taken as the device sees it, its granularity and other "
                                "programs' included. Null beside other cells on a GPU (`--jobs`)"},
                          cell.device_bytes_peak);
  fields.optional_integer(Field{"device_allocate_count",
                                "calls that took memory from the device, in one pass; null where "
                                "the allocator cannot tell"},
                          cell.device_allocate_count);
  fields.optional_integer(Field{"device_free_count", "calls that gave it back, likewise"},
                          cell.device_free_count);
  fields.optional_integer(
      Field{"retry_count",
            "device calls repeated after cached memory was given back; null where not known"},
      cell.retry_count);
  fields.optional_integer(
      Field{"synchronize_all_count",
            "times the allocator waited for all its streams; null where not known"},
      cell.synchronize_all_count);
}

template <typename Fields, typename Cell>
void visit_calls(Fields& fields, Cell& cell) {
  fields.counters(
      Field{
          "counters",
          "the allocator's own counters after the trace, by the names its users know. A workload "
          "of several processes has `process<i>.requests`, `process<i>.out_of_memory` (failed), "
          "`process<i>.reserved_bytes_peak`, `remedy.*` instead. `recording.out_of_memory`: then"},
      cell.counters);
  fields.counters(
      Field{"driver_calls",
            "CUDA calls that the allocator made in the checked pass, by function, as simcuda "
            "counts them on the thread that replays; empty on a GPU",
            5},
      cell.driver_calls);
}

template <typename Fields, typename Cell>
void visit_latencies(Fields& fields, Cell& cell) {
  fields.integer(
      Field{"pass_count",
            "timed passes; each replays the same trace on a fresh instance of the allocator"},
      cell.pass_count);
  fields.known_integer(
      Field{"passes_to_come",
            "timed passes that were still to be made when the line was written; null where all "
            "were made. Above 0 the run ended early: the other figures are whole",
            7},
      cell.passes_to_come);
  visit_operation(fields, "allocate", cell.allocate);
  visit_operation(fields, "deallocate", cell.deallocate);
  visit_scaled(fields, cell);
  visit_repeat(fields, cell.repeat);
  fields.objects(
      Field{"size_classes", "latency by requested size; classes without samples are left out"},
      cell.size_classes, [](auto& nested, auto& item) { visit_size_class(nested, item); });
  fields.objects(Field{"passes", "each timed pass, in order: the spread of the cell's numbers"},
                 cell.passes, [](auto& nested, auto& item) { visit_pass(nested, item); });
  fields.optional_object(
      Field{"requests",
            "how long requests to a server took, see \"Requests\"; null where the trace tells of "
            "none",
            2},
      cell.requests, [](auto& nested, auto& requests) { visit_requests(nested, requests); });
}

// What the cell found out beside its figures.
template <typename Fields, typename Cell>
void visit_findings(Fields& fields, Cell& cell) {
  fields.known_real(Field{"cold_ns",
                          "host time of the allocator's first 256 calls in the process, which the "
                          "checked pass makes; null where it was not measured",
                          5},
                    cell.cold_ns);
  fields.optional_integer(
      Field{"residue_bytes",
            "the most device bytes not returned after an instance was destroyed. Above 0 it is a "
            "leak where the cell has the device to itself; beside other programs it holds what "
            "they took meanwhile. Null where other cells ran on the same GPU (`--jobs`)"},
      cell.residue_bytes);
  fields.optional_integer(
      Field{"unordered_reuse_count",
            "allocations of the untimed passes that got memory whose former user nothing orders "
            "before the new one. On simcuda all of them; on a GPU those that were seen, so 0 "
            "proves nothing there. An allocator that promises stream order fails at the first. "
            "Null where nobody looked",
            5},
      cell.unordered_reuse_count);
  fields.optional_integer(
      Field{"contents_oom_count",
            "failed requests of the pass that looks into blocks, whose reads and writes an "
            "allocator can see in its streams; `oom_count` is of the checked pass, without them. "
            "Null where there was no such pass",
            6},
      cell.contents_oom_count);
  fields.text(Field{"contents_placement_hash",
                    "`placement_hash` of that pass; `\"\"` where there was none", 6},
              cell.contents_placement_hash);
  fields.optional_integer(
      Field{"host_taken_bytes",
            "resident memory that the cell's process holds after the timed passes, beyond what it "
            "held before the first instance: the allocator's tables, and the harness's. Null "
            "without timed passes",
            14},
      cell.host_taken_bytes);
  fields.optional_integer(
      Field{"other_threads_ns_per_s",
            "processor time that threads beside the one that replays took during the timed passes, "
            "per second. Null likewise",
            14},
      cell.other_threads_ns_per_s);
  fields.optional_integer(
      Field{"unimplemented_call_count",
            "calls of the cell that failed because simcuda lacks the function; a GPU would have "
            "served them. Null on a GPU",
            5},
      cell.unimplemented_call_count);
}

template <typename Fields, typename Cell>
void visit_cell(Fields& fields, Cell& cell) {
  visit_key(fields, cell.key);
  visit_outcome(fields, cell);
  visit_oom(fields, cell);
  visit_memory(fields, cell);
  visit_calls(fields, cell);
  visit_latencies(fields, cell);
  visit_program(fields, cell);
  visit_findings(fields, cell);
}

}  // namespace allocmark::fields
