// simcuda's control interface in one process: launches and gates, faults, counters, views, kernel
// models. Needs simcuda in front.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/control.h"

cudaError_t launch_add_to_all(int* values, int count, int summand, cudaStream_t stream);
cudaError_t launch_kernel_nobody_models(int* values);

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

std::uint64_t modelled_ns() { return SIMCU(simcu_thread_clock)()->modelled_ns; }

class Stream {
 public:
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // stands for the handle

 private:
  cudaStream_t stream_ = nullptr;
};

std::uint64_t add_model(void** arguments, void* context) {
  int* values = *static_cast<int**>(arguments[0]);
  const int count = *static_cast<int*>(arguments[1]);
  const int summand = *static_cast<int*>(arguments[2]);
  auto* view =
      static_cast<int*>(SIMCU(simcu_view)(values, static_cast<std::uint64_t>(count) * sizeof(int)));
  for (int i = 0; i < count; ++i) {
    view[i] += summand;
  }
  ++*static_cast<int*>(context);
  return 3 * kMillisecond;
}

}  // namespace

TEST_CASE("the process has more than one thread, as with a GPU's driver") {
  void* pointer = nullptr;
  REQUIRE(cudaMalloc(&pointer, 1) == cudaSuccess);
  REQUIRE(cudaFree(pointer) == cudaSuccess);
  const std::filesystem::directory_iterator threads("/proc/self/task");
  CHECK(std::distance(begin(threads), end(threads)) >= 2);
}

TEST_CASE("simcuda says that it is there") {
  REQUIRE(SIMCU(simcu_present) != nullptr);
  CHECK(SIMCU(simcu_present)() == SIMCU_VERSION);
}

TEST_CASE("calls move the clock, waiting moves it to the end of the work") {
  const Stream stream;
  void* block = nullptr;
  const std::uint64_t start = modelled_ns();
  REQUIRE(cudaMalloc(&block, 2 << 20) == cudaSuccess);
  const std::uint64_t after_malloc = modelled_ns();
  CHECK(after_malloc > start);
  CHECK(SIMCU(simcu_thread_clock)()->simulator_ticks > 0);
  REQUIRE(SIMCU(simcu_launch)(stream, kMillisecond) == cudaSuccess);
  CHECK(modelled_ns() < after_malloc + kMillisecond);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  REQUIRE(cudaFree(block) == cudaSuccess);  // waits for the launch
  CHECK(modelled_ns() >= after_malloc + kMillisecond);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
}

TEST_CASE("events measure virtual time") {
  const Stream stream;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  REQUIRE(SIMCU(simcu_launch)(stream, kMillisecond) == cudaSuccess);
  REQUIRE(cudaEventRecord(begin, stream) == cudaSuccess);
  REQUIRE(SIMCU(simcu_launch)(stream, 5 * kMillisecond) == cudaSuccess);
  REQUIRE(cudaEventRecord(end, stream) == cudaSuccess);
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess);
  CHECK(milliseconds == Approx(5.0));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

TEST_CASE("a gated kernel ends when its gate opens, from any thread") {
  const Stream stream;
  REQUIRE(SIMCU(simcu_launch_gated)(stream, 1) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  int calls = 0;
  REQUIRE(cudaLaunchHostFunc(
              stream, [](void* count) { ++*static_cast<int*>(count); }, &calls) == cudaSuccess);
  CHECK(calls == 0);
  REQUIRE(SIMCU(simcu_open_gate)(1) == cudaSuccess);
  CHECK(calls == 1);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);

  REQUIRE(SIMCU(simcu_launch_gated)(stream, 2) == cudaSuccess);
  std::thread opener([] { SIMCU(simcu_open_gate)(2); });
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  opener.join();
}

TEST_CASE("injected faults hit the calls they were meant for, and change nothing") {
  const std::uint64_t used = SIMCU(simcu_used_bytes)();
  void* block = nullptr;
  REQUIRE(SIMCU(simcu_fail_calls)("cudaMalloc", 2, 2, cudaErrorMemoryAllocation) == cudaSuccess);
  CHECK(cudaMalloc(&block, 4096) == cudaSuccess);
  CHECK(cudaFree(block) == cudaSuccess);
  CHECK(cudaMalloc(&block, 4096) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&block, 4096) == cudaErrorMemoryAllocation);
  CHECK(SIMCU(simcu_used_bytes)() == used);
  CHECK(cudaMalloc(&block, 4096) == cudaSuccess);
  CHECK(cudaFree(block) == cudaSuccess);
  CHECK(SIMCU(simcu_fail_calls)("cudaMaloc", 1, 1, 2) == cudaErrorInvalidValue);
  CHECK(std::string(SIMCU(simcu_last_message)()).find("cudaMalloc") != std::string::npos);
  CHECK(SIMCU(simcu_fail_calls)("cudaMalloc", 0, 1, 2) == cudaErrorInvalidValue);
  CHECK(SIMCU(simcu_fail_calls)(nullptr, 0, 0, 0) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("counts start again, and a misspelt name is no count of 0") {
  REQUIRE(SIMCU(simcu_fail_calls)("cudaMemGetInfo", 2, 1, 2) == cudaSuccess);
  CHECK(cudaMemGetInfo(nullptr, nullptr) == cudaSuccess);
  CHECK(SIMCU(simcu_call_count)("cudaMemGetInfo") > 0);
  SIMCU(simcu_reset)();
  CHECK(SIMCU(simcu_call_count)("cudaMemGetInfo") == 0);
  CHECK(SIMCU(simcu_call_count)(nullptr) == 0);
  CHECK(cudaMemGetInfo(nullptr, nullptr) == cudaSuccess);  // the fault was taken back
  CHECK(SIMCU(simcu_call_count)("cudaMemGetInfo") == 1);
  CHECK(SIMCU(simcu_call_count)("cudaDestroyTextureObject") == 0);  // exists, is not implemented
  CHECK(SIMCU(simcu_call_count)("cudaMaloc") == SIMCU_NO_SUCH_CALL);
  CHECK(std::string(SIMCU(simcu_last_message)())
            .starts_with("simcu_call_count: no function 'cudaMaloc'; did you mean 'cudaMalloc'"));
  CHECK(SIMCU(simcu_fail_calls)("cudaDestroyTextureObject", 1, 1, 2) == cudaErrorInvalidValue);
}

TEST_CASE("calls are counted and logged") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("simcuda_call_log_" + std::to_string(getpid())))
          .string();
  const std::uint64_t before = SIMCU(simcu_call_count)("cudaMemGetInfo");
  const std::uint64_t all_before = SIMCU(simcu_call_count)(nullptr);
  REQUIRE(SIMCU(simcu_call_log)(path.c_str()) == cudaSuccess);
  CHECK(cudaMemGetInfo(nullptr, nullptr) == cudaSuccess);
  CHECK(cudaFree(reinterpret_cast<void*>(0x1000)) == cudaErrorInvalidValue);
  REQUIRE(SIMCU(simcu_call_log)(nullptr) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(SIMCU(simcu_call_count)("cudaMemGetInfo") == before + 1);
  CHECK(SIMCU(simcu_call_count)(nullptr) == all_before + 3);
  std::ifstream log(path);
  std::string line;
  std::getline(log, line);
  CHECK(line == "api,arguments,result,modelled_ns");
  std::getline(log, line);
  CHECK(line.rfind("cudaMemGetInfo,,0,", 0) == 0);
  std::getline(log, line);
  CHECK(line.rfind("cudaFree,0x1000,1,", 0) == 0);
  CHECK_FALSE(std::getline(log, line));
  std::remove(path.c_str());
  CHECK(SIMCU(simcu_call_log)("/nowhere/at/all") == cudaErrorInvalidValue);
}

TEST_CASE("the view reads and writes what programs copy, and device pointers fault on the host") {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 4096) == cudaSuccess);
  REQUIRE(cudaMemset(block, 0x5a, 4096) == cudaSuccess);
  auto* view = static_cast<unsigned char*>(SIMCU(simcu_view)(block, 4096));
  REQUIRE(view != nullptr);
  CHECK(view[4095] == 0x5a);
  view[1] = 9;
  unsigned char byte = 0;
  REQUIRE(cudaMemcpy(&byte, static_cast<char*>(block) + 1, 1, cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  CHECK(byte == 9);
  CHECK(SIMCU(simcu_view)(block, 4097) == nullptr);
  CHECK(SIMCU(simcu_view)(&byte, 1) == nullptr);

  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    const volatile char* pointer = static_cast<const char*>(block);
    _exit(*pointer == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  REQUIRE(cudaFree(block) == cudaSuccess);
  CHECK(SIMCU(simcu_view)(block, 4096) == nullptr);
}

namespace {

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

// All of the block reads as the byte, but for the one at `other`, if any.
bool reads_as(void* block, std::uint64_t size_bytes, unsigned char byte, std::uint64_t other = ~0) {
  const auto* const view = static_cast<unsigned char*>(SIMCU(simcu_view)(block, size_bytes));
  for (std::uint64_t i = 0; view != nullptr && i < size_bytes; ++i) {
    if (i != other && view[i] != byte) return false;
  }
  return view != nullptr;
}

}  // namespace

TEST_CASE("a fill takes no memory of the host, and every view shows it") {
  constexpr std::uint64_t kBytes = (std::uint64_t{6} << 20) + 5000;
  constexpr std::uint64_t kMuch = std::uint64_t{2} << 30;
  void* blocks[2] = {};
  REQUIRE(cudaMalloc(&blocks[0], kBytes) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&blocks[1], kBytes, nullptr) == cudaSuccess);
  for (void* const block : blocks) {
    auto* const view = static_cast<unsigned char*>(SIMCU(simcu_view)(block, kBytes));
    REQUIRE(view != nullptr);
    for (const int value : {0, 0, 0x5a, 0, 0xcd, 0x5a, 0}) {
      REQUIRE(cudaMemset(block, value, kBytes) == cudaSuccess);
      CHECK(reads_as(block, kBytes, static_cast<unsigned char>(value)));
      // A view that was taken before shows it, and keeps what is written through it.
      CHECK(view[kBytes / 2] == value);
      view[kBytes / 2] = 0x77;
      CHECK(reads_as(block, kBytes, static_cast<unsigned char>(value), kBytes / 2));
      CHECK(static_cast<unsigned char*>(SIMCU(simcu_view)(block, kBytes))[kBytes / 2] == 0x77);
    }
    // Parts, over what shows another value.
    REQUIRE(cudaMemset(block, 0xcd, kBytes) == cudaSuccess);
    REQUIRE(cudaMemset(static_cast<char*>(block) + 4097, 0, 3 << 20) == cudaSuccess);
    CHECK(reads_as(block, 4097, 0xcd));
    CHECK(reads_as(static_cast<char*>(block) + 4097, 3 << 20, 0));
    CHECK(reads_as(static_cast<char*>(block) + 4097 + (3 << 20), kBytes - 4097 - (3 << 20), 0xcd));
  }
  // New memory reads as zero, also where freed memory was filled.
  REQUIRE(cudaMemset(blocks[0], 0xcd, kBytes) == cudaSuccess);
  REQUIRE(cudaFree(blocks[0]) == cudaSuccess);
  REQUIRE(cudaMalloc(&blocks[0], kBytes) == cudaSuccess);
  CHECK(reads_as(blocks[0], kBytes, 0));
  REQUIRE(cudaFree(blocks[0]) == cudaSuccess);
  REQUIRE(cudaFreeAsync(blocks[1], nullptr) == cudaSuccess);

  void* much = nullptr;
  REQUIRE(cudaMalloc(&much, kMuch) == cudaSuccess);
  const std::uint64_t before = resident_bytes();
  for (const int value : {0xcd, 0}) {
    REQUIRE(cudaMemset(static_cast<char*>(much) + 512, value, kMuch - 512) == cudaSuccess);
    CHECK(resident_bytes() < before + (std::uint64_t{16} << 20));
  }
  REQUIRE(cudaFree(much) == cudaSuccess);
}

TEST_CASE("a kernel runs as its host model says, and one without a model is an error") {
  const Stream stream;
  int calls = 0;
  REQUIRE(SIMCU(simcu_register_kernel)("add_to_all", &add_model, &calls) == cudaSuccess);
  int* values = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&values), 1000 * sizeof(int)) == cudaSuccess);
  REQUIRE(cudaMemset(values, 0, 1000 * sizeof(int)) == cudaSuccess);
  const std::uint64_t before = modelled_ns();
  REQUIRE(launch_add_to_all(values, 1000, 42, stream) == cudaSuccess);
  CHECK(calls == 1);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(modelled_ns() >= before + 3 * kMillisecond);
  int last = 0;
  REQUIRE(cudaMemcpy(&last, values + 999, sizeof last, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(last == 42);

  CHECK(launch_kernel_nobody_models(values) == cudaErrorNotSupported);
  CHECK(std::string(SIMCU(simcu_last_message)()).find("kernel_nobody_models") != std::string::npos);
  REQUIRE(cudaFree(values) == cudaSuccess);
}

TEST_CASE(
    "nothing of the above lacked more than a kernel's model, and what simcuda lacks is counted") {
  const auto lacks = [](const char* name) {
    return std::string(SIMCU(simcu_unimplemented_names)()).find(name) != std::string::npos;
  };
  CHECK(SIMCU(simcu_unimplemented_count)() == 1);
  CHECK(lacks("kernel_nobody_models"));
  CHECK(cudaDestroyTextureObject(0) == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  CHECK(SIMCU(simcu_unimplemented_count)() == 2);
  CHECK(lacks("cudaDestroyTextureObject,kernel "));
}

TEST_CASE("managed memory takes pages when they are touched, and its end is known") {
  constexpr std::size_t kBytes = std::size_t{1} << 40;  // more than any host has
  void* managed = nullptr;
  void* other = nullptr;
  REQUIRE(cudaMallocManaged(&managed, kBytes, cudaMemAttachGlobal) == cudaSuccess);
  REQUIRE(cudaMalloc(&other, 8192) == cudaSuccess);
  char* const last = static_cast<char*>(managed) + kBytes - 4096;
  *last = 5;
  CHECK(cudaMemcpy(other, last, 4096, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(other, last, 4097, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemset(last, 0, 4097) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  std::size_t before = 0, after = 0, total = 0;
  CHECK(cudaMemGetInfo(&before, &total) == cudaSuccess);
  CHECK(cudaFree(managed) == cudaSuccess);
  CHECK(cudaMemGetInfo(&after, &total) == cudaSuccess);
  CHECK(before == after);
  CHECK(cudaFree(other) == cudaSuccess);
}

#if CUDART_VERSION >= 13000
TEST_CASE("pools of host memory keep to their largest size, and outlive a context") {
  constexpr std::size_t kChunkBytes = 32 << 20;  // what a pool takes at a time
  for (const cudaMemAllocationType type :
       {cudaMemAllocationTypePinned, cudaMemAllocationTypeManaged}) {
    cudaMemPoolProps properties{};
    properties.allocType = type;
    properties.location = {cudaMemLocationTypeHost, 0};
    const bool is_sized = type == cudaMemAllocationTypePinned;  // managed ones cannot be
    properties.maxSize = is_sized ? kChunkBytes : 0;
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
    void* block = nullptr;
    void* refused = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&block, kChunkBytes, pool, nullptr) == cudaSuccess);
    if (is_sized) {
      CHECK(cudaMallocFromPoolAsync(&refused, 1, pool, nullptr) == cudaErrorMemoryAllocation);
      CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    }
    CHECK(cudaDeviceReset() == cudaSuccess);
    *static_cast<char*>(block) = 3;
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
    *static_cast<char*>(block) = 4;
    CHECK(cudaFree(block) == cudaSuccess);
    CHECK(cudaFree(block) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  }
  cudaMemLocation host{.type = cudaMemLocationTypeHost, .id = 0};
  cudaMemPool_t pool = nullptr;
  cudaMemPool_t again = nullptr;
  CHECK(cudaMemGetDefaultMemPool(&pool, &host, cudaMemAllocationTypePinned) == cudaSuccess);
  CHECK(cudaMemGetDefaultMemPool(&again, &host, cudaMemAllocationTypePinned) == cudaSuccess);
  CHECK(pool == again);
  CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}
#endif

TEST_CASE("simcuda tells what is pinned, and pins no more than the host has memory") {
  const std::uint64_t before_bytes = SIMCU(simcu_pinned_bytes)();
  std::uint64_t base = 0;
  std::uint64_t size_bytes = 0;
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 5000) == cudaSuccess);
  CHECK(SIMCU(simcu_pinned_bytes)() == before_bytes + 5000);
  CHECK(SIMCU(simcu_pinned_range)(static_cast<char*>(pinned) + 4999, &base, &size_bytes) == 0);
  CHECK(base == reinterpret_cast<std::uintptr_t>(pinned));
  CHECK(size_bytes == 5000);
  CHECK(SIMCU(simcu_pinned_range)(static_cast<char*>(pinned) + 5000, &base, &size_bytes) != 0);
  CHECK(SIMCU(simcu_pinned_range)(&base, &base, &size_bytes) != 0);
  void* managed = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal) == cudaSuccess);
  CHECK(SIMCU(simcu_pinned_range)(managed, &base, &size_bytes) != 0);
  REQUIRE(cudaFree(managed) == cudaSuccess);
  std::vector<char> registered(8192);
  REQUIRE(cudaHostRegister(registered.data(), 8192, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(SIMCU(simcu_pinned_bytes)() == before_bytes + 13192);
  REQUIRE(cudaHostUnregister(registered.data()) == cudaSuccess);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(SIMCU(simcu_pinned_bytes)() == before_bytes);

  const auto host_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  CHECK(cudaMallocHost(&pinned, host_bytes + (2 << 20)) == cudaErrorMemoryAllocation);
  (void)cudaGetLastError();
  CHECK(SIMCU(simcu_pinned_bytes)() == before_bytes);
}
