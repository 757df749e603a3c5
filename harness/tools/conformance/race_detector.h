// ThreadSanitizer for a plugin that is compiled with it, in a program that is not. A library flows
// in; what the detector reported in this process flows out, in plain words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace allocmark::conformance {

// Starts this program again under ThreadSanitizer's runtime where the library is compiled with
// -fsanitize=thread; returns otherwise, and in the program that was started. Throws
// EnvironmentError where there is no runtime, or it cannot start.
void ensure_race_detector(const std::string& library, std::vector<std::string> argv);

[[nodiscard]] bool race_detector_runs();

// "my_free (plugin.c:12) writes 'count', my_malloc (plugin.c:9) reads it: nothing orders the two".
// One text for each pair of places, in the order in which they were seen.
[[nodiscard]] std::vector<std::string> race_reports();
// The first of them in one line, and how many more there are; empty where there is none.
[[nodiscard]] std::string race_text();
// How often the detector reported something. Asking orders no threads.
[[nodiscard]] std::size_t race_report_count();

}  // namespace allocmark::conformance
