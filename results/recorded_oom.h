// Requests that failed while the workload of a cell was recorded: a counter of the cell.
#pragma once

namespace allocmark {

inline constexpr const char* kRecordedOomCounter = "recording.out_of_memory";

}  // namespace allocmark
