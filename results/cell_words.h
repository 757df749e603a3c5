// Words of a cell by which whoever reads it finds what whoever measured it said.
#pragma once

#include <array>
#include <string_view>

namespace allocmark {

// A counter: requests that failed while the workload was recorded.
inline constexpr const char* kRecordedOomCounter = "recording.out_of_memory";

// Begins the warning that a plugin's promise of stream order was not tested.
inline constexpr const char* kRecordUncalled = "record_stream was never called";
inline constexpr const char* kRecordingWorkloads = "fuzz_r1, fuzz_s1 and producer do that";

// In warnings that the machine, its load or the time of a run decide: of the same cell, made again
// elsewhere, they may be there or not.
inline constexpr const char* kNotDeterministic = "not deterministic";
inline constexpr const char* kWidthNotReached = "--until-width was not reached";
inline constexpr const char* kCounterVaries = "time-stamp counter is not invariant";
inline constexpr const char* kClockWentBack = "the machine's clock went back";
inline constexpr const char* kNotFollowed = "the contents were not followed";
inline constexpr const char* kEndsOnly = "were checked at their ends only";
inline constexpr const char* kMayPin = "this machine may pin";
inline constexpr std::array<std::string_view, 7> kWordsOfMachine = {
    kNotDeterministic, kWidthNotReached, kCounterVaries, kClockWentBack,
    kNotFollowed,      kEndsOnly,        kMayPin};

}  // namespace allocmark
