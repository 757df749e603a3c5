// Steps of the fuzzer: streams, events, kernels, gates, faults, watches, and every question.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "harness/simcuda/simcu.h"
#include "tests/harness/simcuda/shim/fuzz_state.h"

namespace fuzz {
namespace {

cudaStream_t some_stream(State& state) { return state.as<cudaStream_t>(state.shared().streams); }
cudaEvent_t any_event(State& state) { return state.as<cudaEvent_t>(state.shared().events); }

void make_stream(State& state) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaSuccess;
  switch (state.below(3)) {
    case 0:
      error = cudaStreamCreate(&stream);
      break;
    case 1:
      error = cudaStreamCreateWithFlags(&stream, state.word(2));
      break;
    default:
      error = cudaStreamCreateWithPriority(&stream, state.word(2), state.word(8) - 4);
  }
  if (error != cudaSuccess) return;
  const std::uint64_t before =
      state.shared().streams.put(reinterpret_cast<std::uint64_t>(stream), state.random());
  if (before != 0) (void)cudaStreamDestroy(reinterpret_cast<cudaStream_t>(before));
}

void use_stream(State& state) {
  cudaStream_t const stream = some_stream(state);
  unsigned flags = 0;
  unsigned long long id = 0;
  int number = 0;
  cudaStreamCaptureStatus status{};
  std::uint64_t end_ns = 0;
  switch (state.below(10)) {
    case 0:
      (void)cudaStreamQuery(stream);
      break;
    case 1:
      (void)cudaStreamSynchronize(stream);
      break;
    case 2:
      (void)cudaStreamGetFlags(stream, &flags);
      break;
    case 3:
      (void)cudaStreamGetId(stream, &id);
      break;
    case 4:
      (void)cudaStreamGetPriority(stream, &number);
      break;
    case 5:
      (void)cudaStreamIsCapturing(stream, &status);
      break;
    case 6:
      (void)cudaStreamWaitEvent(stream, any_event(state), state.word(2));
      break;
    case 7:
      (void)FUZZ_FIND(simcu_stream_end)(stream, &end_ns);
      break;
    case 8:
      (void)cudaStreamDestroy(state.as<cudaStream_t>(state.shared().streams, true));
      break;
    default:
      (void)cudaLaunchHostFunc(
          stream, [](void* told) { static_cast<std::atomic<std::uint64_t>*>(told)->fetch_add(1); },
          &state.shared().told);
  }
}

void make_event(State& state) {
  cudaEvent_t event = nullptr;
  const cudaError_t error =
      state.one_in(2) ? cudaEventCreate(&event) : cudaEventCreateWithFlags(&event, state.word(8));
  if (error != cudaSuccess) return;
  const std::uint64_t before =
      state.shared().events.put(reinterpret_cast<std::uint64_t>(event), state.random());
  if (before != 0) (void)cudaEventDestroy(reinterpret_cast<cudaEvent_t>(before));
}

void use_event(State& state) {
  float elapsed_ms = 0;
  switch (state.below(6)) {
    case 0:
      (void)cudaEventQuery(any_event(state));
      break;
    case 1:
      (void)cudaEventSynchronize(any_event(state));
      break;
    case 2:
      (void)cudaEventElapsedTime(&elapsed_ms, any_event(state), any_event(state));
      break;
    case 3:
      (void)cudaEventDestroy(state.as<cudaEvent_t>(state.shared().events, true));
      break;
    case 4:
      (void)cudaEventRecordWithFlags(any_event(state), some_stream(state), state.word(2));
      break;
    default:
      (void)cudaEventRecord(any_event(state), some_stream(state));
  }
}

void work(State& state) {
  cudaStream_t const stream = some_stream(state);
  if (!state.one_in(8)) {
    (void)FUZZ_FIND(simcu_launch)(stream, state.below(1'000'000));
    return;
  }
  // Others may meet the closed gate; nobody waits for long.
  const std::uint64_t gate = state.shared().gate.fetch_add(1);
  (void)FUZZ_FIND(simcu_launch_gated)(stream, gate);
  (void)cudaStreamQuery(stream);
  (void)cudaEventRecord(any_event(state), stream);
  (void)FUZZ_FIND(simcu_open_gate)(gate);
}

void launch_unknown(State& state) {
  void* arguments[] = {&state};
  cudaFuncAttributes attributes{};
  const auto* const function = state.as<const void*>(state.shared().blocks);
  (void)cudaLaunchKernel(function, dim3(1), dim3(1), arguments, 0, some_stream(state));
  (void)cudaFuncGetAttributes(&attributes, function);
}

void synchronize(State& state) {
  std::uint64_t end_ns = 0;
  (void)FUZZ_FIND(simcu_device_end)(&end_ns);
  if (state.one_in(4)) (void)cudaDeviceSynchronize();
}

void change_device(State& state) {
  int device = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cudaSetDevice(state.word(2));
  (void)cudaGetDevice(&device);
  (void)cudaDeviceEnablePeerAccess(state.word(3), state.one_in(20) ? 1 : 0);
  if (state.one_in(2)) (void)cudaDeviceDisablePeerAccess(state.word(3));
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  (void)FUZZ_FIND(cuCtxSetCurrent)(state.as<CUcontext>(state.shared().streams));
  (void)cudaSetDevice(0);
}

void plan_fault(State& state) {
  constexpr const char* kNames[] = {"cudaMalloc",       "cudaMallocAsync", "cudaFree",
                                    "cudaEventRecord",  "cuMemCreate",     "cuMemMap",
                                    "cudaStreamCreate", "cudaNoSuchCall",  nullptr};
  (void)FUZZ_FIND(simcu_fail_calls)(kNames[state.below(std::size(kNames))], state.below(4),
                                    state.below(3), 2);
  if (state.one_in(10)) FUZZ_FIND(simcu_reset)();
}

void watch(State& state) {
  if (state.one_in(2)) {
    FUZZ_FIND(simcu_watch_calls)
    ([](const char*, int,
        void* told) { static_cast<std::atomic<std::uint64_t>*>(told)->fetch_add(1); },
     &state.shared().told);
    FUZZ_FIND(simcu_watch_touches)
    ([](const void*, std::uint64_t,
        void* told) { static_cast<std::atomic<std::uint64_t>*>(told)->fetch_add(1); },
     &state.shared().told);
  } else {
    FUZZ_FIND(simcu_watch_calls)(nullptr, nullptr);
    FUZZ_FIND(simcu_watch_touches)(nullptr, nullptr);
  }
}

void check_order(State& state) {
  const SimcuBlock block{.pointer = state.as<void*>(state.shared().blocks),
                         .size_bytes = state.below(1 << 20),
                         .id = state.below(100),
                         .request = state.random()()};
  SimcuUnorderedUse former{};
  void* const streams[] = {some_stream(state), some_stream(state)};
  switch (state.below(8)) {
    case 0:
      (void)FUZZ_FIND(simcu_order_begin)();
      break;
    case 1:
      FUZZ_FIND(simcu_order_end)();
      break;
    case 2:
    case 3:
    case 4:
      FUZZ_FIND(simcu_order_give_back)(&block, streams, static_cast<std::uint32_t>(state.below(3)));
      break;
    default:
      (void)FUZZ_FIND(simcu_order_take)(&block, some_stream(state), &former);
  }
}

void ask_of_memory(State& state) {
  auto* const block = state.as<void*>(state.shared().blocks);
  cudaPointerAttributes attributes{};
  std::size_t free_bytes = 0, total_bytes = 0;
  std::uint64_t base = 0, size_bytes = 0;
  int device = 0;
  CUdeviceptr start = 0;
  switch (state.below(7)) {
    case 0:
      (void)cudaPointerGetAttributes(&attributes, block);
      break;
    case 1:
      (void)cudaMemGetInfo(&free_bytes, &total_bytes);
      break;
    case 2:
      (void)FUZZ_FIND(simcu_view)(block, state.size());
      break;
    case 3:
      (void)FUZZ_FIND(simcu_allocation_of)(block, &base, &size_bytes, &device);
      break;
    case 4:
      (void)FUZZ_FIND(simcu_used_bytes)();
      break;
    case 5:
      (void)FUZZ_FIND(cuMemGetAddressRange)(&start, &free_bytes,
                                            reinterpret_cast<CUdeviceptr>(block));
      break;
    default:
      (void)FUZZ_FIND(cuMemGetInfo)(&free_bytes, &total_bytes);
  }
}

void ask_of_device(State& state) {
  cudaDeviceProp properties{};
  char text[64];
  int number = 0;
  std::size_t limit = 0;
  switch (state.below(10)) {
    case 0:
      (void)cudaGetDeviceProperties(&properties, state.word(3));
      break;
    case 1:
      (void)cudaDeviceGetAttribute(&number, static_cast<cudaDeviceAttr>(state.word(150)),
                                   state.word(3));
      break;
    case 2:
      (void)cudaDeviceGetLimit(&limit, static_cast<cudaLimit>(state.word(8)));
      break;
    case 3:
      (void)cudaDeviceGetPCIBusId(text, state.word(64), state.word(3));
      break;
    case 4:
      (void)cudaDeviceCanAccessPeer(&number, state.word(3), state.word(3));
      break;
    case 5:
      (void)cudaDeviceGetP2PAttribute(&number, static_cast<cudaDeviceP2PAttr>(state.word(5)),
                                      state.word(3), state.word(3));
      break;
    case 6:
      (void)cudaGetDeviceCount(&number);
      break;
    case 7:
      (void)FUZZ_FIND(cuDeviceGetName)(text, state.word(64), state.word(3));
      break;
    case 8:
      (void)cudaDeviceGetByPCIBusId(&number, "0000:06:00.0");
      break;
    default:
      (void)cudaGetErrorString(static_cast<cudaError_t>(state.word(1000)));
  }
  (void)cudaPeekAtLastError();
  if (state.one_in(2)) (void)cudaGetLastError();
}

void ask_of_calls(State& state) {
  std::uint64_t counts[64];
  switch (state.below(6)) {
    case 0:
      (void)FUZZ_FIND(simcu_call_count)(state.one_in(2) ? nullptr : "cudaMalloc");
      break;
    case 1:
      (void)FUZZ_FIND(simcu_thread_calls)(counts, std::size(counts));
      break;
    case 2:
      (void)FUZZ_FIND(simcu_call_name)(state.below(400));
      break;
    case 3:
      (void)FUZZ_FIND(simcu_last_message)();
      break;
    case 4:
      (void)FUZZ_FIND(simcu_unimplemented_count)();
      break;
    default:
      (void)FUZZ_FIND(simcu_thread_clock)();
  }
}

// NVML without its header, which machines may lack.
void ask_of_health(State& state) {
  using Device = void*;
  Device device = nullptr;
  unsigned number = 0;
  char text[96];
  void* set = nullptr;
  unsigned long long wide[8] = {};
  (void)find<int()>("nvmlInit_v2")();
  (void)find<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2")(
      static_cast<unsigned>(state.word(3)), &device);
  if (state.one_in(20)) device = state.as<Device>(state.shared().events);
  switch (state.below(8)) {
    case 0:
      (void)find<int(unsigned*)>("nvmlDeviceGetCount_v2")(&number);
      break;
    case 1:
      (void)find<int(Device, char*, unsigned)>("nvmlDeviceGetName")(
          device, text, static_cast<unsigned>(state.below(96)));
      break;
    case 2:
      (void)find<int(Device, char*, unsigned)>("nvmlDeviceGetUUID")(
          device, text, static_cast<unsigned>(state.below(96)));
      break;
    case 3:
      (void)find<int(Device, unsigned long long*)>("nvmlDeviceGetMemoryInfo")(device, wide);
      break;
    case 4:
      (void)find<int(Device, unsigned, unsigned*)>("nvmlDeviceGetTemperature")(
          device, static_cast<unsigned>(state.word(2)), &number);
      break;
    case 5:
      if (state.one_in(2) && find<int(void**)>("nvmlEventSetCreate")(&set) == 0) {
        set = reinterpret_cast<void*>(
            state.shared().event_sets.put(reinterpret_cast<std::uint64_t>(set), state.random()));
        (void)find<int(void*)>("nvmlEventSetFree")(set);
      } else {
        set = state.as<void*>(state.shared().event_sets, state.one_in(3));
        (void)find<int(void*, void*, unsigned)>("nvmlEventSetWait_v2")(set, wide, 0);
        (void)find<int(Device, unsigned long long, void*)>("nvmlDeviceRegisterEvents")(device, 8,
                                                                                       set);
        (void)find<int(void*)>("nvmlEventSetFree")(set);
      }
      break;
    case 6:
      (void)find<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage")(device, &number);
      break;
    default:
      (void)find<int(Device, unsigned, unsigned*)>("nvmlDeviceGetClockInfo")(
          device, static_cast<unsigned>(state.word(4)), &number);
  }
  (void)find<int()>("nvmlShutdown")();
}

constexpr Step kOrder[] = {{"make_stream", 3, make_stream},
                           {"use_stream", 12, use_stream},
                           {"make_event", 3, make_event},
                           {"use_event", 12, use_event},
                           {"work", 6, work},
                           {"launch_unknown", 1, launch_unknown},
                           {"synchronize", 2, synchronize},
                           {"change_device", 2, change_device},
                           {"plan_fault", 1, plan_fault},
                           {"watch", 1, watch},
                           {"check_order", 5, check_order}};
constexpr Step kQuestions[] = {{"ask_of_memory", 8, ask_of_memory},
                               {"ask_of_device", 4, ask_of_device},
                               {"ask_of_calls", 3, ask_of_calls},
                               {"ask_of_health", 2, ask_of_health}};

}  // namespace

std::span<const Step> order_steps() { return kOrder; }
std::span<const Step> question_steps() { return kQuestions; }

}  // namespace fuzz
