#include "harness/simcuda/order/happens_before.h"

#include <algorithm>

namespace simcuda::order {
namespace {

constexpr Stream kLegacy = 0;

}  // namespace

HappensBefore::Line& HappensBefore::line(Stream stream) {
  if (lines_.size() <= stream) lines_.resize(stream + 1);
  lines_[stream].host_has_all = false;
  return lines_[stream];
}

void HappensBefore::add_stream(Stream stream, bool is_blocking) {
  line(stream).is_blocking = is_blocking;
  if (is_blocking) blocking_.push_back(stream);
}

void HappensBefore::remove_stream(Stream stream) {
  line(stream).is_blocking = false;
  std::erase(blocking_, stream);
}

void HappensBefore::hand_on(Stream stream, VectorClock* to) {
  Line& at = line(stream);
  to->join(at.clock);
  if (to != &host_) to->join(host_);
  to->raise(stream, at.epoch++);
}

void HappensBefore::begin(Stream stream) {
  ++moment_;
  if (blocking_.empty()) return;
  VectorClock before;
  if (stream == kLegacy) {
    for (const Stream other : blocking_) hand_on(other, &before);
  } else if (line(stream).is_blocking) {
    hand_on(kLegacy, &before);
  }
  line(stream).clock.join(before);
}

void HappensBefore::record(Event event, Stream stream) {
  begin(stream);
  line(stream).last_record = moment_;
  VectorClock clock;
  hand_on(stream, &clock);
  events_[event] = std::move(clock);
}

void HappensBefore::wait(Stream stream, Event event) {
  begin(stream);
  const auto found = events_.find(event);
  if (found != events_.end()) line(stream).clock.join(found->second);
}

void HappensBefore::host_saw(Event event) {
  const auto found = events_.find(event);
  if (found != events_.end()) host_.join(found->second);
}

void HappensBefore::host_saw_stream(Stream stream) { hand_on(stream, &host_); }

void HappensBefore::host_saw_device() {
  // Most streams of a program with many are idle, or destroyed.
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].host_has_all) continue;
    hand_on(static_cast<Stream>(i), &host_);
    lines_[i].host_has_all = true;
  }
}

Epoch HappensBefore::epoch(Stream stream) { return line(stream).epoch; }

bool HappensBefore::ordered(Stream other, Epoch epoch, Stream stream) const {
  if (other == stream) return true;
  if (host_.of(other) >= epoch) return true;
  return stream < lines_.size() && lines_[stream].clock.of(other) >= epoch;
}

VectorClock HappensBefore::snapshot(Stream stream) {
  VectorClock clock;
  hand_on(stream, &clock);
  return clock;
}

Moment HappensBefore::last_record(Stream stream) const {
  return stream < lines_.size() ? lines_[stream].last_record : 0;
}

Moment HappensBefore::last_record_elsewhere(Stream stream) const {
  Moment last = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (i != stream) last = std::max(last, lines_[i].last_record);
  }
  return last;
}

}  // namespace simcuda::order
