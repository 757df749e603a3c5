// The warning of a cell that a plugin's promise of stream order was not tested: the cell that says
// so, and the comparison that finds no cell without it, take its words from here.
#pragma once

namespace allocmark {

// Begins the warning.
inline constexpr const char* kRecordUncalled = "record_stream was never called";
inline constexpr const char* kRecordingWorkloads = "fuzz_r1, fuzz_s1 and producer do that";

}  // namespace allocmark
