// The line, and when it is printed.
#include "harness/advise/search_progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/streams.h"
#include "harness/run/progress.h"

namespace allocmark {
namespace {

std::function<double()> seconds_from_now() {
  const auto begin = std::chrono::steady_clock::now();
  return [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
}

}  // namespace

SearchProgress::SearchProgress(std::FILE* out, bool on_terminal, std::uint64_t unit_count,
                               std::function<double()> seconds_so_far)
    : out_(out),
      on_terminal_(on_terminal),
      unit_count_(std::max<std::uint64_t>(unit_count, 1)),
      seconds_so_far_(std::move(seconds_so_far)) {}

SearchProgress::SearchProgress(std::uint64_t unit_count)
    : SearchProgress(stderr, isatty(STDERR_FILENO) == 1, unit_count, seconds_from_now()) {}

SearchProgress::~SearchProgress() {
  if (on_terminal_ && done_count_ > 0) clear_terminal_line(out_);
}

void SearchProgress::add(std::uint64_t unit_count) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = done_count_;
  done_count_ = std::min(unit_count_, done_count_ + unit_count);
  const double seconds = seconds_so_far_();
  const bool tenth = done_count_ * 10 / unit_count_ != before * 10 / unit_count_;
  if (!on_terminal_ && (!tenth || seconds < kQuietSeconds)) return;
  const double left_s = seconds * static_cast<double>(unit_count_ - done_count_) /
                        static_cast<double>(std::max<std::uint64_t>(done_count_, 1));
  if (on_terminal_) clear_terminal_line(out_);
  fmt::print(out_, "searching: {} %, about {} left{}", done_count_ * 100 / unit_count_,
             format_duration(left_s), on_terminal_ ? "" : "\n");
  std::fflush(out_);
}

}  // namespace allocmark
