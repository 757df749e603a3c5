// Words of a cell by which whoever reads it finds what whoever measured it said.
#pragma once

namespace allocmark {

// A counter: requests that failed while the workload was recorded.
inline constexpr const char* kRecordedOomCounter = "recording.out_of_memory";

// Begins the warning that a plugin's promise of stream order was not tested.
inline constexpr const char* kRecordUncalled = "record_stream was never called";
inline constexpr const char* kRecordingWorkloads = "fuzz_r1, fuzz_s1 and producer do that";

}  // namespace allocmark
