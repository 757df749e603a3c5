// Goal: of private pools the checked pass tells the most that was reserved and stranded, what went
// back to the device at once, and captures in which a request failed. Method: a backend that says
// which segments it has at each step.
#include "harness/core/check/pool_watch.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace allocmark {
namespace {

class Held final : public Backend {
 public:
  std::vector<MemorySegment> now;
  [[nodiscard]] AllocateResult allocate(std::uint64_t, cudaStream_t) override { return {}; }
  void deallocate(void*, std::uint64_t, cudaStream_t) override {}
  [[nodiscard]] MemoryStats stats(cudaStream_t) const override { return {}; }
  [[nodiscard]] std::vector<MemorySegment> segments() const override { return now; }
};

MemorySegment segment(std::uint64_t pool, std::uint64_t size_bytes, std::uint64_t allocated_bytes,
                      std::uint64_t waiting_bytes = 0) {
  MemorySegment made{.size_bytes = size_bytes, .pool = pool, .allocated_bytes = allocated_bytes};
  made.blocks = {{.size_bytes = allocated_bytes, .state = MemoryBlockState::Allocated},
                 {.size_bytes = waiting_bytes, .state = MemoryBlockState::Waiting},
                 {.size_bytes = size_bytes - allocated_bytes - waiting_bytes,
                  .state = MemoryBlockState::Free}};
  return made;
}

struct Watched {
  Held backend;
  Timeline timeline{8};
  PoolWatch watch{backend, &timeline};
  void step(EventKind kind, const std::vector<MemorySegment>& after, std::uint32_t stream = 0,
            std::uint64_t pool = 1) {
    const Event event{.id = pool, .stream = stream, .kind = kind};
    watch.before(event);
    backend.now = after;
    watch.after(event);
  }
  std::map<std::string, std::int64_t> counters() {
    std::map<std::string, std::int64_t> found;
    for (const auto& [name, value] : watch.counters())
      found[name.substr(std::string("private_pools.").size())] = value;
    return found;
  }
};

}  // namespace

TEST_CASE("the most stranded memory is told pool by pool, and waiting blocks are not stranded") {
  Watched job;
  job.step(EventKind::PoolCreate, {}, 0, 2);
  job.step(EventKind::PoolBegin, {});
  job.step(EventKind::Alloc, {segment(1, 1000, 900), segment(0, 5000, 0)});
  job.step(EventKind::PoolEnd, {segment(1, 1000, 900), segment(0, 5000, 0)});
  job.step(EventKind::Free, {segment(1, 1000, 100, 300), segment(2, 50, 10)});
  job.step(EventKind::PoolBegin, {segment(1, 1000, 100, 300), segment(2, 50, 10)});
  job.step(EventKind::Alloc, {segment(1, 1000, 1000), segment(2, 50, 10)});
  job.step(EventKind::PoolEnd, {segment(1, 1000, 1000), segment(2, 50, 10)});
  const auto found = job.counters();
  CHECK(found.at("reserved_bytes_peak") == 1050);
  CHECK(found.at("stranded_bytes_peak") == 640);
  CHECK(found.at("stranded_pool_count") == 2);
  CHECK(found.at("stranded_bytes_of_pool1") == 600);
  CHECK(found.at("stranded_bytes_of_pool2") == 40);
  CHECK(found.count("given_back_bytes_max") == 0);
}

TEST_CASE("what is freed after the last step of a pool is stranded at the end") {
  Watched job;
  job.step(EventKind::PoolBegin, {}, 0, 3);
  job.step(EventKind::PoolEnd, {segment(3, 100, 100)}, 0, 3);
  job.step(EventKind::Free, {segment(3, 100, 0)});
  CHECK(job.counters().at("stranded_bytes_of_pool3") == 100);
}

TEST_CASE("what a pool has that nobody uses any more is not stranded") {
  Watched job;
  job.step(EventKind::PoolCreate, {});
  job.step(EventKind::PoolBegin, {});
  job.step(EventKind::PoolEnd, {segment(1, 100, 90)});
  job.step(EventKind::PoolRelease, {segment(1, 100, 90)});
  job.step(EventKind::Free, {segment(1, 100, 0)});
  job.step(EventKind::PoolRelease, {segment(1, 100, 0)});
  job.step(EventKind::Trim, {});
  CHECK(job.counters().at("stranded_bytes_peak") == 10);
}

TEST_CASE("calls of empty_cache with no request between them give back together") {
  Watched job;
  job.step(EventKind::PoolCreate, {}, 0, 2);
  job.backend.now = {segment(1, 700, 0), segment(0, 400, 100)};
  job.step(EventKind::Trim, {segment(0, 400, 100)});
  job.step(EventKind::Trim, {segment(0, 100, 100), segment(2, 60, 20)});
  job.step(EventKind::Alloc, {segment(0, 900, 900)});
  job.step(EventKind::Trim, {segment(0, 500, 500)});
  const auto found = job.counters();
  CHECK(found.at("given_back_bytes_max") == 940);
  CHECK(found.at("kept_bytes") == 160);
  CHECK(found.at("kept_stranded_bytes") == 40);
}

TEST_CASE("a capture failed where a request on its stream did") {
  Watched job;
  job.step(EventKind::CaptureBegin, {}, 2);
  job.watch.note_failure(0);
  job.step(EventKind::CaptureEnd, {}, 2);
  CHECK(job.counters().at("capture_failed_count") == 0);
  job.step(EventKind::CaptureBegin, {}, 2);
  job.watch.note_failure(2);
  job.step(EventKind::CaptureEnd, {}, 2);
  job.watch.note_failure(2);
  const auto found = job.counters();
  CHECK(found.at("capture_count") == 2);
  CHECK(found.at("capture_failed_count") == 1);
}

TEST_CASE("a capture in which the pass ended is told, and failed where a request did") {
  Watched job;
  job.step(EventKind::CaptureBegin, {}, 2);
  job.watch.note_failure(2);
  job.step(EventKind::Alloc, {});
  CHECK(job.counters().at("capture_failed_count") == 1);
  CHECK(job.timeline.to_json("ab").find("\"captures\":[[0,2,1]]") != std::string::npos);
}

TEST_CASE("a timeline has what pools have at each step, and their captures") {
  Watched job;
  job.step(EventKind::PoolBegin, {segment(0, 5000, 0)});
  job.step(EventKind::CaptureBegin, {segment(1, 1000, 900)});
  job.step(EventKind::Free, {segment(1, 1000, 100, 300)});
  job.step(EventKind::CaptureEnd, {segment(1, 1000, 400)});
  job.step(EventKind::PoolEnd, {segment(1, 1000, 400)});
  CHECK(job.timeline.to_json("ab").find(
            "\"private_pools\":{\"event_index\":[0,1,2,3,4],"
            "\"reserved_bytes\":[0,1000,1000,1000,1000],\"live_bytes\":[0,900,400,400,400],"
            "\"captures\":[[1,3,0]]},") != std::string::npos);
}

TEST_CASE("a long timeline keeps what was most stranded between its ends of spans") {
  Held backend;
  Timeline timeline(10'000);
  PoolWatch watch(backend, &timeline);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const bool ends = i % 10 == 4;
    const Event event{.id = 1, .kind = ends ? EventKind::PoolEnd : EventKind::PoolBegin};
    backend.now = {segment(1, 1000, ends ? 100 : 700)};
    watch.before(event);
    watch.after(event);
  }
  const std::string json = timeline.to_json("ab");
  CHECK(json.find("\"private_pools\":{\"event_index\":[4,9,14,19,") != std::string::npos);
  CHECK(json.find("\"live_bytes\":[100,700,100,700,") != std::string::npos);
}

TEST_CASE("a timeline without private pools says nothing of them") {
  CHECK(Timeline(3).to_json("ab").find("private_pools") == std::string::npos);
}

}  // namespace allocmark
