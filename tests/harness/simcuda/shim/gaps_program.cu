// A program that meets what simcuda lacks, for simcuda_run_test.sh. In: kernel, module,
// exit or pools; or nvrtc or cupti, and the path of that library, both of which look into the
// driver; or open, and the name of a library with a static runtime. Out: the errors by number, and
// how long the kernel took.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <string>

__global__ void kernel_of_gaps(int* value) { *value = 1; }

namespace {

template <class Function>
Function* driver(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}
#define DRIVER(name) driver<decltype(name)>(#name)

// What the launch between the events says, and how long the stream worked on it.
template <class Launch>
void time_launch(Launch launch) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, nullptr);
  const int error = launch();
  cudaEventRecord(end, nullptr);
  cudaEventSynchronize(end);
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, begin, end);
  std::printf("launch %d, %.0f ms\n", error, static_cast<double>(milliseconds));
}

void launch_kernel() {
  // As a module does at its end that registered with a runtime of its own.
  void* binary_of_another_runtime = nullptr;
  reinterpret_cast<void (*)(void**)>(dlsym(RTLD_DEFAULT, "__cudaUnregisterFatBinary"))(
      &binary_of_another_runtime);
  int* value = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&value), sizeof *value);
  time_launch([&] {
    kernel_of_gaps<<<1, 1>>>(value);
    return static_cast<int>(cudaGetLastError());
  });
}

void launch_module() {
  cudaFree(nullptr);
  const char* const ptx = ".version 8.0\n.target sm_90\n.visible .entry idle_kernel()\n{ ret; }\n";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const int loaded = DRIVER(cuModuleLoadData)(&module, ptx);
  const int missing = DRIVER(cuModuleGetFunction)(&function, module, "idle");
  const int found = DRIVER(cuModuleGetFunction)(&function, module, "idle_kernel");
  std::printf("loaded %d, missing %d, found %d\n", loaded, missing, found);
  int blocks = 0;
  const int asked = DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, function, 1024, 0);
  std::printf("occupancy %d, blocks %d\n", asked, blocks);
  time_launch([&] {
    return static_cast<int>(
        DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  });
  const int unloaded = DRIVER(cuModuleUnload)(module);
  const int stale =
      DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  std::printf("unloaded %d, stale %d\n", unloaded, stale);
}

void make_pools() {
  cudaMemPoolProps properties{};
  cudaMemPool_t pool = nullptr;
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeHostNuma;
  const int host = cudaMemPoolCreate(&pool, &properties);
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.handleTypes = cudaMemHandleTypeFabric;
  const int shared = cudaMemPoolCreate(&pool, &properties);
  properties.handleTypes = cudaMemHandleTypeNone;
  cudaMemPoolCreate(&pool, &properties);
  int handle = -1;
  const int exported =
      cudaMemPoolExportToShareableHandle(&handle, pool, cudaMemHandleTypePosixFileDescriptor, 0);
  std::printf("host %d, shared %d, exported %d\n", host, shared, exported);
}

void compile_kernel(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  using Create = int (*)(void**, const char*, const char*, int, const char**, const char**);
  using Compile = int (*)(void*, int, const char**);
  using PtxSize = int (*)(void*, std::size_t*);
  void* program = nullptr;
  std::size_t ptx_bytes = 0;
  const int created = reinterpret_cast<Create>(dlsym(library, "nvrtcCreateProgram"))(
      &program, "__global__ void f() {}", "f.cu", 0, nullptr, nullptr);
  const int compiled =
      reinterpret_cast<Compile>(dlsym(library, "nvrtcCompileProgram"))(program, 0, nullptr);
  reinterpret_cast<PtxSize>(dlsym(library, "nvrtcGetPTXSize"))(program, &ptx_bytes);
  std::printf("created %d, compiled %d, ptx %s\n", created, compiled,
              ptx_bytes > 50 ? "yes" : "no");
}

void open_module(const char* name) {
  void* const library = dlopen(name, RTLD_NOW);
  void* const answer = library == nullptr ? nullptr : dlsym(library, "answer_of_module");
  std::printf("answer %d\n", answer == nullptr ? -1 : reinterpret_cast<int (*)()>(answer)());
}

// Memory that a static object frees, after all that belongs to the main thread has ended.
struct StaticBlock {
  void* block = nullptr;
  ~StaticBlock() {
    if (block == nullptr) return;
    const int freed = cudaFree(block);
    std::printf("freed %d, again %d\n", freed, cudaFree(block));
  }
};
StaticBlock static_block;

// A profiler that finds no tables of the driver may say so, and must not end the program.
void start_profiler(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  using Request = void (*)(unsigned char**, std::size_t*, std::size_t*);
  using Complete = void (*)(void*, unsigned, unsigned char*, std::size_t, std::size_t);
  using Register = int (*)(Request, Complete);
  using Enable = int (*)(int);
  const Request request = [](unsigned char** buffer, std::size_t* size_bytes, std::size_t* count) {
    static unsigned char bytes[1 << 16];
    *buffer = bytes;
    *size_bytes = sizeof bytes;
    *count = 0;
  };
  const Complete complete = [](void*, unsigned, unsigned char*, std::size_t, std::size_t) {};
  (void)reinterpret_cast<Register>(dlsym(library, "cuptiActivityRegisterCallbacks"))(request,
                                                                                     complete);
  (void)reinterpret_cast<Enable>(dlsym(library, "cuptiActivityEnable"))(1);
  void* block = nullptr;
  std::printf("malloc %d\n", cudaMalloc(&block, 1 << 20));
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::string mode = argument_count >= 2 ? arguments[1] : "";
  if (mode == "kernel") {
    launch_kernel();
  } else if (mode == "module") {
    launch_module();
  } else if (mode == "nvrtc" && argument_count == 3) {
    compile_kernel(arguments[2]);
  } else if (mode == "cupti" && argument_count == 3) {
    start_profiler(arguments[2]);
  } else if (mode == "open" && argument_count == 3) {
    open_module(arguments[2]);
  } else if (mode == "exit") {
    std::printf("malloc %d\n", cudaMalloc(&static_block.block, 1 << 20));
  } else {
    make_pools();
  }
}
