// Points in streams that a GPU can be asked about: made after what a stream has queued so far,
// passed when all of that has ended. CUDA events, reused. Flows in: which stream; flows out:
// numbers that rise per stream. This file checks and is never used in a timed pass.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace allocmark {

class StreamPoints {
 public:
  // The streams by index; they must outlive this object. Takes nothing of the device until the
  // first point is made.
  explicit StreamPoints(std::span<const cudaStream_t> streams);
  ~StreamPoints();
  StreamPoints(const StreamPoints&) = delete;
  StreamPoints& operator=(const StreamPoints&) = delete;

  // A point behind everything on the stream; from 1. Throws EnvironmentError on CUDA errors.
  [[nodiscard]] std::uint64_t make(std::uint32_t stream);
  // Whether the stream has got there. Throws EnvironmentError on CUDA errors.
  [[nodiscard]] bool passed(std::uint32_t stream, std::uint64_t point);
  // The host has waited for the device: every point is passed.
  void clear();

  // Points that nobody has seen passed yet.
  [[nodiscard]] std::size_t open_count() const;

 private:
  struct Point {
    std::uint64_t number = 0;
    cudaEvent_t event = nullptr;
  };
  struct Line {
    std::uint64_t number_last = 0;
    std::deque<Point> open;  // oldest first
  };

  void close_oldest(Line& line);

  std::span<const cudaStream_t> streams_;
  std::vector<Line> lines_;  // by stream
  std::vector<cudaEvent_t> spare_;
};

}  // namespace allocmark
