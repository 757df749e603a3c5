// What a cell's passes found, written into its result: the checked pass, the backend's counters,
// the recorder's samples. Flows in: reports; flows out: fields of CellResult
// (results/DEFINITIONS.md defines each). Drives nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/check/verify.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/measure/settled_passes.h"
#include "results/compare/width.h"
#include "results/schema.h"

namespace allocmark {

// 16 hexadecimal digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

// Adds the warning if the result does not have it yet.
void warn_once(CellResult& result, const std::string& text);

// What the checked pass saw, and why the cell ends where it stopped.
void fill_from(CellResult& result, const VerifyReport& report);

// What the pass that looks into blocks saw; after fill_from.
void fill_from_contents(CellResult& result, const VerifyReport& report);

// The backend's counters as they are now.
void fill_stats(CellResult& result, const Backend& backend);

// All passes together; the modelled driver time is that of the median pass.
void fill_latencies(CellResult& result, const Recorder& sum,
                    std::vector<std::uint64_t> driver_ns_by_pass);

// Times of steps and passes that do not follow the host's load; after the passes are kept.
void fill_settled(CellResult& result, const SettledPasses& settled);

// At a look: whether passes can end. At the last one, what stayed too wide becomes a warning.
[[nodiscard]] bool narrow_enough(CellResult& result, const WidthRule& rule, double clock_step_ns);

}  // namespace allocmark
