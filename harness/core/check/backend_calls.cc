// See backend_calls.h.
#include "harness/core/check/backend_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "allocators/cuda/memory_calls.h"

namespace allocmark {
namespace {

// They read what the runtime keeps on the host.
constexpr std::array<std::string_view, 7> kFreeOfCharge = {
    "cudaGetDevice",      "cudaGetLastError", "cudaPeekAtLastError", "cudaSetDevice",
    "cudaGetErrorString", "cudaGetErrorName", "cudaGetDeviceCount"};

}  // namespace

BackendCalls::BackendCalls(const SimcuApi& simcu, const TickClock* clock, UsualCalls* usual)
    : simcu_(simcu), clock_(clock), usual_(usual) {
  if (!simcu_.present) return;
  const std::uint64_t count = simcu_.thread_calls(nullptr, 0);
  for (std::vector<std::uint64_t>* counts : {&counts_before_, &counts_now_, &counts_}) {
    counts->assign(count, 0);
  }
  called_.reserve(count);
}

void BackendCalls::begin() {
  if (simcu_.present) (void)simcu_.thread_calls(counts_before_.data(), counts_before_.size());
  if (!is_timed()) return;
  if (simcu_.present) simulator_ticks_ = simcu_.thread_clock()->simulator_ticks;
  begin_ticks_ = clock_->now_ticks();
}

void BackendCalls::end() {
  if (is_timed()) {
    std::uint64_t ticks = clock_->now_ticks() - begin_ticks_;
    // The simulator's ticks are those of the counter, and cannot be taken off another clock's.
    if (simcu_.present && clock_->uses_counter()) {
      ticks -= std::min(ticks, simcu_.thread_clock()->simulator_ticks - simulator_ticks_);
    }
    if (call_count_++ < kColdCallCount) cold_ticks_ += ticks;
    if (usual_ != nullptr) (void)usual_->usual_ticks(ticks);
  }
  if (!simcu_.present) return;
  (void)simcu_.thread_calls(counts_now_.data(), counts_now_.size());
  called_.clear();
  // Most calls are served without the driver.
  if (counts_now_ == counts_before_) return;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_now_[i] == counts_before_[i]) continue;
    counts_[i] += counts_now_[i] - counts_before_[i];
    called_.push_back(i);
  }
}

std::optional<bool> BackendCalls::asked_for_memory() const {
  if (!simcu_.present) return std::nullopt;
  return std::ranges::any_of(
      called_, [this](std::size_t i) { return asks_for_memory(simcu_.call_name(i)); });
}

std::vector<std::pair<std::string, std::int64_t>> BackendCalls::driver_calls() const {
  std::vector<std::pair<std::string, std::int64_t>> calls;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const std::string name = simcu_.call_name(i);
    if (std::find(kFreeOfCharge.begin(), kFreeOfCharge.end(), name) != kFreeOfCharge.end())
      continue;
    calls.emplace_back(name, static_cast<std::int64_t>(counts_[i]));
  }
  std::sort(calls.begin(), calls.end());
  return calls;
}

}  // namespace allocmark
