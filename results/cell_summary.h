// A cell without what takes most of its memory: histograms of passes, size classes and counters.
// What reports and answers say of many cells needs no more. And its outline, which says only which
// cell it is and how it ended. A cell flows in; its summary or outline flows out.
#pragma once

#include "results/derived.h"
#include "results/schema.h"

namespace allocmark {

// Leaves them out, and keeps what answers take from them. Writing a summary as results, or judging
// times by it, is an error of the program.
void summarize(CellResult* cell);

// Of many cells, each of which is read whole when its turn comes.
struct CellOutline {
  CellKey key = {};
  CellStatus status = CellStatus::Ok;
  bool is_part = false;  // passes were still to come
  Decisions decisions = {};
  bool record_uncalled = false;  // its workload did not test a plugin's record_stream
};
[[nodiscard]] CellOutline outline_of(const CellResult& cell);

// What the allocator's calls of one pass took together, by its histograms; 0 without them.
[[nodiscard]] double calls_ns_total(const PassSummary& pass);

}  // namespace allocmark
