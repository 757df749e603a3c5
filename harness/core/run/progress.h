// How far a run is, for the person who waits: a bar with the time left on a terminal, a plain line
// per tenth of the cells otherwise. Written to stderr, so that stdout holds results alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "results/schema.h"

namespace allocmark {

class Progress {
 public:
  // `already_done` cells of `total` were finished by an earlier run.
  Progress(std::FILE* out, bool on_terminal, std::uint64_t total, std::uint64_t already_done);
  // Leaves the cursor on a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more cell is done. Cells that crashed, timed out or failed get a line with the reason.
  void cell_done(const CellResult& result);

  // Where cells end together at last, passes tell how far the run is: `total` of them are to come,
  // as far as is known.
  void expect_passes(std::uint64_t total);
  void passes_done(std::uint64_t count);

 private:
  void draw();
  void clear();

  std::FILE* out_;
  bool on_terminal_;
  std::uint64_t total_;
  std::uint64_t already_done_;
  std::uint64_t done_;
  std::uint64_t pass_total_ = 0;  // 0: passes are not told
  std::uint64_t passes_done_ = 0;
  std::uint64_t oom_ = 0;
  std::uint64_t broken_ = 0;
  std::chrono::steady_clock::time_point started_;
};

// "gpt2_train_amp / caching / max_split_size_mb:128 / 1.05x / seed 0", for messages.
[[nodiscard]] std::string cell_label(const CellKey& key);

// "45 s", "3 min 20 s".
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace allocmark
