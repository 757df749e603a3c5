// Turns a program that emits events piece by piece into an event source. A program has a Config, is
// made from (config, seed, batch), and advance() appends some events (a few thousand at most) and
// returns false at its end. make_generated(), or what coroutine_program.h makes of it, is the end
// of every generator's make function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/trace/event_batch.h"
#include "workloads/trace/parameters.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct GeneratedHead {
  TraceHeader header;
  std::uint64_t event_count_max =
      std::numeric_limits<std::uint64_t>::max();  // the source ends after so many
};

template <typename Program>
class GeneratedSource final : public EventSource {
 public:
  using Config = typename Program::Config;

  GeneratedSource(GeneratedHead head, Config config)
      : head_(std::move(head)), config_(std::move(config)) {
    start();
  }
  // The program's last blocks are freed into the batch, so it must go first.
  ~GeneratedSource() override { program_.reset(); }
  GeneratedSource(const GeneratedSource&) = delete;
  GeneratedSource& operator=(const GeneratedSource&) = delete;

  std::span<const Event> next() override {
    batch_.clear_events();
    while (!at_end_ && batch_.events().size() < kBatchEventCount) at_end_ = !program_->advance();
    const std::uint64_t left = head_.event_count_max - event_count_;
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(left, batch_.events().size()));
    event_count_ += count;
    return std::span(batch_.events()).first(count);
  }
  void rewind() override { start(); }
  const TraceHeader& header() const override { return head_.header; }
  const std::vector<std::string>& labels() const override { return batch_.labels(); }

 private:
  void start() {
    program_.reset();
    batch_.reset();
    program_.emplace(config_, head_.header.seed, &batch_);
    event_count_ = 0;
    at_end_ = false;
  }

  GeneratedHead head_;
  Config config_;
  EventBatch batch_;
  std::optional<Program> program_;
  std::uint64_t event_count_ = 0;
  bool at_end_ = false;
};

struct GeneratedTraits {
  std::string name;  // the trace's short name
  std::uint64_t seed = 0;
  std::uint32_t stream_count = 1;
  std::uint64_t event_count_preset =
      std::numeric_limits<std::uint64_t>::max();  // for programs that do not end by themselves
  std::vector<ForbiddenKey> forbids{};
};

// Reads the key that all generators have, `events`, refuses the keys that nobody asked for, and
// makes the source.
template <typename Program>
std::unique_ptr<EventSource> make_generated(Parameters& parameters, GeneratedTraits traits,
                                            typename Program::Config config) {
  const std::uint64_t event_count = parameters.number("events", traits.event_count_preset, {1});
  parameters.finish();
  return std::make_unique<GeneratedSource<Program>>(
      GeneratedHead{.header = {.name = std::move(traits.name),
                               .generator = parameters.text(),
                               .seed = traits.seed,
                               .stream_count = traits.stream_count,
                               .forbids = std::move(traits.forbids)},
                    .event_count_max = event_count},
      std::move(config));
}

// What the registry of generators knows of each one: its row stands at the end of its own file.
struct GeneratorEntry {
  std::string_view name;
  std::string_view example;  // a workload text that shows the most useful keys
  std::string_view summary;  // one line: what it does and stresses
  std::unique_ptr<EventSource> (*make)(Parameters& parameters, std::uint64_t seed);
};

}  // namespace allocmark
