// An endless-looking program for speed and memory measurements: blocks of log-uniform sizes live
// and die at random around a constant number of live blocks. Events are made batch by batch, so any
// length needs constant memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "workloads/source.h"

namespace allocmark {

struct ChurnParameters {
  std::uint64_t event_count = 0;
  std::uint64_t place_count = 4096;  // about half of them are live at a time
  std::uint32_t size_log2_min = 9;   // sizes are between 2^min and 2^max bytes
  std::uint32_t size_log2_max = 22;
  std::uint64_t seed = 1;
};

class ChurnSource final : public EventSource {
 public:
  explicit ChurnSource(const ChurnParameters& parameters);
  [[nodiscard]] std::span<const Event> next() override;
  void rewind() override;
  [[nodiscard]] const TraceHeader& header() const override { return header_; }
  [[nodiscard]] const std::vector<std::string>& labels() const override { return labels_; }

 private:
  [[nodiscard]] Event make_event();

  ChurnParameters parameters_;
  TraceHeader header_;
  std::vector<std::string> labels_;
  Random random_;
  std::vector<std::uint64_t> id_by_place_;  // 0 = nothing lives there
  std::uint64_t next_id_ = 1;
  std::uint64_t made_count_ = 0;
  std::vector<Event> batch_;
};

}  // namespace allocmark
