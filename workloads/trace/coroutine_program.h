// Turns a program that emits events piece by piece into an event source: the end of every
// generator's make function. A program is a coroutine, written as it runs, one loop in the other;
// it writes events into the batch and lets go of it where it is full.
//
//   Coroutine write(CombConfig config, std::uint64_t seed, EventBatch* batch) {
//     for (...) {
//       batch->allocate(...);
//       co_await room_in(batch);
//     }
//   }
//   make_coroutine<write>(parameters, {.name = "comb", .seed = seed}, config)
//
// Parameters of the coroutine are taken by value: it outlives the call. Where a program is a class,
// it has a Config, is made from (config, seed, batch), and its member run() is the coroutine:
// make_running<Sleep>(...).
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/trace/event_batch.h"
#include "workloads/trace/parameters.h"
#include "workloads/trace/source.h"

namespace allocmark {

class Coroutine {
 public:
  struct promise_type {
    std::exception_ptr failure;
    Coroutine get_return_object() {
      return Coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { failure = std::current_exception(); }
  };

  Coroutine(Coroutine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Coroutine& operator=(Coroutine&&) = delete;
  ~Coroutine() {
    if (handle_ != nullptr) handle_.destroy();
  }

  // Runs on to the next pause; false at the end and after it. What the program throws goes on to
  // the caller.
  bool advance() {
    if (handle_.done()) return false;
    handle_.resume();
    if (handle_.promise().failure != nullptr) std::rethrow_exception(handle_.promise().failure);
    return !handle_.done();
  }

 private:
  explicit Coroutine(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// Pauses the program where the batch has as many events as one next() should give.
struct RoomInBatch {
  const EventBatch* batch;
  [[nodiscard]] bool await_ready() const noexcept {
    return batch->events().size() < kBatchEventCount;
  }
  void await_suspend(std::coroutine_handle<> /*program*/) const noexcept {}
  void await_resume() const noexcept {}
};
[[nodiscard]] inline RoomInBatch room_in(const EventBatch* batch) { return {batch}; }

template <typename Program>
class GeneratedSource final : public EventSource {
 public:
  using Config = typename Program::Config;

  // Ends after so many events.
  GeneratedSource(TraceHeader header, std::uint64_t event_count_max, Config config)
      : header_(std::move(header)), event_count_max_(event_count_max), config_(std::move(config)) {
    rewind();
  }
  // The program's last blocks are freed into the batch, so it must go first.
  ~GeneratedSource() override { stop(); }
  GeneratedSource(const GeneratedSource&) = delete;
  GeneratedSource& operator=(const GeneratedSource&) = delete;

  std::span<const Event> next() override {
    batch_.clear_events();
    while (batch_.events().size() < kBatchEventCount && coroutine_->advance()) {
    }
    const std::uint64_t left = event_count_max_ - event_count_;
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(left, batch_.events().size()));
    event_count_ += count;
    return std::span(batch_.events()).first(count);
  }
  void rewind() override {
    stop();
    batch_.reset();
    coroutine_.emplace(program_.emplace(config_, header_.seed, &batch_).run());
    event_count_ = 0;
  }
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return batch_.labels(); }

 private:
  void stop() {
    coroutine_.reset();  // runs in the program, so it goes first
    program_.reset();
  }

  TraceHeader header_;
  std::uint64_t event_count_max_;
  Config config_;
  EventBatch batch_;
  std::optional<Program> program_;
  std::optional<Coroutine> coroutine_;
  std::uint64_t event_count_ = 0;
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
std::unique_ptr<EventSource> make_running(Parameters& parameters, GeneratedTraits traits,
                                          typename Program::Config config) {
  const std::uint64_t event_count = parameters.number("events", traits.event_count_preset, {1});
  parameters.finish();
  return std::make_unique<GeneratedSource<Program>>(
      TraceHeader{.name = std::move(traits.name),
                  .generator = parameters.text(),
                  .seed = traits.seed,
                  .stream_count = traits.stream_count,
                  .forbids = std::move(traits.forbids)},
      event_count, std::move(config));
}

template <typename ConfigType, Coroutine (*kWrite)(ConfigType, std::uint64_t, EventBatch*)>
class WrittenProgram {
 public:
  using Config = ConfigType;
  WrittenProgram(const Config& config, std::uint64_t seed, EventBatch* batch)
      : coroutine_(kWrite(config, seed, batch)) {}
  Coroutine run() { return std::move(coroutine_); }

 private:
  Coroutine coroutine_;
};

template <auto kWrite, typename Config>
std::unique_ptr<EventSource> make_coroutine(Parameters& parameters, GeneratedTraits traits,
                                            Config config) {
  return make_running<WrittenProgram<Config, kWrite>>(parameters, std::move(traits),
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
