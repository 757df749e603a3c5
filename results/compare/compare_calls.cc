// See compare_calls.h.
#include "results/compare/compare_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "results/compare/count_verdict.h"

namespace allocmark {
namespace {

using Functions = std::initializer_list<std::string_view>;

// Calls of `more` less calls of `fewer`, by process.
CountSeries calls_of(const Functions& more, const Functions& fewer, const Processes& processes) {
  const auto holds = [](const Functions& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  CountSeries series;
  for (const CellResult* cell : processes) {
    double count = 0;
    for (const auto& [name, calls] : cell->driver_calls) {
      if (holds(more, name)) count += static_cast<double>(calls);
      if (holds(fewer, name)) count -= static_cast<double>(calls);
    }
    series.push_back({std::max(count, 0.0)});
  }
  return series;
}

bool is_zero(const CountSeries& series) {
  return std::all_of(series.begin(), series.end(),
                     [](const std::vector<double>& counts) { return counts.front() == 0; });
}

// What a call of the driver is to an allocator.
enum class CallKind : std::uint8_t {
  Wait,   // stops the host until the device is done
  Duty,   // ends, gives back or orders something: its absence can be a fault
  Cheap,  // asks for what the runtime knows: nanoseconds
  Other
};

CallKind kind_of_call(std::string_view function) {
  const auto has = [&](std::string_view part) {
    return function.find(part) != std::string_view::npos;
  };
  if (has("Synchronize")) return CallKind::Wait;
  // cudaMemGetInfo asks the device.
  constexpr std::string_view kCheap[] = {
      "cudaGet",       "cudaPeek",       "cudaSetDevice", "cudaStreamGet",  "cudaStreamIs",
      "cudaDeviceGet", "cudaPointerGet", "cudaThread",    "cudaEventQuery", "cudaStreamQuery",
      "cudaFuncGet",   "cuCtxGet",       "cuStreamGet",   "cuStreamIs",     "cuPointerGet",
      "cuDeviceGet",   "cuEventQuery",   "cuStreamQuery", "cudaDriverGet",  "cudaRuntimeGet"};
  for (const std::string_view begin : kCheap) {
    if (function.starts_with(begin)) return CallKind::Cheap;
  }
  for (const std::string_view part :
       {"Destroy", "Free", "Release", "Unmap", "WaitEvent", "EventRecord", "Trim"}) {
    if (has(part)) return CallKind::Duty;
  }
  return CallKind::Other;
}

struct ObjectKind {
  std::string_view name;
  Functions makers, enders;
};

const std::array kObjectKinds = {
    ObjectKind{"events", {"cudaEventCreate", "cudaEventCreateWithFlags"}, {"cudaEventDestroy"}},
    ObjectKind{"streams",
               {"cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority"},
               {"cudaStreamDestroy"}},
    ObjectKind{"pools", {"cudaMemPoolCreate"}, {"cudaMemPoolDestroy"}},
    ObjectKind{"handles", {"cuMemCreate", "cuMemRetainAllocationHandle"}, {"cuMemRelease"}},
    ObjectKind{"graphs", {"cudaGraphCreate", "cudaStreamEndCapture"}, {"cudaGraphDestroy"}},
    ObjectKind{"host_blocks", {"cudaMallocHost", "cudaHostAlloc"}, {"cudaFreeHost"}},
};

void add_live_objects(const ExactSides& sides, std::vector<NumberComparison>& numbers) {
  for (const ObjectKind& kind : kObjectKinds) {
    const CountSeries base = calls_of(kind.makers, kind.enders, sides.base_processes);
    const CountSeries now = calls_of(kind.makers, kind.enders, sides.now_processes);
    if (is_zero(base) && is_zero(now)) continue;
    NumberComparison number{.name = std::string(kLiveObjects) + std::string(kind.name)};
    judge_counts(base, now, false, number);
    if (number.verdict == Verdict::Better) {
      number.decide(Verdict::Changed, kFewerReason);
    }
    numbers.push_back(std::move(number));
  }
}

}  // namespace

void add_driver_calls(const ExactSides& sides, std::vector<NumberComparison>& numbers) {
  if (sides.base->driver_calls.empty() || sides.now->driver_calls.empty()) return;
  std::set<std::string> functions;
  for (const CellResult* cell : {sides.base, sides.now}) {
    for (const auto& [name, count] : cell->driver_calls) functions.insert(name);
  }
  const std::size_t begin = numbers.size();
  std::set<CallKind> begun;
  std::set<CallKind> given_up;
  std::vector<CallKind> kinds;
  for (const std::string& function : functions) {
    const CountSeries base = calls_of({function}, {}, sides.base_processes);
    const CountSeries now = calls_of({function}, {}, sides.now_processes);
    NumberComparison number{.name = "driver_calls." + function};
    judge_counts(base, now, false, number);
    const CallKind kind = kind_of_call(function);
    // Calls that end things go with those that make them.
    const CallKind group = kind == CallKind::Duty ? CallKind::Other : kind;
    if (is_zero(base) && !is_zero(now)) begun.insert(group);
    if (is_zero(now) && !is_zero(base)) given_up.insert(group);
    kinds.push_back(kind);
    numbers.push_back(std::move(number));
  }
  for (std::size_t i = begin; i < numbers.size(); ++i) {
    NumberComparison& number = numbers[i];
    const CallKind kind = kinds[i - begin];
    const CallKind group = kind == CallKind::Duty ? CallKind::Other : kind;
    if (number.verdict == Verdict::Same) continue;
    if (begun.contains(group) && given_up.contains(group)) {
      number.decide(Verdict::Changed,
                    "other functions are called instead; the times say what that costs");
    } else if (kind == CallKind::Cheap && number.verdict != Verdict::Undecided) {
      number.decide(Verdict::Changed,
                    "a call that takes nanoseconds; the times say what they cost");
    } else if (number.verdict == Verdict::Better &&
               (kind == CallKind::Wait || kind == CallKind::Duty)) {
      number.decide(Verdict::Changed, kFewerReason);
    }
  }
  add_live_objects(sides, numbers);
}

}  // namespace allocmark
