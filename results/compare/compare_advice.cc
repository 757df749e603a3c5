// What to do about each kind of number that differs.
#include <string>

#include "results/compare/compare_writers.h"

namespace allocmark {
namespace {

// Of what the allocator takes of the host; empty for other numbers.
std::string advice_on_host(const std::string& name) {
  if (name.starts_with("live_objects.")) {
    return "CUDA objects that the allocator made and did not end are alive when it is destroyed: "
           "SIMCUDA_CALL_LOG=FILE lists every driver call";
  }
  if (name == "host_taken_bytes") {
    return "the process holds more of the host's memory after the passes, in every round: look at "
           "tables, and at what is kept of each request";
  }
  if (name == "other_threads_ns_per_s") {
    return "a thread of the library takes processor time while the program works: perf record "
           "--per-thread shows which";
  }
  return {};
}

std::string advice_on_times(const std::string& name) {
  if (name.ends_with("_p999") || name.ends_with("_max") || name == "thread_cpu_ns") {
    return "rare calls take long: a table that grows, a lock that another thread holds, work that "
           "is put off";
  }
  return name.find("own") != std::string::npos || name == "cold_ns"
             ? "the allocator's own code is slower: perf record on the cell shows where"
             : "the driver's calls are in this time: look at the lines on calls first";
}

}  // namespace

std::string advice_for(const CellComparison& cell, const NumberComparison& number) {
  const std::string& name = number.name;
  const bool differs = number.reason.contains("differ among themselves");
  if (number.excused) {
    return "compare times where both sides serve every request, as with --capacity unlimited";
  }
  if (number.verdict == Verdict::NotComparable) return number.reason;
  if (differs) {
    return "passes differ: if the plugin keeps memory between them, name its function that gives "
           "it back (trim:SYMBOL); if it is random, add --rounds";
  }
  if (number.verdict == Verdict::Undecided && number.rounds_needed) {
    return "add --rounds-max with the number of rounds that the line names, or a quieter machine";
  }
  if (number.verdict == Verdict::Undecided) return number.reason;
  if (name == "status") return cell.reason.empty() ? number.reason.text() : cell.reason;
  if (name == "oom_count" || name == "oom_first.event_index") {
    return "oom_first in results.jsonl names the first failed request and its cause; --timeline "
           "draws the memory until then";
  }
  if (name == "residue_bytes") {
    return "device memory stays after all blocks were freed: a cache without its trim:SYMBOL, or a "
           "leak";
  }
  if (name == "unordered_reuse_count") {
    return "a freed block went to another stream that did not wait for its user: order the reuse "
           "with an event, and name record_stream:SYMBOL";
  }
  if (name == "placement_hash") {
    return "blocks lie elsewhere, which is neither better nor worse; the policy's fail_on_changed "
           "makes it fail";
  }
  if (const std::string host = advice_on_host(name); !host.empty()) return host;
  if (name.starts_with("driver_calls.") || name.ends_with("_count")) {
    return "SIMCUDA_CALL_LOG=FILE lists every driver call with its arguments";
  }
  if (name.find("_bytes") != std::string::npos) {
    return "--timeline draws memory over the trace; look at rounding and at what is cached";
  }
  if (number.timed && number.verdict == Verdict::Worse) return advice_on_times(name);
  return {};
}

}  // namespace allocmark
