/// @file
/// The interleavings of two threads at their CUDA calls, one by one, on simcuda: races found by a
/// search instead of by luck. Header only, as simcu_test.h.
///
/// A thread that runs `first` is stopped at its nth place, the begin or the end of one of its CUDA
/// calls. While it stands there, another thread runs `second`. Where that cannot end, since it
/// waits for a lock that the first one holds, the first goes on. Every such order of the two can
/// happen on a GPU, so what goes wrong in one of them is a fault. Ask for the place 0, 1, 2 ...
/// until there is none:
/// @code{.cpp}
///   for (std::uint64_t nth = 0;; ++nth) {
///     const auto run = simcu::interleave([&] { pool.free(a); }, [&] { b = pool.get(); }, nth);
///     if (!run.stopped) break;         // the first has no such place
///     EXPECT(is_right(b), run.place);  // "the begin of cudaEventRecord"
///   }
/// @endcode
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "simcu_test.h"

namespace simcu {

/// One order of the two threads, and what came of it.
struct Interleaving {
  /// Whether the first was stopped at the place. False: the second ran when the first had ended.
  bool stopped = false;
  /// "the begin of cudaEventRecord"; empty where not stopped.
  std::string place;
  /// The first went on before the second ended.
  bool second_waited = false;
  /// CUDA calls of both that returned an error: name and cudaError_t or CUresult. "Not ready" is
  /// none.
  std::vector<std::pair<std::string, int>> failed_calls;
};

namespace detail {

// A thread that another one watches: is it at work, or does it wait for somebody?
class WatchedThread {
 public:
  explicit WatchedThread(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          thread_id_ = static_cast<long>(syscall(SYS_gettid));
          try {
            body();
          } catch (...) {
            thrown_ = std::current_exception();
          }
          const std::lock_guard lock(mutex_);
          ended_ = true;
          changed_.notify_all();
        }) {}
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  ~WatchedThread() { join(); }
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }
  // Whether it ends within a millisecond.
  [[nodiscard]] bool ends_soon() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(1), [this] { return ended_; });
  }
  // Once it has ended.
  [[nodiscard]] std::exception_ptr thrown() const { return thrown_; }

  // Asleep and not woken since the last look, or woken many times: it waits, or naps and looks. So
  // does one that gave its processor to others some times: what is to be waited for takes no
  // longer than a part of one turn.
  // Where the system does not tell, a thread that has not ended counts as asleep.
  [[nodiscard]] bool sleeps() {
    const long thread_id = thread_id_;
    if (thread_id == 0) return false;
    const std::string path = "/proc/self/task/" + std::to_string(thread_id) + "/status";
    std::FILE* const file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return true;
    char line[256];
    char state = '?';
    unsigned long long wake_count = 0;
    unsigned long long turn_count = 0;
    while (std::fgets(line, sizeof line, file) != nullptr) {
      (void)std::sscanf(line, "State: %c", &state);
      (void)std::sscanf(line, "voluntary_ctxt_switches: %llu", &wake_count);
      (void)std::sscanf(line, "nonvoluntary_ctxt_switches: %llu", &turn_count);
    }
    std::fclose(file);
    constexpr unsigned long long kNaps = 20;
    constexpr unsigned long long kTurns = 5;
    if (first_wake_count_ == kUnknown) {
      first_wake_count_ = wake_count;
      first_turn_count_ = turn_count;
    }
    const bool same = wake_count == wake_count_;
    wake_count_ = wake_count;
    return (state == 'S' && same) || wake_count - first_wake_count_ >= kNaps ||
           turn_count - first_turn_count_ >= kTurns;
  }
  // Processor time so far: one that waits for a spinning lock takes much.
  [[nodiscard]] std::uint64_t processor_ns() {
    clockid_t clock{};
    timespec time{};
    if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0) return 0;
    if (clock_gettime(clock, &time) != 0) return 0;
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

 private:
  std::atomic<long> thread_id_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr thrown_;
  static constexpr unsigned long long kUnknown = ~0ULL;
  unsigned long long first_wake_count_ = kUnknown;
  unsigned long long first_turn_count_ = 0;
  unsigned long long wake_count_ = kUnknown;
  std::thread thread_;  // the last: it uses the others
};

class Stop {
 public:
  explicit Stop(std::uint64_t nth) : nth_(nth) { SIMCU(simcu_watch_calls)(&Stop::saw, this); }
  ~Stop() { SIMCU(simcu_watch_calls)(nullptr, nullptr); }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  // Called by the first thread before it begins.
  void begin() {
    const std::lock_guard lock(mutex_);
    first_ = std::this_thread::get_id();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    first_ended_ = true;
    first_ = {};  // the next thread may get the same id
    changed_.notify_all();
  }
  // True where the first thread stands at the place, false where it ended without coming there.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stands_ || first_ended_; });
    return stands_;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    goes_on_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] Interleaving result() {
    const std::lock_guard lock(mutex_);
    Interleaving result;
    result.stopped = stands_;
    result.place = place_;
    result.failed_calls = failed_calls_;
    return result;
  }

 private:
  static void saw(const char* api, int result, void* context) {
    static_cast<Stop*>(context)->saw(api, result);
  }
  void saw(const char* api, int result) {
    constexpr int kNotReady = 600;
    std::unique_lock lock(mutex_);
    if (result > 0 && result != kNotReady) failed_calls_.emplace_back(api, result);
    if (std::this_thread::get_id() != first_ || place_count_++ != nth_) return;
    place_ = std::string(result == SIMCU_CALL_BEGINS ? "the begin of " : "the end of ") + api;
    stands_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return goes_on_; });
  }

  const std::uint64_t nth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread::id first_;
  std::uint64_t place_count_ = 0;
  bool stands_ = false;
  bool goes_on_ = false;
  bool first_ended_ = false;
  std::string place_;
  std::vector<std::pair<std::string, int>> failed_calls_;
};

// Until the thread ends (true), or has slept for some looks in a row or worked for long (false).
inline bool ends(WatchedThread& thread) {
  constexpr int kLooks = 8;
  constexpr std::uint64_t kProcessorNs = 3'000'000;
  for (int asleep = 0; !thread.ends_soon();) {
    asleep = thread.sleeps() ? asleep + 1 : 0;
    if (asleep == kLooks || thread.processor_ns() > kProcessorNs) return false;
  }
  return true;
}

}  // namespace detail

/// Runs `first` in a thread that stands still at its nth place (0 = the first) while another runs
/// `second`. Both have ended when it returns; what either throws is thrown then.
inline Interleaving interleave(const std::function<void()>& first,
                               const std::function<void()>& second, std::uint64_t nth) {
  detail::Stop stop(nth);
  detail::WatchedThread one([&] {
    stop.begin();
    try {
      first();
    } catch (...) {
      stop.end();
      throw;
    }
    stop.end();
  });
  const bool stands = stop.wait();
  if (!stands) one.join();
  detail::WatchedThread two(second);
  const bool waited = !detail::ends(two) && stands;
  stop.let_go();
  one.join();
  two.join();
  Interleaving result = stop.result();
  result.second_waited = waited;
  for (const detail::WatchedThread* thread : {&one, &two}) {
    if (thread->thrown() != nullptr) std::rethrow_exception(thread->thrown());
  }
  return result;
}

}  // namespace simcu
