// Stream capture: what it forbids, how streams join it, and how it ends. All of it holds on an H200
// (driver 580.159.04, 2026-11-26).
#include <cuda_runtime_api.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

namespace {

using conformance::kMiB;

constexpr const char* kDone = "cudaSuccess";
constexpr const char* kUnsupported = "cudaErrorStreamCaptureUnsupported";
constexpr const char* kInvalidated = "cudaErrorStreamCaptureInvalidated";
constexpr const char* kInvalidArgument = "cudaErrorInvalidValue";
constexpr const char* kIllegal = "cudaErrorIllegalState";

// Streams, events and a block, gone at the end of a test with any capture that it left.
class Bench {
 public:
  explicit Bench(unsigned flags = cudaStreamNonBlocking) {
    for (cudaStream_t& stream : streams) {
      REQUIRE(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess);
    }
    for (cudaEvent_t& event : events) {
      REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    }
    REQUIRE(cudaMalloc(&block, kMiB) == cudaSuccess);
  }
  ~Bench() {
    for (cudaStream_t const stream : streams) cudaStreamDestroy(stream);
    for (cudaEvent_t const event : events) cudaEventDestroy(event);
    cudaFree(block);
    (void)cudaGetLastError();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void begin(int stream = 0, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    REQUIRE(cudaStreamBeginCapture(streams[stream], mode) == cudaSuccess);
  }
  // A fill.
  void work(int stream) { REQUIRE(cudaMemsetAsync(block, 1, 512, streams[stream]) == cudaSuccess); }
  void fork(int from, int event, int to) {
    REQUIRE(cudaEventRecord(events[event], streams[from]) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(streams[to], events[event], 0) == cudaSuccess);
  }
  // The error of the end and the number of nodes, "0" where there is no graph.
  std::string end(int stream = 0) {
    cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(&graph);
    const conformance::Answer answer =
        conformance::answer(cudaStreamEndCapture(streams[stream], &graph));
    CHECK(answer.error == answer.last_error);
    if (answer.error != kDone) {
      CHECK(graph == nullptr);
      return answer.error;
    }
    std::size_t count = 0;
    REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    return std::to_string(count);
  }
  cudaStreamCaptureStatus status(int stream = 0) {
    cudaStreamCaptureStatus status{};
    REQUIRE(cudaStreamIsCapturing(streams[stream], &status) == cudaSuccess);
    return status;
  }

  cudaStream_t streams[3] = {};
  cudaEvent_t events[3] = {};
  void* block = nullptr;
};

// While the thread's mode is another one.
class Mode {
 public:
  explicit Mode(cudaStreamCaptureMode mode) : mode_(mode) {
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess);
  }
  ~Mode() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

 private:
  cudaStreamCaptureMode mode_;
};

}  // namespace

TEST_CASE("a capture begins once, not in the legacy stream, and ends where it began") {
  Bench bench;
  cudaGraph_t graph = nullptr;
  REQUIRE_ANSWER(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), kUnsupported);
  REQUIRE_ANSWER(cudaStreamEndCapture(bench.streams[0], &graph), kIllegal);
  REQUIRE_ANSWER(cudaStreamEndCapture(nullptr, &graph), kIllegal);
  CHECK(bench.status() == cudaStreamCaptureStatusNone);
  bench.begin();
  CHECK(bench.status() == cudaStreamCaptureStatusActive);
  REQUIRE_ANSWER(cudaStreamBeginCapture(bench.streams[0], cudaStreamCaptureModeGlobal), kIllegal);
  bench.work(0);
  bench.work(0);
  CHECK(bench.end() == "2");
  CHECK(bench.status() == cudaStreamCaptureStatusNone);
  REQUIRE_ANSWER(cudaStreamSynchronize(bench.streams[0]), kDone);
}

TEST_CASE("calls that a graph would miss invalidate the capture, and its end says so") {
  Bench bench;
  void* block = nullptr;
  const std::vector<cudaError_t (*)(Bench&, void**)> calls = {
      [](Bench&, void** made) { return cudaMalloc(made, 512); },
      [](Bench& b, void**) { return cudaFree(b.block); },
      [](Bench&, void** made) { return cudaMallocHost(made, 512); },
      [](Bench& b, void**) { return cudaStreamSynchronize(b.streams[1]); },
      [](Bench& b, void**) { return cudaEventSynchronize(b.events[2]); },
      [](Bench& b, void**) { return cudaEventQuery(b.events[2]); }};
  for (const auto call : calls) {
    for (const cudaStreamCaptureMode mode :
         {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      bench.begin(0, mode);
      bench.work(0);
      REQUIRE_ANSWER(call(bench, &block), kUnsupported);
      CHECK(bench.status() == cudaStreamCaptureStatusInvalidated);
      REQUIRE_ANSWER(cudaMemsetAsync(bench.block, 0, 512, bench.streams[0]), kInvalidated);
      CHECK(bench.end() == kInvalidated);
      CHECK(bench.status() == cudaStreamCaptureStatusNone);
    }
  }
}

TEST_CASE("a relaxed capture, and a relaxed thread, may call them") {
  Bench bench;
  void* block = nullptr;
  bench.begin(0, cudaStreamCaptureModeRelaxed);
  REQUIRE_ANSWER(cudaMalloc(&block, 512), kDone);
  REQUIRE_ANSWER(cudaFree(block), kDone);
  REQUIRE_ANSWER(cudaStreamSynchronize(bench.streams[1]), kDone);
  CHECK(bench.end() == "0");
  bench.begin(0, cudaStreamCaptureModeGlobal);
  {
    const Mode relaxed(cudaStreamCaptureModeRelaxed);
    REQUIRE_ANSWER(cudaMalloc(&block, 512), kDone);
    REQUIRE_ANSWER(cudaEventQuery(bench.events[0]), kDone);
  }
  REQUIRE_ANSWER(cudaFree(block), kUnsupported);
  CHECK(bench.end() == kInvalidated);
  REQUIRE_ANSWER(cudaFree(block), kDone);
}

TEST_CASE("another thread's calls are concerned only where both modes are global") {
  struct Row {
    cudaStreamCaptureMode capture, thread;
    const char* error;
    const char* end;
  };
  const Row rows[] = {
      {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeGlobal, kUnsupported, kInvalidated},
      {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, kDone, "0"},
      {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed, kDone, "0"},
      {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal, kDone, "0"},
      {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal, kDone, "0"}};
  Bench bench;
  for (const Row& row : rows) {
    bench.begin(0, row.capture);
    std::string error;
    std::thread([&] {
      cudaStreamCaptureMode mode = row.thread;
      (void)cudaThreadExchangeStreamCaptureMode(&mode);
      void* block = nullptr;
      error = cudaGetErrorName(cudaMalloc(&block, 512));
      if (block != nullptr) (void)cudaFree(block);
    }).join();
    CHECK(error == row.error);
    CHECK(bench.end() == row.end);
  }
}

TEST_CASE("a captured stream, its device and its events cannot be waited for in any mode") {
  Bench bench;
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed}) {
    for (int which = 0; which < 5; ++which) {
      bench.begin(0, mode);
      REQUIRE(cudaEventRecord(bench.events[0], bench.streams[0]) == cudaSuccess);
      const bool is_event = which >= 3;
      const cudaError_t error = which == 0   ? cudaStreamSynchronize(bench.streams[0])
                                : which == 1 ? cudaStreamQuery(bench.streams[0])
                                : which == 2 ? cudaDeviceSynchronize()
                                : which == 3 ? cudaEventSynchronize(bench.events[0])
                                             : cudaEventQuery(bench.events[0]);
      CHECK(error == (is_event ? cudaErrorCapturedEvent : cudaErrorStreamCaptureUnsupported));
      CHECK(bench.end() == kInvalidated);
    }
  }
  (void)cudaGetLastError();
  // An event that was last recorded in a capture is of no use once that has ended or is invalid,
  // until it is recorded again.
  const auto check_useless = [&] {
    REQUIRE_ANSWER(cudaEventQuery(bench.events[0]), kInvalidArgument);
    REQUIRE_ANSWER(cudaEventSynchronize(bench.events[0]), kInvalidArgument);
    REQUIRE_ANSWER(cudaStreamWaitEvent(bench.streams[1], bench.events[0], 0), kInvalidArgument);
  };
  check_useless();
  bench.begin();
  REQUIRE(cudaEventRecord(bench.events[0], bench.streams[0]) == cudaSuccess);
  CHECK(bench.end() == "0");
  check_useless();
  bench.begin(1);
  REQUIRE_ANSWER(cudaStreamWaitEvent(bench.streams[1], bench.events[0], 0), kInvalidArgument);
  CHECK(bench.end(1) == kInvalidated);
  bench.begin();
  REQUIRE(cudaEventRecord(bench.events[0], bench.streams[0]) == cudaSuccess);
  CHECK(cudaEventQuery(bench.events[0]) == cudaErrorCapturedEvent);
  CHECK(cudaEventQuery(bench.events[0]) == cudaErrorInvalidValue);
  CHECK(bench.end() == kInvalidated);
  (void)cudaGetLastError();
  REQUIRE_ANSWER(cudaEventRecord(bench.events[0], bench.streams[0]), kDone);
  REQUIRE_ANSWER(cudaEventSynchronize(bench.events[0]), kDone);
}

TEST_CASE("the legacy stream cannot be used beside a captured stream that it follows") {
  Bench bench(cudaStreamDefault);
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  bench.begin();
  // To ask is no use of it.
  REQUIRE_ANSWER(cudaStreamIsCapturing(nullptr, &status), "cudaErrorStreamCaptureImplicit");
  REQUIRE_ANSWER(cudaStreamGetCaptureInfo(nullptr, &status, &id), "cudaErrorStreamCaptureImplicit");
  CHECK(bench.status() == cudaStreamCaptureStatusActive);
  REQUIRE_ANSWER(cudaMemsetAsync(bench.block, 0, 512, nullptr), "cudaErrorStreamCaptureImplicit");
  CHECK(bench.end() == kInvalidated);
  bench.begin();
  char byte = 0;
  REQUIRE_ANSWER(cudaMemcpy(&byte, bench.block, 1, cudaMemcpyDeviceToHost),
                 "cudaErrorStreamCaptureImplicit");
  CHECK(bench.end() == kInvalidated);
  const Bench apart;  // streams that the legacy stream does not follow
  REQUIRE(cudaStreamBeginCapture(apart.streams[0], cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE_ANSWER(cudaMemsetAsync(bench.block, 0, 512, nullptr), kDone);
  cudaGraph_t graph = nullptr;
  REQUIRE_ANSWER(cudaStreamEndCapture(apart.streams[0], &graph), kDone);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("streams join a capture by an event and have to be joined again") {
  Bench bench;
  bench.begin();
  bench.work(0);
  bench.fork(0, 0, 1);
  CHECK(bench.status(1) == cudaStreamCaptureStatusActive);
  REQUIRE_ANSWER(cudaStreamBeginCapture(bench.streams[1], cudaStreamCaptureModeGlobal), kIllegal);
  bench.work(1);
  bench.work(0);
  bench.fork(1, 1, 0);
  bench.work(0);
  CHECK(bench.end() == "4");
  CHECK(bench.status(1) == cudaStreamCaptureStatusNone);

  bench.begin();
  bench.fork(0, 0, 1);
  bench.work(1);
  CHECK(bench.end() == "cudaErrorStreamCaptureUnjoined");
  CHECK(bench.status(1) == cudaStreamCaptureStatusNone);
  // Work behind the join is not joined.
  bench.begin();
  bench.fork(0, 0, 1);
  bench.work(1);
  bench.fork(1, 1, 0);
  bench.work(1);
  CHECK(bench.end() == "cudaErrorStreamCaptureUnjoined");
  // A stream without work of its own is.
  bench.begin();
  bench.work(0);
  bench.fork(0, 0, 1);
  CHECK(bench.end() == "1");
}

TEST_CASE("a capture depends on nothing outside, and two captures do not meet") {
  Bench bench;
  REQUIRE(cudaEventRecord(bench.events[0], bench.streams[1]) == cudaSuccess);
  bench.begin();
  REQUIRE_ANSWER(cudaStreamWaitEvent(bench.streams[0], bench.events[0], 0),
                 "cudaErrorStreamCaptureIsolation");
  CHECK(bench.end() == kInvalidated);

  bench.begin(0);
  bench.begin(1);
  REQUIRE(cudaEventRecord(bench.events[0], bench.streams[0]) == cudaSuccess);
  REQUIRE_ANSWER(cudaStreamWaitEvent(bench.streams[1], bench.events[0], 0),
                 "cudaErrorStreamCaptureMerge");
  CHECK(bench.end(0) == kInvalidated);
  CHECK(bench.end(1) == kInvalidated);

  bench.begin();
  bench.fork(0, 0, 1);
  cudaGraph_t graph = nullptr;
  REQUIRE_ANSWER(cudaStreamEndCapture(bench.streams[1], &graph), "cudaErrorStreamCaptureUnmatched");
  CHECK(bench.end() == kInvalidated);
}

TEST_CASE("another thread ends a capture without a graph, unless it is relaxed") {
  Bench bench;
  const auto end_elsewhere = [&] {
    std::string error;
    std::thread([&] {
      cudaGraph_t graph = nullptr;
      error = cudaGetErrorName(cudaStreamEndCapture(bench.streams[0], &graph));
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
    }).join();
    return error;
  };
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    bench.begin(0, mode);
    CHECK(end_elsewhere() == "cudaErrorStreamCaptureWrongThread");
    CHECK(bench.status() == cudaStreamCaptureStatusNone);
    CHECK(bench.end() == kIllegal);
  }
  bench.begin(0, cudaStreamCaptureModeRelaxed);
  CHECK(end_elsewhere() == kDone);
  CHECK(bench.status() == cudaStreamCaptureStatusNone);
}

TEST_CASE("a captured stream tells its capture, its graph and what comes before the next node") {
  Bench bench;
  cudaStreamCaptureStatus status{};
  unsigned long long id = 7;
  unsigned long long other_id = 0;
  cudaGraph_t graph = nullptr;
  cudaGraph_t given = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 9;
  REQUIRE_ANSWER(cudaStreamGetCaptureInfo(bench.streams[0], nullptr), "cudaErrorInvalidValue");
  REQUIRE_ANSWER(cudaStreamGetCaptureInfo(bench.streams[0], &status, &id), kDone);
  CHECK(id == 7);
  REQUIRE(cudaGraphCreate(&given, 0) == cudaSuccess);
  cudaGraphNode_t first = nullptr;
  REQUIRE(cudaGraphAddEmptyNode(&first, given, nullptr, 0) == cudaSuccess);
  REQUIRE_ANSWER(cudaStreamBeginCaptureToGraph(bench.streams[0], given, &first, nullptr, 1,
                                               cudaStreamCaptureModeGlobal),
                 kDone);
  REQUIRE_ANSWER(cudaStreamGetCaptureInfo(bench.streams[0], &status, &id, &graph, &dependencies,
                                          nullptr, &count),
                 kDone);
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(graph == given);
  REQUIRE(count == 1);
  CHECK(dependencies[0] == first);
  bench.work(0);
  bench.fork(0, 0, 1);
  REQUIRE_ANSWER(cudaStreamGetCaptureInfo(bench.streams[1], &status, &other_id), kDone);
  CHECK(other_id == id);
  REQUIRE_ANSWER(cudaStreamUpdateCaptureDependencies(bench.streams[0], &first, nullptr, 1,
                                                     cudaStreamSetCaptureDependencies),
                 kDone);
  bench.work(0);
  REQUIRE_ANSWER(cudaStreamUpdateCaptureDependencies(bench.streams[2], &first, nullptr, 1, 0),
                 kIllegal);
  REQUIRE_ANSWER(cudaStreamUpdateCaptureDependencies(bench.streams[0], &first, nullptr, 1, 5),
                 "cudaErrorInvalidValue");
  bench.fork(1, 1, 0);
  REQUIRE_ANSWER(cudaStreamEndCapture(bench.streams[0], &graph), kDone);
  CHECK(graph == given);
  REQUIRE_ANSWER(cudaGraphNodeGetDependentNodes(first, nullptr, nullptr, &count), kDone);
  CHECK(count == 2);
  REQUIRE(cudaGraphDestroy(given) == cudaSuccess);
}

TEST_CASE("a thread's mode is exchanged, and is one of three") {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  REQUIRE_ANSWER(cudaThreadExchangeStreamCaptureMode(&mode), kDone);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  REQUIRE_ANSWER(cudaThreadExchangeStreamCaptureMode(&mode), kDone);
  CHECK(mode == cudaStreamCaptureModeRelaxed);
}
