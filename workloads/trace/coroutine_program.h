// Programs for GeneratedSource that are written as they run, one loop in the other, and not as
// state machines: a coroutine writes events into the batch and lets go of it where it is full.
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
// its member run() is the coroutine: make_running<Sleep>(...).
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "workloads/trace/event_batch.h"
#include "workloads/trace/generated_source.h"
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

template <typename ConfigType, Coroutine (*kWrite)(ConfigType, std::uint64_t, EventBatch*)>
class CoroutineProgram {
 public:
  using Config = ConfigType;
  CoroutineProgram(const Config& config, std::uint64_t seed, EventBatch* batch)
      : coroutine_(kWrite(config, seed, batch)) {}
  bool advance() { return coroutine_.advance(); }

 private:
  Coroutine coroutine_;
};

template <typename Program>
class RunningProgram {
 public:
  using Config = typename Program::Config;
  RunningProgram(const Config& config, std::uint64_t seed, EventBatch* batch)
      : program_(config, seed, batch), coroutine_(program_.run()) {}
  bool advance() { return coroutine_.advance(); }

 private:
  Program program_;
  Coroutine coroutine_;  // runs in the program, so it goes first
};

// As make_generated().
template <auto kWrite, typename Config>
std::unique_ptr<EventSource> make_coroutine(Parameters& parameters, GeneratedTraits traits,
                                            Config config) {
  return make_generated<CoroutineProgram<Config, kWrite>>(parameters, std::move(traits),
                                                          std::move(config));
}
template <typename Program>
std::unique_ptr<EventSource> make_running(Parameters& parameters, GeneratedTraits traits,
                                          typename Program::Config config) {
  return make_generated<RunningProgram<Program>>(parameters, std::move(traits), std::move(config));
}

}  // namespace allocmark
