// See stream_points.h. This file checks.
#include "harness/core/check/stream_points.h"

#include <algorithm>

#include "allocators/cuda/cuda_check.h"

namespace allocmark {

namespace {

bool is_done(cudaEvent_t event) {
  const cudaError_t answer = cudaEventQuery(event);
  if (answer == cudaErrorNotReady) return false;
  ALLOCMARK_CUDA_CHECK(answer);
  return true;
}

}  // namespace

StreamPoints::StreamPoints(std::span<const cudaStream_t> streams)
    : streams_(streams), lines_(streams.size()) {}

StreamPoints::~StreamPoints() {
  clear();
  for (cudaEvent_t event : spare_) (void)cudaEventDestroy(event);
}

void StreamPoints::close_oldest(Line& line) {
  spare_.push_back(line.open.front().event);
  line.open.pop_front();
}

std::uint64_t StreamPoints::make(std::uint32_t stream) {
  Line& line = lines_.at(stream);
  // Two old ones are looked at for every new one, so that there are never many more than there is
  // unfinished work.
  for (int i = 0; i < 2 && !line.open.empty() && is_done(line.open.front().event); ++i) {
    close_oldest(line);
  }
  Point point{.number = ++line.number_last};
  if (spare_.empty()) {
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&point.event, cudaEventDisableTiming));
  } else {
    point.event = spare_.back();
    spare_.pop_back();
  }
  line.open.push_back(point);
  ALLOCMARK_CUDA_CHECK(cudaEventRecord(point.event, streams_[stream]));
  return point.number;
}

bool StreamPoints::passed(std::uint32_t stream, std::uint64_t point) {
  Line& line = lines_.at(stream);
  const auto at = std::lower_bound(
      line.open.begin(), line.open.end(), point,
      [](const Point& open, std::uint64_t number) { return open.number < number; });
  if (at == line.open.end() || at->number != point) return true;
  if (!is_done(at->event)) return false;
  while (!line.open.empty() && line.open.front().number <= point) close_oldest(line);
  return true;
}

void StreamPoints::clear() {
  for (Line& line : lines_) {
    while (!line.open.empty()) close_oldest(line);
  }
}

std::size_t StreamPoints::open_count() const {
  std::size_t count = 0;
  for (const Line& line : lines_) count += line.open.size();
  return count;
}

}  // namespace allocmark
