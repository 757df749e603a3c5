// See device_probe.h.
#include "tests/support/device_probe.h"

#include <dlfcn.h>
#include <unistd.h>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {
namespace {

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void CUDART_CB wait_until_open(void* argument) {
  // The stream's callback owns one share of the flag, so that a gate may go before its work does.
  const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> is_open(
      static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
  (*is_open)->wait(false);
}

}  // namespace

bool on_simcuda() { return dlsym(RTLD_DEFAULT, "simcu_present") != nullptr; }

void plan_fault(const FaultPlan& plan) {
  constexpr int kMemoryAllocation = 2;  // as cudaError_t and as CUresult
  find<decltype(simcu_fail_calls)>("simcu_fail_calls")(plan.api, plan.nth, plan.count,
                                                       kMemoryAllocation);
}

void clear_faults() { find<decltype(simcu_fail_calls)>("simcu_fail_calls")(nullptr, 0, 0, 0); }

std::uint64_t call_count(const char* api) {
  return find<decltype(simcu_call_count)>("simcu_call_count")(api);
}

std::uint64_t pinned_bytes() { return find<decltype(simcu_pinned_bytes)>("simcu_pinned_bytes")(); }

std::uint64_t used_bytes() {
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  if (on_simcuda()) {
    return find<decltype(simcu_used_bytes)>("simcu_used_bytes")() + pinned_bytes();
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

std::uint64_t used_bytes_tolerance() { return on_simcuda() ? 0 : 8 * kMiB; }

TakenMemory::TakenMemory(std::uint64_t left_bytes) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  std::uint64_t part_bytes = free_bytes > left_bytes ? free_bytes - left_bytes : 0;
  // On a GPU one range that large may not exist; then smaller ones fill the rest.
  while (part_bytes >= 2 * kMiB && free_bytes > left_bytes + 2 * kMiB) {
    part_bytes = part_bytes < free_bytes - left_bytes ? part_bytes : free_bytes - left_bytes;
    void* block = nullptr;
    if (is_out_of_memory(cudaMalloc(&block, part_bytes))) {
      part_bytes /= 2;
      continue;
    }
    blocks_.push_back(block);
    ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  }
  if (on_simcuda()) take_pinned(left_bytes);
}

// The host has no such call as cudaMemGetInfo; simcuda pins as much as it has memory.
void TakenMemory::take_pinned(std::uint64_t left_bytes) {
  const auto page_count = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const std::uint64_t total_bytes = page_count * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t kept_bytes = pinned_bytes() + left_bytes;
  if (total_bytes <= kept_bytes) return;
  ALLOCMARK_CUDA_CHECK(cudaMallocHost(&pinned_, total_bytes - kept_bytes));
}

TakenMemory::~TakenMemory() {
  for (void* block : blocks_) {
    (void)cudaFree(block);
  }
  (void)cudaFreeHost(pinned_);
}

Stream::Stream() {
  ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}
Stream::~Stream() { (void)cudaStreamDestroy(stream_); }

Gate::Gate() : is_open_(std::make_shared<std::atomic<bool>>(false)) {
  static std::atomic<std::uint64_t> next_number{1};
  number_ = next_number++;
}

Gate::~Gate() { open(); }

void Gate::hold(cudaStream_t stream) {
  if (on_simcuda()) {
    const int error = find<decltype(simcu_launch_gated)>("simcu_launch_gated")(stream, number_);
    ALLOCMARK_CUDA_CHECK(static_cast<cudaError_t>(error));
    return;
  }
  auto share = std::make_unique<std::shared_ptr<std::atomic<bool>>>(is_open_);
  ALLOCMARK_CUDA_CHECK(cudaLaunchHostFunc(stream, wait_until_open, share.get()));
  (void)share.release();
}

void Gate::open() {
  if (is_open_->exchange(true)) {
    return;
  }
  is_open_->notify_all();
  if (on_simcuda()) {
    (void)find<decltype(simcu_open_gate)>("simcu_open_gate")(number_);
  }
}

bool is_stalled(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ALLOCMARK_CUDA_CHECK(cudaEventRecord(event, stream));
  const cudaError_t state = cudaEventQuery(event);
  ALLOCMARK_CUDA_CHECK(cudaEventDestroy(event));
  if (state != cudaErrorNotReady) {
    ALLOCMARK_CUDA_CHECK(state);
  }
  return state == cudaErrorNotReady;
}

}  // namespace allocmark
