// A message of each form, and which figures are read of it. Sizes are made up.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "harness/tools/why/message/forms.h"
#include "tests/harness/why/message/form_cases_pytorch.h"

namespace allocmark::message {

inline const std::vector<Case> kOtherCases = {
    {"TensorFlow's dump",
     Family::Bfc,
     "2026-02-11 12:56:42.1: W core/bfc_allocator.cc:462] Allocator (GPU_0_bfc) ran out of "
     "memory "
     "trying to allocate 2.00GiB (rounded to 2147483648)requested by op\n"
     "2026-02-11 12:56:42.2: I core/bfc_allocator.cc:1066] InUse at 703ae6300 of size 1024 next "
     "50\n"
     "2026-02-11 12:56:42.3: I core/bfc_allocator.cc:1066] Free  at 703ae6700 of size 1610612736 "
     "next 18\n"
     "2026-02-11 12:56:42.4: I core/bfc_allocator.cc:1066] Free  at 7f0000000 of size 1073741824 "
     "next 9\n"
     "2026-02-11 12:56:42.5: I core/bfc_allocator.cc:1103] Stats: \n"
     "Limit:                     12884901888\nInUse:                     10200547328\n"
     "MaxInUse:                  11811160064\nNumAllocs:                 2719\n",
     {{Asked, "2.00 GiB"},
      {Allowed, "12884901888 bytes"},
      {Allocated, "10200547328 bytes"},
      {AllocatedPeak, "11811160064 bytes"},
      {LargestFree, "1610612736 bytes"},
      {FreeChunks, ""}}},
    {"TensorFlow's region",
     Family::Bfc,
     "I tensorflow/stream_executor/cuda/cuda_driver.cc:733] failed to allocate 3.81G (4089446400 "
     "bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
     {{Asked, "3.81 G"}}},
    {"JAX",
     Family::Xla,
     "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 "
     "bytes.",
     {{Asked, "8589934592 bytes"}}},
    {"JAX on a TPU",
     Family::OtherGpu,
     "RESOURCE_EXHAUSTED: Attempting to reserve 12.00G at the bottom of memory. That was not "
     "possible. There are 10.96G free, 0B reserved, and 10.96G reservable.",
     {{Asked, "12.00 G"}, {Free, "10.96 G"}}},
    {"a program of XLA",
     Family::XlaProgram,
     "Ran out of memory in memory space hbm. Used 20.10G of 15.48G hbm. Exceeded hbm capacity by "
     "4.62G.",
     {{Asked, "20.10 G"}, {Allowed, "15.48 G"}, {Exceeded, "4.62 G"}}},
    {"llama.cpp",
     Family::Ggml,
     "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) "
     "(0000:01:00.0) - 23306 MiB free\n"
     "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 39979.48 MiB on device 0: "
     "cudaMalloc "
     "failed: out of memory\n"
     "alloc_tensor_range: failed to allocate CUDA0 buffer of size 41921522565\n",
     {{Asked, "39979.48 MiB"}, {Free, "23306 MiB"}}},
    {"RMM",
     Family::Rmm,
     "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/opt/rmm/include/rmm/mr/device/"
     "pool_memory_resource.hpp:257: Maximum pool size exceeded (failed to allocate 10.371208 "
     "GiB): Not enough room to grow, current/max/try size = 70.000000 GiB, 78.000000 GiB, "
     "10.371208 GiB",
     {{Asked, "10.371208 GiB"}, {Reserved, "70.000000 GiB"}, {Allowed, "78.000000 GiB"}}},
    {"ONNX Runtime",
     Family::OnnxRuntime,
     "bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Available "
     "memory of 1000000 is smaller than requested bytes of 135383040",
     {{Free, "1000000 bytes"}, {Asked, "135383040 bytes"}}},
    {"CuPy",
     Family::CuPy,
     "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 3,000,000,000 bytes (allocated "
     "so far: 512,000,000 bytes, limit set to: 1,000,000,000 bytes).",
     {{Asked, "3,000,000,000 bytes"},
      {Reserved, "512,000,000 bytes"},
      {Allowed, "1,000,000,000 bytes"}}},
    {"CuPy until 6",
     Family::CuPy,
     "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 3000000000 bytes (total "
     "512000000 bytes, limit set to 1000000000 bytes)",
     {{Asked, "3000000000 bytes"}, {Reserved, "512000000 bytes"}, {Allowed, "1000000000 bytes"}}},
    {"Paddle",
     Family::Paddle,
     "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.000000GB memory on "
     "GPU 0, 22.000000GB memory has been allocated and available memory is only 512.000000MB.",
     {{Asked, "1.000000 GB"}, {Allocated, "22.000000 GB"}, {Free, "512.000000 MB"}}},
    {"JAX with a program's buffers",
     Family::Xla,
     "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 "
     "bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n"
     "             parameter allocation:  372.76MiB\n              constant allocation:    "
     "48.5KiB\n"
     "        maybe_live_out allocation:    9.64GiB\n     preallocated temp allocation:    "
     "4.44GiB\n"
     "                 total allocation:   14.44GiB\n              total fragmentation:  680.30MiB",
     {{Asked, "4770354232 bytes"},
      {Program, "14.44 GiB"},
      {Parameters, "372.76 MiB"},
      {Outputs, "9.64 GiB"},
      {Temporaries, "4.44 GiB"}}},
    {"CUDA.jl",
     Family::CudaJl,
     "ERROR: Out of GPU memory trying to allocate 1.000 GiB\nEffective GPU memory usage: 99.55% "
     "(11.688 GiB/11.741 GiB)\nMemory pool usage: 8.505 GiB (10.406 GiB reserved)\n",
     {{Asked, "1.000 GiB"},
      {Total, "11.741 GiB"},
      {Used, "11.688 GiB"},
      {Free, ""},
      {Allocated, "8.505 GiB"},
      {Reserved, "10.406 GiB"}}},
    {"CUDA.jl 2",
     Family::CudaJl,
     "Out of GPU memory trying to allocate 8.016 MiB\nEffective GPU memory usage: 91.54% (14.446 "
     "GiB/15.782 GiB)\nCUDA allocator usage: 13.984 GiB (capped at 14.000 GiB)\nbinned usage: "
     "15.141 KiB (15.141 KiB allocated, 0 bytes cached)",
     {{Asked, "8.016 MiB"},
      {Total, "15.782 GiB"},
      {Used, "14.446 GiB"},
      {Free, ""},
      {Reserved, "13.984 GiB"},
      {Allowed, "14.000 GiB"}}},
    {"Warp",
     Family::Driver,
     "RuntimeError: Failed to allocate 400000000 bytes on device 'cuda:0'",
     {{Asked, "400000000 bytes"}}},
    {"Faiss",
     Family::Driver,
     "Error: 'err == cudaSuccess' failed: StandardGpuResources: alloc fail type "
     "TemporaryMemoryOverflow dev 0 space Device stream 0x5642ae0 size 33554432000 bytes "
     "(cudaMalloc error out of memory [2])",
     {{Asked, "33554432000 bytes"}}},
    {"Kokkos",
     Family::Driver,
     "Kokkos failed to allocate memory for label \"atom:x\".  Allocation using MemorySpace named "
     "\"Cuda\" failed with the following error:  Allocation of size 4.203 G failed, likely due to "
     "insufficient memory.",
     {{Asked, "4.203 G"}}},
    {"OpenACC",
     Family::Driver,
     "Out of memory allocating 3234567890 bytes of device memory\nFailing in Thread:1\ntotal/free "
     "CUDA memory: 42314694656/1063452672\n",
     {{Asked, "3234567890 bytes"}, {Total, "42314694656 bytes"}, {Free, "1063452672 bytes"}}},
    {"vLLM at its start",
     Family::Vllm,
     "ValueError: Free memory on device (10.9/23.6 GiB) on startup is less than desired GPU "
     "memory "
     "utilization (0.9, 21.3 GiB).",
     {{Free, "10.9 GiB"}, {Total, "23.6 GiB"}, {Asked, "21.3 GiB"}}},
    {"vLLM's cache",
     Family::Vllm,
     "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB "
     "KV cache is needed, which is larger than the available KV cache memory (2.15 GiB).",
     {{Asked, "4.00 GiB"}, {Free, "2.15 GiB"}}},
    {"vLLM's first engine",
     Family::Vllm,
     "ValueError: The model's max seq len (20480) is larger than the maximum number of tokens "
     "that can be stored in KV cache (7216). Try increasing `gpu_memory_utilization`",
     {{TokensAsked, "20480"}, {TokensFree, "7216"}}},
    {"NCCL",
     Family::Driver,
     "node7:4711:4712 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n"
     "node7:4711:4712 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc async 7340032 "
     "bytes",
     {{Asked, "7340032 bytes"}}},
    {"NCCL, pinned",
     Family::Pinned,
     "NCCL WARN Failed to CUDA host alloc 4923392 bytes",
     {{Asked, "4923392 bytes"}}},
    {"llama.cpp with Vulkan",
     Family::Ggml,
     "ggml_vulkan: Device memory allocation of size 1037832192 failed.\n"
     "alloc_tensor_range: failed to allocate Vulkan0 buffer of size 1037832192",
     {{Asked, "1037832192 bytes"}}},
    {"TensorFlow on the host",
     Family::Host,
     "OOM when allocating tensor with shape[25000,25000] and type float on "
     "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:Fill]",
     {{Asked, ""}}},
    {"the host",
     Family::Host,
     "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't "
     "allocate "
     "memory: you tried to allocate 68719476736 bytes. Error code 12",
     {{Asked, "68719476736 bytes"}}},
    {"Ollama",
     Family::Host,
     "Error: model requires more system memory (8.4 GiB) than is available (6.1 GiB)",
     {{Asked, "8.4 GiB"}}},
    {"SGLang's cache on the host",
     Family::Host,
     "ValueError: Not enough host memory available. Requesting 20.40 GB but only have 15.00 GB "
     "free. Please reduce the size of the hierarchical cache.",
     {{Asked, "20.40 GB"}}},
    {"a file of shared memory",
     Family::Host,
     "RuntimeError: unable to mmap 68719476736 bytes from file </torch_1_2>: Cannot allocate "
     "memory (12)",
     {{Asked, "68719476736 bytes"}}},
    {"a worker that Linux ended",
     Family::Host,
     "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
     {}},
    {"Linux's log",
     Family::Host,
     "[ 12.3] Memory cgroup out of memory: Killed process 4711 (python) total-vm:68719476kB",
     {}},
    {"Kubernetes", Family::Host, "Last State: Terminated\n  Reason: OOMKilled", {}},
    {"ggml, pinned",
     Family::Pinned,
     "ggml_cuda_host_malloc: failed to allocate 1024.00 MiB of pinned memory: out of memory",
     {{Asked, "1024.00 MiB"}}},
    {"TensorFlow, pinned",
     Family::Pinned,
     "cuda_driver.cc:893] failed to alloc 8589934592 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: "
     "out of memory\ndevice_host_allocator.h:46] could not allocate pinned host memory of size: "
     "8589934592",
     {{Asked, "8589934592 bytes"}}},
    {"vLLM's warm-up",
     Family::VllmStart,
     "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
     "requests. "
     "Please try lowering `max_num_seqs` or `gpu_memory_utilization`",
     {}},
    {"Triton, inside a multiprocessor",
     Family::Kernel,
     "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, "
     "Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
     {{Asked, "131072 bytes"}, {Allowed, "101376 bytes"}}},
    {"TensorRT leaves a tactic out",
     Family::Driver,
     "[TRT] [W] Tactic Device request: 5212MB Available: 3912MB. Device memory is insufficient "
     "to "
     "use tactic.",
     {{Asked, "5212 MB"}, {Free, "3912 MB"}}},
    {"TensorFlow", Family::Bfc, "ResourceExhaustedError: failed to allocate memory [Op:Mul]", {}},
    {"a worker",
     Family::Shared,
     "DataLoader worker (pid 4711) is killed by signal: Bus error.",
     {}},
    {"shm", Family::Shared, "unable to allocate shared memory(shm) for file </torch_12_34_0>", {}},
    {"NCCL's shared memory",
     Family::Shared,
     "Error while creating shared memory segment /dev/shm/nccl-aBc (size 33030528), error",
     {{Asked, "33030528 bytes"}}},
    {"numpy",
     Family::Host,
     "Unable to allocate 119. GiB for an array with shape (4000,)",
     {{Asked, "119. GiB"}}},
    {"Slurm", Family::Host, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", {}},
    {"Ray", Family::Host, "(raylet) 1 Workers killed due to memory pressure (OOM), 0 crashed", {}},
    {"Windows", Family::Host, "OSError: [WinError 1455] The paging file is too small", {}},
    {"DeepSpeed's launcher", Family::Killed, "['python', 'a.py'] exits with return code = -9", {}},
    {"Kubernetes' exit code", Family::Killed, "Exit Code:    137", {}},
    {"Accelerate's launcher", Family::Killed, "'train.py']' died with <Signals.SIGKILL: 9>.", {}},
    {"CTranslate2", Family::NoFigures, "RuntimeError: CUDA failed with error out of memory", {}},
    {"TVM",
     Family::NoFigures,
     "Check failed: (e == cudaSuccess) is false: CUDA: out of memory",
     {}},
    {"JAX, cudaMallocAsync",
     Family::XlaPool,
     "gpu_async_1 cuMemAllocAsync failed to allocate 34359738368 bytes: RESOURCE_EXHAUSTED: : "
     "CUDA_ERROR_OUT_OF_MEMORY\n Reported by CUDA: Free memory/Total memory: "
     "22635544576/85095874560\n Stats: Limit:     0\nInUse:   51982909300\nMaxInUse: 51982909300\n",
     {{Asked, "34359738368 bytes"},
      {Free, "22635544576 bytes"},
      {Total, "85095874560 bytes"},
      {Allocated, "51982909300 bytes"}}},
    {"ComfyUI's report",
     Family::PyTorchPool,
     "- **Exception Type:** torch.OutOfMemoryError\n- **Exception Message:** Allocation on device "
     "\n",
     {}},
    {"ComfyUI",
     Family::PyTorchPool,
     "!!! Exception during processing !!! Allocation on device ",
     {}},
    {"llama.cpp on AMD",
     Family::Ggml,
     "allocating 16384.00 MiB on device 0: hipMalloc failed: out of memory",
     {{Asked, "16384.00 MiB"}}},
    {"Ollama's last", Family::Ggml, "error loading model: unable to allocate CUDA0 buffer", {}},
    {"DirectML",
     Family::OtherGpu,
     "Could not allocate tensor with 16777216 bytes. There is not enough GPU video memory "
     "available!",
     {{Asked, "16777216 bytes"}}},
    {"Gaudi",
     Family::OtherGpu,
     "MODULE:PT_DEVMEM Allocation failed for size::268435456 (256)MB",
     {{Asked, "268435456 bytes"}}},
    {"OpenCL", Family::OtherGpu, "create_buffer failed: MEM_OBJECT_ALLOCATION_FAILURE", {}},
    {"Lightning", Family::Killed, "Child process with PID 9 terminated with code -9.", {}},
    {"without figures", Family::NoFigures, "RuntimeError: CUDA error: out of memory", {}},
    {"Thrust", Family::NoFigures, "  what():  parallel_for failed: out of memory", {}},
    {"THC", Family::NoFigures, "THCStorage.cu line=58 error=2 : out of memory", {}},
    {"dlib", Family::NoFigures, "gpu_data.cpp:218. code: 2, reason: out of memory", {}},
    {"bitsandbytes", Family::NoFigures, "Error out of memory at line 380 in file ops.cu", {}},
    {"cuDNN", Family::NoFigures, "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", {}},
    {"SYCL", Family::NoFigures, "level_zero: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", {}},
    {"ROCm's runtime", Family::NoFigures, "HSA_STATUS_ERROR_OUT_OF_RESOURCES: failed", {}},
    {"Vulkan's own", Family::NoFigures, "vk::Device::allocateMemory: ErrorOutOfDeviceMemory", {}},
    {"CUDA.jl without figures",
     Family::NoFigures,
     "ERROR: Out of GPU memory\nStacktrace:\n  [1] throw_api_error(res::CUDA.cudaError_enum)",
     {}},
    {"Warp without figures",
     Family::NoFigures,
     "Warp CUDA error 2: out of memory (in function wp_alloc_device_async, warp.cu:700)",
     {}},
    {"LMDeploy",
     Family::NoFigures,
     "[TM][ERROR] CUDA runtime error: out of memory turbomind/utils/allocator.h:231",
     {}},
    {"LightGBM",
     Family::NoFigures,
     "[LightGBM] [Fatal] [CUDA] out of memory cuda_utils.hu 126",
     {}},
    {"OpenCV",
     Family::NoFigures,
     "OpenCV(4.8.0) gpu_mat.cu:116: error: (-217:Gpu API call) out of memory in function "
     "'allocate'",
     {}},
    {"hashcat", Family::NoFigures, "cuMemAlloc(): out of memory\n* Device #1: Not enough", {}},
    {"Blender",
     Family::NoFigures,
     "System is out of GPU and shared host memory in cuMemAlloc_v2( &device_pointer, size)",
     {}},
    {"MATLAB",
     Family::NoFigures,
     "Out of memory on device. To view more detail about available memory on the GPU, use "
     "'gpuDevice()'.",
     {}},
    {"a macro around calls", Family::NoFigures, "GPUassert: out of memory main.cu 57", {}},
    {"TGI", Family::NoFigures, "Not enough memory to handle 4096 prefill tokens. You need", {}},
    {"JAX, cut inside the figure",
     Family::NoFigures,
     "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770",
     {}},
};

inline const std::vector<Case> kCases = [] {
  std::vector<Case> all = kPyTorchCases;
  all.insert(all.end(), kOtherCases.begin(), kOtherCases.end());
  return all;
}();

inline const Case& case_of(std::string_view name) {
  return *std::ranges::find(kCases, name,
                            [](const Case& one) { return std::string_view(one.name); });
}

}  // namespace allocmark::message
