// Watched calls, and the search through the interleavings of two threads. Needs simcuda in front.
#include <cuda_runtime_api.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/simcuda/simcu_threads.h"
#include "tests/catch.h"

namespace {

struct Told {
  std::vector<std::string> lines;
};

void tell(const char* api, int result, void* context) {
  int device = 0;
  (void)cudaGetDevice(&device);  // a call of the watch's own: not told
  static_cast<Told*>(context)->lines.push_back(std::string(api) + " " + std::to_string(result));
}

// A list of one pointer that two threads take from, with a CUDA call between the look and the
// taking.
struct Shelf {
  void* kept = nullptr;
  bool locks = false;
  std::mutex mutex;

  void* take() {
    std::unique_lock lock(mutex, std::defer_lock);
    if (locks) lock.lock();
    void* const found = kept;
    (void)cudaStreamQuery(nullptr);
    if (found != nullptr) kept = nullptr;
    return found;
  }
};

// Places at which both threads got the same pointer.
std::vector<std::string> double_takes(bool locks, std::uint64_t* waits) {
  std::vector<std::string> places;
  for (std::uint64_t nth = 0;; ++nth) {
    int value = 0;
    Shelf shelf;
    shelf.kept = &value;
    shelf.locks = locks;
    void* one = nullptr;
    void* two = nullptr;
    const simcu::Interleaving run =
        simcu::interleave([&] { one = shelf.take(); }, [&] { two = shelf.take(); }, nth);
    if (!run.stopped) return places;
    if (one == two) places.push_back(run.place);
    *waits += run.second_waited ? 1 : 0;
  }
}

}  // namespace

TEST_CASE("a watch is told where calls begin and end, and with what result") {
  Told told;
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  SIMCU(simcu_watch_calls)(tell, &told);
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 512) == cudaSuccess);
  CHECK(cudaFree(static_cast<char*>(pointer) + 8) == cudaErrorInvalidValue);
  SIMCU(simcu_watch_calls)(nullptr, nullptr);
  CHECK(cudaFree(pointer) == cudaSuccess);
  (void)cudaGetLastError();
  CHECK(told.lines ==
        std::vector<std::string>{"cudaMalloc -1", "cudaMalloc 0", "cudaFree -1", "cudaFree 1"});
}

TEST_CASE("a double hand-out between two threads is found at the call where it can happen") {
  std::uint64_t waits = 0;
  CHECK(double_takes(false, &waits) ==
        std::vector<std::string>{"the begin of cudaStreamQuery", "the end of cudaStreamQuery"});
  CHECK(waits == 0);
}

TEST_CASE("with a lock the other thread waits, and nothing is found") {
  std::uint64_t waits = 0;
  CHECK(double_takes(true, &waits).empty());
  CHECK(waits == 2);
}

TEST_CASE("calls that fail are listed, and what a thread throws arrives when both have ended") {
  bool second_ran = false;
  const auto fails = [] { (void)cudaEventQuery(nullptr); };
  const auto second = [&] { second_ran = true; };
  const simcu::Interleaving run = simcu::interleave(fails, second, 1);
  CHECK(run.place == "the end of cudaEventQuery");
  REQUIRE(run.failed_calls.size() == 1);
  CHECK(run.failed_calls[0].first == "cudaEventQuery");
  CHECK(run.failed_calls[0].second == cudaErrorInvalidResourceHandle);
  second_ran = false;
  CHECK_THROWS_AS(simcu::interleave([] { throw std::runtime_error("first"); }, second, 0),
                  std::runtime_error);
  CHECK(second_ran);
}
