// A program that uses PyTorch's allocator (c10 alone, without Python), to be captured. In: our
// plugin of the backend `torch`, and a trace whose requests it makes. Out: the address of each,
// after the first one's, and "oom" where it failed.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "allocators/plugins/torch_plugin/plugin.h"
#include "workloads/trace/trace_reader.h"

namespace {

constexpr std::uint64_t kLateEvent = 5000;

const AllocmarkTorchPlugin* open_plugin(const char* path, const char* limit_bytes) {
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  const auto plugin =
      reinterpret_cast<const AllocmarkTorchPlugin* (*)()>(dlsym(library, "allocmark_torch_plugin"));
  if (plugin == nullptr || plugin()->open(std::strtoull(limit_bytes, nullptr, 10)) != 0)
    std::exit(2);
  return plugin();
}

// From here on into that folder, with blocks live already.
void begin_capture(const char* folder) {
  const auto begin =
      reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "allocmark_capture_begin"));
  if (begin == nullptr || begin(folder) != 0) std::exit(2);
}

cudaStream_t stream_of(std::uint32_t index) {
  static std::map<std::uint32_t, cudaStream_t> streams;
  if (index != 0 && !streams.contains(index)) {
    if (cudaStreamCreateWithFlags(&streams[index], cudaStreamNonBlocking) != cudaSuccess)
      std::exit(3);
  }
  return index == 0 ? nullptr : streams[index];
}

// As torch.cuda.CUDAGraph does it.
void end_capture(cudaStream_t stream, cudaGraphExec_t* exec) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) std::exit(3);
  if (cudaGraphInstantiate(exec, graph, 0) != cudaSuccess) std::exit(3);
  cudaGraphDestroy(graph);
}

// A step of a private pool, or of the graph that is captured into it.
void run_pool(const AllocmarkTorchPlugin& torch, const allocmark::Event& event) {
  static std::map<std::uint64_t, cudaGraphExec_t> execs;
  static const std::map<allocmark::EventKind, int> actions = {
      {allocmark::EventKind::PoolCreate, kAllocmarkPluginPoolCreate},
      {allocmark::EventKind::PoolBegin, kAllocmarkPluginPoolBegin},
      {allocmark::EventKind::PoolEnd, kAllocmarkPluginPoolEnd},
      {allocmark::EventKind::PoolRelease, kAllocmarkPluginPoolRelease},
      {allocmark::EventKind::PoolOnOom, kAllocmarkPluginPoolUseOnOom},
      {allocmark::EventKind::PoolNoSplit, kAllocmarkPluginPoolNoSplit},
      {allocmark::EventKind::Trim, kAllocmarkPluginPoolTrim}};
  cudaStream_t const stream = stream_of(event.stream);
  if (event.kind == allocmark::EventKind::CaptureBegin) {
    // PyTorch makes its own calls relaxed where its current stream is captured.
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) std::exit(3);
  } else if (event.kind == allocmark::EventKind::CaptureEnd) {
    end_capture(stream, &execs[event.id]);
  } else if (event.kind == allocmark::EventKind::GraphReplay) {
    if (cudaGraphLaunch(execs[event.id], stream) != cudaSuccess) std::exit(3);
  } else if (torch.pool(actions.at(event.kind), event.id, stream, event.size_bytes != 0 ? 1 : 0) !=
             kAllocmarkPluginOk) {
    std::fprintf(stderr, "%s\n", torch.last_error());
    std::exit(3);
  }
}

// With a folder, recording begins there in mid-run.
void run(const AllocmarkTorchPlugin& torch, allocmark::EventSource& source, const char* late) {
  std::unordered_map<std::uint64_t, void*> live;
  char* first = nullptr;
  std::uint64_t count = 0;
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const allocmark::Event& event : batch) {
      if (late != nullptr && ++count == kLateEvent) begin_capture(late);
      void* pointer = nullptr;
      if (event.kind == allocmark::EventKind::Alloc) {
        if (torch.allocate(event.size_bytes, stream_of(event.stream), &pointer) !=
            kAllocmarkPluginOk) {
          std::printf("oom\n");
          continue;
        }
        if (first == nullptr) first = static_cast<char*>(pointer);
        live[event.id] = pointer;
        std::printf("%lld\n", static_cast<long long>(static_cast<char*>(pointer) - first));
      } else if (event.kind == allocmark::EventKind::Free && live.contains(event.id)) {
        torch.deallocate(live[event.id]);
        live.erase(event.id);
      } else if (event.kind == allocmark::EventKind::Trim && event.id == 0) {
        torch.trim();
      } else if (event.kind == allocmark::EventKind::Trim || is_of_pool(event.kind)) {
        run_pool(torch, event);
      }
    }
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 4) return 2;
  const AllocmarkTorchPlugin* const torch = open_plugin(arguments[1], arguments[3]);
  run(*torch, *allocmark::open_trace_file(arguments[2]),
      argument_count > 4 ? arguments[4] : nullptr);
  return 0;
}
