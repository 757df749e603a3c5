// See progress.h.
#include "harness/core/run/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include "base/streams.h"
#include "results/json.h"

namespace allocmark {
namespace {

// With its numbers the line stays within 80 columns, so that drawing it anew leaves nothing behind.
constexpr std::uint64_t kBarWidth = 10;
constexpr std::size_t kReasonLengthMax = 400;

bool is_broken(CellStatus status) {
  return status == CellStatus::Failed || status == CellStatus::Crashed ||
         status == CellStatus::TimedOut;
}

}  // namespace

Progress::Progress(std::FILE* out, bool on_terminal, std::uint64_t total,
                   std::uint64_t already_done)
    : out_(out),
      on_terminal_(on_terminal),
      total_(total),
      already_done_(already_done),
      done_(already_done),
      started_(std::chrono::steady_clock::now()) {
  draw();
}

Progress::~Progress() {
  if (on_terminal_) std::fputc('\n', out_);
}

void Progress::clear() {
  if (on_terminal_) clear_terminal_line(out_);
}

void Progress::cell_done(const CellResult& result) {
  ++done_;
  oom_ += result.oom_count > 0 ? 1 : 0;
  if (is_broken(result.status)) {
    ++broken_;
    clear();
    fmt::print(out_, "{}: {}: {}\n", to_string(result.status), cell_label(result.key),
               result.reason.substr(0, kReasonLengthMax));
  }
  const bool tenth = done_ * 10 / total_ != (done_ - 1) * 10 / total_;
  // Passes have drawn the line already, up to the last cell.
  if (pass_total_ == 0 ? on_terminal_ || tenth : done_ == total_) draw();
}

void Progress::expect_passes(std::uint64_t total) { pass_total_ = total; }

void Progress::passes_done(std::uint64_t count) {
  if (pass_total_ == 0) return;
  const std::uint64_t before = passes_done_;
  // A cell that failed early makes none of the passes that were counted for it.
  passes_done_ = std::min(pass_total_, passes_done_ + count);
  const bool tenth = passes_done_ * 10 / pass_total_ != before * 10 / pass_total_;
  if (done_ < total_ && (on_terminal_ || tenth)) draw();
}

void Progress::draw() {
  if (total_ == 0) return;
  const double elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  const bool in_passes = pass_total_ > 0;
  const std::uint64_t done_here = in_passes ? passes_done_ : done_ - already_done_;
  const std::uint64_t left_here = in_passes ? pass_total_ - passes_done_ : total_ - done_;
  std::string line = fmt::format("{}/{} cells", done_, total_);
  if (in_passes && done_ < total_) {
    line += fmt::format(", {} % of the passes", passes_done_ * 100 / pass_total_);
  }
  if (oom_ > 0) {
    line += fmt::format(", {} out of memory", oom_);
  }
  if (broken_ > 0) {
    line += fmt::format(", {} without a result", broken_);
  }
  if (done_here > 0 && done_ < total_) {
    line += fmt::format(", {} left", format_duration(elapsed_s / static_cast<double>(done_here) *
                                                     static_cast<double>(left_here)));
  }
  if (on_terminal_) {
    const std::uint64_t filled = in_passes && done_ < total_
                                     ? passes_done_ * kBarWidth / pass_total_
                                     : done_ * kBarWidth / total_;
    clear();
    fmt::print(out_, "[{:#<{}}{:.<{}}] {}", "", filled, "", kBarWidth - filled, line);
  } else {
    fmt::print(out_, "{}\n", line);
  }
  std::fflush(out_);
}

std::string cell_label(const CellKey& key) {
  return fmt::format("{} / {} / {} / {} / seed {}", key.workload, key.allocator,
                     key.conf.empty() ? "unset" : key.conf, key.capacity, key.seed);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(std::max(seconds, 0.0)));
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace allocmark
