// A cell without what takes most of its memory: histograms of passes, size classes and counters.
// What reports and answers say of many cells needs no more. A cell flows in; its summary flows out.
#pragma once

#include "results/schema.h"

namespace allocmark {

// Leaves them out, and keeps what answers take from them. Writing a summary as results, or judging
// times by it, is an error of the program.
void summarize(CellResult* cell);

// What the allocator's calls of one pass took together, by its histograms; 0 without them.
[[nodiscard]] double calls_ns_total(const PassSummary& pass);

}  // namespace allocmark
