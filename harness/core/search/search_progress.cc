// The line, and when it is printed.
#include "harness/core/search/search_progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/streams.h"
#include "harness/core/run/progress.h"

namespace allocmark {
namespace {

std::function<double()> seconds_from_now() {
  const auto begin = std::chrono::steady_clock::now();
  return [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
}

}  // namespace

SearchProgress::SearchProgress(std::FILE* out, bool on_terminal, std::string what,
                               std::uint64_t unit_count, std::function<double()> seconds_so_far)
    : out_(out),
      on_terminal_(on_terminal),
      what_(std::move(what)),
      unit_count_(std::max<std::uint64_t>(unit_count, 1)),
      seconds_so_far_(std::move(seconds_so_far)) {}

SearchProgress::SearchProgress(std::string what, std::uint64_t unit_count)
    : SearchProgress(stderr, isatty(STDERR_FILENO) == 1, std::move(what), unit_count,
                     seconds_from_now()) {
  ticker_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return is_over_; })) {
      lock.unlock();
      tick();
      lock.lock();
    }
  });
}

SearchProgress::~SearchProgress() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  if (ticker_.joinable()) ticker_.join();
  if (on_terminal_ && told_seconds_ > 0) clear_terminal_line(out_);
}

void SearchProgress::add(std::uint64_t unit_count) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = done_count_;
  done_count_ = std::min(unit_count_, done_count_ + unit_count);
  const double seconds = seconds_so_far_();
  const bool tenth = done_count_ * 10 / unit_count_ != before * 10 / unit_count_;
  if (on_terminal_ || (tenth && seconds >= kQuietSeconds)) print(seconds);
}

void SearchProgress::tick() {
  const std::lock_guard lock(mutex_);
  const double seconds = seconds_so_far_();
  const bool is_first = told_seconds_ == 0 && seconds >= kFirstSeconds;
  if (is_first || on_terminal_ || seconds >= told_seconds_ + kSilentSeconds) print(seconds);
}

void SearchProgress::print(double seconds) {
  told_seconds_ = std::max(seconds, 1e-9);
  if (on_terminal_) clear_terminal_line(out_);
  fmt::print(out_, "{}: {} %", what_, done_count_ * 100 / unit_count_);
  if (done_count_ == 0) {
    fmt::print(out_, " after {}", format_duration(seconds));
  } else {
    const double left_s =
        seconds * static_cast<double>(unit_count_ - done_count_) / static_cast<double>(done_count_);
    fmt::print(out_, ", about {} left", format_duration(left_s));
  }
  if (!on_terminal_) fmt::print(out_, "\n");
  std::fflush(out_);
}

}  // namespace allocmark
