// Rules about what a plugin takes of the host: memory, processor time, CUDA objects, and the end of
// the process. Times are the processor time of a thread or of this process, so that what else runs
// on the machine does not count.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/median.h"
#include "base/process_memory.h"
#include "harness/tools/conformance/order_check.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

double clock_s(clockid_t clock) {
  timespec now{};
  (void)clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double thread_cpu_s() { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

std::uint64_t resident_bytes() { return process_memory(getpid()).resident_bytes; }

// Of this process, besides the calling one.
bool some_other_thread_runs() {
  const std::string own = fmt::format("/proc/self/task/{}", gettid());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (entry.path() == own) continue;
    std::string text;
    try {
      text = read_file(entry.path() / "stat", kSystemInput);
    } catch (const FileError&) {
      continue;  // it has ended
    }
    // The name may hold anything; the state comes behind its last bracket.
    const std::size_t bracket = text.rfind(')');
    if (bracket != std::string::npos && text.substr(bracket + 1, 3) == " R ") return true;
  }
  return false;
}

// What the heap has handed out; 0 where another one stands in its place.
std::uint64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// One request and one free a step, 32 blocks of eight sizes live: the same work, again and again.
class SteadyWork {
 public:
  explicit SteadyWork(Scene& scene) : scene_(scene), blocks_(kLiveCount) {}
  ~SteadyWork() {
    for (const Block& block : blocks_) {
      if (block.pointer != nullptr) scene_.give(block);
    }
  }
  SteadyWork(const SteadyWork&) = delete;
  SteadyWork& operator=(const SteadyWork&) = delete;

  void step() {
    Block& block = blocks_.at(count_ % kLiveCount);
    if (block.pointer != nullptr) scene_.give(block);
    block = scene_.get(std::uint64_t{4096} << (count_ * 7 % 8));
    ++count_;
  }
  void steps(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) step();
  }

 private:
  static constexpr std::size_t kLiveCount = 32;
  Scene& scene_;
  std::vector<Block> blocks_;
  std::uint64_t count_ = 0;
};

// In the steady work, calls that took long on the processor, and how often the thread slept. Calls
// for which the driver worked are left out.
struct Stalls {
  std::uint64_t call_count = 0, long_count = 0, sleep_count = 0;
  double longest_s = 0;
};

constexpr double kLongCallS = 1e-3;
// The driver answers questions in less.
constexpr std::uint64_t kDriverWorkNs = 2000;

std::int64_t sleeps_of_thread() {
  rusage usage{};
  (void)getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// A call that takes less has not slept: to sleep and to wake takes a thread longer.
constexpr double kQuickCallS = 2e-6;
// Between two pauses.
constexpr std::uint64_t kStepsAtOnce = 200;

// `count` steps, spread over `wall_s` of the clock: what goes on beside them for a while meets
// some. The processor's time is asked for behind slow steps only, since asking takes longer than a
// step.
template <typename Step>
Stalls find_stalls(const Scene& scene, std::uint64_t count, double wall_s, Step&& step) {
  const SimcuThreadClock* const clock = scene.simcu.thread_clock();
  Stalls stalls;
  const double begin_s = clock_s(CLOCK_MONOTONIC);
  std::int64_t sleeps = 0;
  double cpu_s = 0;  // of the thread before the step
  double before_s = 0;
  while (stalls.call_count < count) {
    if (stalls.call_count % kStepsAtOnce == 0) {
      const double share = static_cast<double>(stalls.call_count) / static_cast<double>(count);
      const double ahead_s = begin_s + wall_s * share - clock_s(CLOCK_MONOTONIC);
      if (ahead_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(ahead_s));
      sleeps = sleeps_of_thread();
      cpu_s = thread_cpu_s();
      before_s = clock_s(CLOCK_MONOTONIC);
    }
    const std::uint64_t driver_ns = clock->modelled_ns;
    step();
    ++stalls.call_count;
    double after_s = clock_s(CLOCK_MONOTONIC);
    double took_s = after_s - before_s;
    cpu_s += took_s;
    if (took_s >= kQuickCallS) {
      const std::int64_t slept = sleeps_of_thread();
      const double cpu_now_s = thread_cpu_s();
      took_s -= cpu_s - cpu_now_s;
      if (clock->modelled_ns - driver_ns < kDriverWorkNs) {
        stalls.sleep_count += slept > sleeps ? 1 : 0;
        stalls.long_count += took_s > kLongCallS ? 1 : 0;
        stalls.longest_s = std::max(stalls.longest_s, took_s);
      }
      sleeps = slept;
      cpu_s = cpu_now_s;
      after_s = clock_s(CLOCK_MONOTONIC);
    }
    before_s = after_s;
  }
  return stalls;
}

// Processor time of a piece of work.
template <typename Piece>
double cpu_s_of(Piece&& piece) {
  const double begin_s = thread_cpu_s();
  piece();
  return thread_cpu_s() - begin_s;
}

// A step of the work in ns, after 20,000 more, and how long the processor takes for the same
// arithmetic meanwhile: it may be slower than before. Both are the quickest of many pieces, which
// others disturb least.
struct StepTime {
  double step_ns = 1e18, arithmetic_ns = 1e18;
};

StepTime step_time(SteadyWork& work) {
  constexpr int kPieceCount = 40;
  constexpr int kPieceSteps = 500;
  volatile std::uint64_t sink = 1;
  StepTime time;
  for (int piece = 0; piece < kPieceCount; ++piece) {
    const double steps_s = cpu_s_of([&] { work.steps(kPieceSteps); });
    const double arithmetic_s = cpu_s_of([&] {
      for (int i = 0; i < 20'000; ++i) sink = sink * 6364136223846793005U + 1;
    });
    time.step_ns = std::min(time.step_ns, steps_s / kPieceSteps * 1e9);
    time.arithmetic_ns = std::min(time.arithmetic_ns, arithmetic_s * 1e9);
  }
  return time;
}

struct ObjectKind {
  const char* name;
  std::initializer_list<const char*> makers, enders;
};

constexpr const char* kObjectNames[] = {"events", "streams", "memory pools", "pinned host blocks",
                                        "open files"};
constexpr std::size_t kOpenFiles = 4;
using ObjectCounts = std::array<std::int64_t, 5>;

std::int64_t open_file_count() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return std::distance(begin(files), end(files));
}

// How many more were made than ended, by kind as in kObjectNames.
ObjectCounts live_objects(const Scene& scene) {
  const ObjectKind kinds[] = {
      {kObjectNames[0], {"cudaEventCreate", "cudaEventCreateWithFlags"}, {"cudaEventDestroy"}},
      {kObjectNames[1],
       {"cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority"},
       {"cudaStreamDestroy"}},
      {kObjectNames[2], {"cudaMemPoolCreate"}, {"cudaMemPoolDestroy"}},
      {kObjectNames[3], {"cudaMallocHost", "cudaHostAlloc"}, {"cudaFreeHost"}}};
  ObjectCounts counts{};
  counts[kOpenFiles] = open_file_count();
  for (std::size_t i = 0; i < kOpenFiles; ++i) {
    const auto calls = [&](const std::initializer_list<const char*>& names) {
      std::int64_t count = 0;
      for (const char* const name : names) {
        const std::uint64_t of_name = scene.simcu.call_count(name);
        if (of_name != SIMCU_NO_SUCH_CALL) count += static_cast<std::int64_t>(of_name);
      }
      return count;
    };
    counts.at(i) = calls(kinds[i].makers) - calls(kinds[i].enders);
  }
  return counts;
}

void use_two_streams(Scene& scene, cudaStream_t stream, cudaStream_t other) {
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < 24; ++i) {
    blocks.push_back(scene.get((1 + i % 6) * kMiB, stream));
    work_on(scene, stream);
    if (scene.plugin.record_stream == nullptr) continue;
    scene.record(blocks.back(), other);
    work_on(scene, other);
  }
  scene.give_all(blocks);
  scene.settle();
}

}  // namespace

std::string objects(Scene& scene) {
  constexpr std::size_t kRepeatCount = 12;
  const cudaStream_t stream = scene.make_stream();
  const cudaStream_t other = scene.make_stream();
  constexpr std::uint64_t kStepCount = 2000;
  std::vector<ObjectCounts> after;
  for (std::size_t i = 0; i < kRepeatCount; ++i) {
    SteadyWork(scene).steps(kStepCount);
    use_two_streams(scene, stream, other);
    after.push_back(live_objects(scene));
  }
  for (std::size_t kind = 0; kind < after.front().size(); ++kind) {
    bool rises = true;
    for (std::size_t i = kRepeatCount / 2; i < kRepeatCount; ++i) {
      rises = rises && after[i].at(kind) > after[i - 1].at(kind);
    }
    expect(!rises,
           fmt::format("after {} repeats {} more {} live than after {}, and each repeat "
                       "adds some: they are never ended",
                       kRepeatCount, after.back().at(kind) - after[kRepeatCount / 2 - 1].at(kind),
                       kObjectNames[kind], kRepeatCount / 2));
  }
  return fmt::format("{} events live after {} repeats", after.back().front(), kRepeatCount);
}

std::string host_memory(Scene& scene) {
  constexpr std::uint64_t kHostBytesMax = 256 * kMiB;
  SteadyWork(scene).steps(2000);
  const std::uint64_t now_bytes = resident_bytes();
  const std::uint64_t taken_bytes = now_bytes - std::min(now_bytes, scene.resident_bytes_before);
  expect(taken_bytes < kHostBytesMax,
         fmt::format("the process holds {} MiB more of the host's memory than before the library "
                     "was loaded",
                     taken_bytes / kMiB));
  return fmt::format("{} MiB taken", taken_bytes / kMiB);
}

std::string host_growth(Scene& scene) {
  constexpr std::uint64_t kStepCount = 200'000;
  constexpr std::uint64_t kHeapBytesMax = 256 * kKiB;
  constexpr std::uint64_t kResidentBytesMax = kMiB;
  SteadyWork work(scene);
  work.steps(50'000);
  const std::uint64_t heap_before = heap_bytes();
  const std::uint64_t resident_before = resident_bytes();
  work.steps(kStepCount);
  const auto grown = [](std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
  };
  const std::uint64_t in_heap = grown(heap_bytes(), heap_before);
  const std::uint64_t in_process = grown(resident_bytes(), resident_before);
  expect(in_heap < kHeapBytesMax && in_process < kResidentBytesMax,
         fmt::format("the same work again took {} KiB more of the host's memory: {:.1f} bytes for "
                     "each of {} requests",
                     std::max(in_heap, in_process) / kKiB,
                     static_cast<double>(std::max(in_heap, in_process)) / kStepCount, kStepCount));
  return fmt::format("{} requests took {} KiB", kStepCount, in_heap / kKiB);
}

std::string idle(Scene& scene) {
  constexpr int kLookCount = 30;
  constexpr double kPauseS = 0.01;
  SteadyWork(scene).steps(2000);
  const double begin_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
  int running_count = 0;
  for (int i = 0; i < kLookCount; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseS));
    running_count += some_other_thread_runs() ? 1 : 0;
  }
  const double spent_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - begin_s;
  // On a full machine a thread that always wants a processor gets little of one.
  const bool spins = running_count > kLookCount * 3 / 4;
  expect(!spins && spent_s < kLookCount * kPauseS / 5,
         fmt::format("without a call, a thread of the plugin ran or wanted to at {} of {} looks, "
                     "and took {:.0f} ms of processor time",
                     running_count, kLookCount, spent_s * 1e3));
  return fmt::format("at {} of {} looks a thread ran", running_count, kLookCount);
}

std::string stalls(Scene& scene) {
  constexpr std::uint64_t kStepCount = 200'000;
  constexpr double kWallS = 0.7;
  SteadyWork work(scene);
  work.steps(5000);
  const Stalls seen = find_stalls(scene, kStepCount, kWallS, [&] { work.step(); });
  expect(seen.sleep_count < 2,
         fmt::format("with one thread calling, {} of {} calls slept: they wait for a lock that a "
                     "thread of the plugin holds, or for time",
                     seen.sleep_count, seen.call_count));
  // Where a machine takes processors away in the middle, it takes them from this loop as well.
  volatile std::uint64_t sink = 1;
  const Stalls control = find_stalls(scene, seen.call_count, 0, [&] {
    for (int i = 0; i < 300; ++i) sink = sink * 6364136223846793005U + 1;
  });
  expect(seen.long_count <= 3 + 3 * control.long_count,
         fmt::format("{} of {} calls took over 1 ms of processor time without a call of the driver "
                     "({:.1f} ms at most)",
                     seen.long_count, seen.call_count, seen.longest_s * 1e3));
  return fmt::format("{} steps, the longest {:.0f} us", seen.call_count, seen.longest_s * 1e6);
}

std::string uptime(Scene& scene) {
  constexpr std::size_t kThird = 4;  // readings, after 20,000 steps each
  SteadyWork work(scene);
  work.steps(2000);
  double arithmetic_ns = 0;
  const auto next_ns = [&] {
    const StepTime now = step_time(work);
    if (arithmetic_ns == 0) arithmetic_ns = now.arithmetic_ns;
    return now.step_ns * arithmetic_ns / now.arithmetic_ns;
  };
  // The middle of a third's readings, which one that others disturbed does not move.
  const auto third_ns = [&] {
    std::vector<double> readings(kThird);
    std::ranges::generate(readings, next_ns);
    return median(std::move(readings));
  };
  const double first = third_ns();
  const double second = third_ns();
  const double third = third_ns();
  const auto is_much = [&](double now) { return now > first * 1.5 && now > first + 100; };
  bool rises = is_much(third);
  // A busy machine can look so for a while, and hide that the second third lies between the others.
  // What grows with the calls does not come down, and goes on to grow.
  const bool is_between = second > first * 1.05 && third > second * 1.05;
  int disturbed_left = 2;
  std::vector<double> later;
  while (rises && later.size() < 5 * kThird) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    later.push_back(next_ns());
    if (!is_much(later.back())) rises = disturbed_left-- > 0;
  }
  if (rises && !is_between) rises = median({later.end() - kThird, later.end()}) > third * 1.25;
  expect(!rises,
         fmt::format("a request and a free took {:.0f} ns of processor time in the first 80,000 of "
                     "them, {:.0f} ns in the second, and {:.0f} ns in the third",
                     first, second, third));
  return fmt::format("{:.0f} ns in the first 80,000, {:.0f} ns in the third", first, third);
}

std::string process_end(Scene& scene) {
  const cudaStream_t stream = scene.make_stream();
  const cudaStream_t other = scene.make_stream();
  use_two_streams(scene, stream, other);
  (void)scene.get(kMiB, stream);
  return "with one block live";
}

}  // namespace allocmark::conformance::checks
