// Programs on two devices, compared call by call: a GPU and its simulation, as a rule. Jobs flow
// in; the first difference of each flows out, and the shortest program that still shows it. Checks;
// times nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/tools/simcheck/program.h"

namespace allocmark::simcheck {

struct Setting {
  std::string allocator, conf;
  friend bool operator==(const Setting&, const Setting&) = default;
};

struct Job {
  Setting setting;
  Program program;
  friend bool operator==(const Job&, const Job&) = default;
};

// One side of the check (answers.cc): runs all jobs on this process's device, one after the other,
// and hands over a line for each event: where an allocation landed relative to the first one of its
// area ("oom", "null"), and the device's bytes in use. After each job comes the line ".". Throws
// what the backend throws.
void run_jobs(const std::vector<Job>& jobs, const std::function<void(const std::string&)>& sink);

// The answers of all jobs on one side (0 or 1), a text for each: lines of run_jobs. Where the
// process ended early, the last text ends with the line "! REASON", and later jobs have no text.
using Lab = std::function<std::vector<std::string>(int side, const std::vector<Job>& jobs)>;

// Processes on two devices, both at once where the devices are different.
[[nodiscard]] Lab make_lab(std::string on, std::string against, double timeout_s);

struct Difference {
  std::size_t job = 0;
  std::size_t event = 0;              // 0-based index of the event
  std::string row;                    // the event as a row of a trace; "the end" behind the last
  std::string on, against;            // the two answers
  std::uint64_t failures_before = 0;  // requests that had failed by then
};

struct Report {
  std::uint64_t answer_count = 0, failure_count = 0;  // compared, and failed requests among them
  std::vector<Difference> differences;                // at most one per job
  // Jobs of which nothing can be said: both sides broke at the same place, a side gave no answer in
  // time, or an earlier job ended the process.
  std::size_t unanswered_count = 0;
};

[[nodiscard]] Report compare(const Lab& lab, const std::vector<Job>& jobs);

// A shorter job that still differs when it runs alone, after at most `attempt_max` tries; nothing
// where it does not differ alone.
[[nodiscard]] std::optional<Job> shrink(const Lab& lab, Job job, std::uint64_t attempt_max);

}  // namespace allocmark::simcheck
