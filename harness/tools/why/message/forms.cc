// See forms.h.
#include "harness/tools/why/message/forms.h"

#include <array>

namespace allocmark::message {
namespace {

using enum Quantity;

// PyTorch 1.0 to 2.15; HIP, XPU and others say the same with another first word.
constexpr std::array kPyTorchAnchors = {
    Anchor{"larger than 4GB! Tried to allocate {}"},  // Intel's, of one piece
    Anchor{"out of memory. Tried to allocate {}"},
    Anchor{"Tried to allocate {} (GPU"},
    Anchor{"Tried to allocate {}. GPU"},
    Anchor{"would exceed per_process_memory_fraction limit. Requested size: {}"},
    Anchor{"GPU ~ has a total capacity of {}", Total, true},
    Anchor{"GPU ~ has a total capacty of {}", Total, true},
    Anchor{"GPU ~; {} total capacity", Total, true}};
constexpr std::array kPyTorchPatterns = {
    Pattern{Total, "total capacity of {}"},
    Pattern{Total, "total capacty of {}"},  // 2.1
    Pattern{Total, "; {} total capacity"},  // until 2.0
    Pattern{Free, "of which {} is free"},
    Pattern{Free, "; {} free;"},
    Pattern{ThisProcess, "this process has {} memory in use"},
    Pattern{Process, "Process ~ has {} memory in use"},
    Pattern{Allowed, "{} allowed;"},
    Pattern{Allocated, "Of the allocated memory {} is allocated by"},
    Pattern{Allocated, "; {} already allocated"},
    Pattern{Unallocated, "{} is reserved by PyTorch but unallocated"},
    Pattern{Unallocated, "; {} cached)"},  // until 1.3
    Pattern{Reserved, "; {} reserved in total by PyTorch"},
    Pattern{PoolFree, "with {} allocated in private pools"},
    Pattern{SegmentLimit, "exceeds the expandable-segment reserve of {} for"},
    Pattern{SegmentNeeded, "so that a segment is at least {}"}};

// Its first words alone.
constexpr std::array kPyTorchCutAnchors = {
    Anchor{"CUDA out of memory"}, Anchor{"HIP out of memory"}, Anchor{"XPU out of memory"}};

// CUDAMallocAsyncAllocator
constexpr std::array kPoolAnchors = {
    Anchor{"Currently allocated : {} Requested", Allocated},
    Anchor{"OutOfMemoryError: Allocation on device"},  // as ComfyUI cuts it
    Anchor{"OutOfMemoryError Exception Message: Allocation on device"},
    Anchor{"OutOfMemoryError - Exception Message: Allocation on device"},
    Anchor{"Exception during processing !!! Allocation on device"}};
constexpr std::array kPoolPatterns = {Pattern{Asked, "Requested : {} Device limit"},
                                      Pattern{Total, "Device limit : {}"},
                                      Pattern{Free, "Free (according to CUDA): {}"},
                                      Pattern{Allowed, "user-supplied memory fraction) : {}"}};

constexpr std::array kMpsAnchors = {
    Anchor{"MPS backend out of memory (MPS allocated: {}", Allocated},
    Anchor{"Invalid buffer size: {}"}};
constexpr std::array kMpsPatterns = {Pattern{OtherMemory, "other allocations: {}"},
                                     Pattern{Allowed, "max allowed: {}"},
                                     Pattern{Asked, "Tried to allocate {}"}};

// MLX and llama.cpp on Apple's GPUs, and the system's own words.
constexpr std::array kMetalAnchors = {
    Anchor{"Attempting to allocate {} which is greater than the maximum allowed buffer size"},
    Anchor{"metal::malloc] Unable to allocate {}"},
    Anchor{"ggml_metal_buffer_init: error: failed to allocate buffer, size = {}"},
    Anchor{"kIOGPUCommandBufferCallbackErrorOutOfMemory"}};
constexpr std::array kMetalPatterns = {
    Pattern{Allowed, "greater than the maximum allowed buffer size of {}"}};

constexpr std::array kSummaryAnchors = {Anchor{"memory summary, device id"},
                                        Anchor{"Allocated memory | {} |", Allocated, true},
                                        Anchor{"GPU reserved memory | {} |", Reserved, true}};
constexpr std::array kSummaryPatterns = {Pattern{Allocated, "Allocated memory | {} |"},
                                         Pattern{AllocatedPeak, "Allocated memory | ~ | {} |"},
                                         Pattern{Reserved, "GPU reserved memory | {} |"},
                                         Pattern{ReservedPeak, "GPU reserved memory | ~ | {} |"},
                                         Pattern{Inactive, "Non-releasable memory | {} |"},
                                         Pattern{OomCount, "CUDA OOMs: {} |"},
                                         Pattern{RetryCount, "cudaMalloc retries: {} |"}};

constexpr std::array kBfcAnchors = {Anchor{"_bfc) ran out of memory trying to allocate {}"},
                                    Anchor{"OOM when allocating tensor with shape"},
                                    Anchor{"failed to allocate memory [Op:"}};
constexpr std::array kBfcPatterns = {Pattern{LargestFree, "LargestFreeBlock: {}"}};
// The allocator's state, some thousand lines below its message.
constexpr std::array kBfcStateAnchors = {Anchor{"Limit: {} InUse:", Allowed}};
constexpr std::array kBfcStatePatterns = {
    Pattern{Allocated, "InUse: {} MaxInUse"}, Pattern{Allocated, "InUse: {}"},
    Pattern{AllocatedPeak, "MaxInUse: {}"}, Pattern{LargestFree, "LargestFreeBlock: {}"}};

// Asked of the driver for a region of that allocator, which asks for less then: no failure yet.
constexpr std::array kBfcRegionAnchors = {
    Anchor{"failed to allocate {} from device: CUDA_ERROR_OUT_OF_MEMORY"},
    Anchor{"failed to allocate {} ( ~ bytes) from device"}};

constexpr std::array kXlaAnchors = {Anchor{"Out of memory while trying to allocate {}"},
                                    Anchor{"RESOURCE_EXHAUSTED: Out of memory allocating {}"},
                                    Anchor{"Failed to allocate request for {}"}};
// "BufferAssignment stats", below the message.
constexpr std::array kXlaPatterns = {Pattern{Program, "total allocation: {}"},
                                     Pattern{Parameters, "parameter allocation: {}"},
                                     Pattern{Outputs, "maybe_live_out allocation: {}"},
                                     Pattern{Temporaries, "preallocated temp allocation: {}"}};
constexpr std::array kTpuAnchors = {Anchor{"Attempting to reserve {} at"},
                                    Anchor{"Attempting to allocate {}. That was not possible"},
                                    Anchor{"Attempting to reserve {}. That was not possible"}};
constexpr std::array kTpuPatterns = {Pattern{Free, "There are {} free"}};
constexpr std::array kXlaPoolAnchors = {Anchor{"cuMemAllocAsync failed to allocate {}"}};
constexpr std::array kXlaPoolPatterns = {Pattern{Total, "Free memory/Total memory: ~/{}"},
                                         Pattern{Free, "Free memory/Total memory: {}"},
                                         Pattern{Allocated, "InUse: {} MaxInUse"}};

// DirectML, Intel's Gaudi and OpenCL.
constexpr std::array kOtherGpuAnchors = {
    Anchor{"Could not allocate tensor with {}. There is not enough GPU video memory"},
    Anchor{"PT_DEVMEM Allocation failed for size::{}"}, Anchor{"MEM_OBJECT_ALLOCATION_FAILURE"}};

constexpr std::array kXlaProgramAnchors = {
    Anchor{"Ran out of memory in memory space ~. Used {} of", Asked}};
constexpr std::array kXlaProgramPatterns = {Pattern{Allowed, "Used ~ of {} "},
                                            Pattern{Exceeded, "capacity by {}"}};

constexpr std::array kGgmlAnchors = {Anchor{"allocating {} on device ~Malloc failed"},
                                     Anchor{"failed to allocate CUDA ~ buffer of size {}"},
                                     Anchor{"failed to allocate ROCm ~ buffer of size {}"},
                                     Anchor{"failed to allocate SYCL ~ buffer of size {}"},
                                     Anchor{"failed to allocate Vulkan ~ buffer of size {}"},
                                     Anchor{"vulkan: Device memory allocation of size {} failed"},
                                     Anchor{"failed to allocate Metal ~ buffer of size {}"},
                                     Anchor{"CUDA error: out of memory current device"},
                                     Anchor{"ROCm error: out of memory current device"},
                                     Anchor{"CUDA error 2 at ~ ggml-cuda ~: out of memory"},
                                     Anchor{"loading model: unable to allocate", Asked, true}};
constexpr std::array kGgmlBefore = {Pattern{Free, ") - {} free"}};

constexpr std::array kRmmAnchors = {
    Anchor{"Maximum pool size exceeded (failed to allocate {}): std::bad_alloc: ~CUDA error"},
    Anchor{"Maximum pool size exceeded (failed to allocate {})"},
    Anchor{"Exceeded memory limit (failed to allocate {})"},
    Anchor{"bad_alloc: out_of_memory: CUDA error (failed to allocate {}) at"},
    Anchor{"bad_alloc: CUDA error at ~ cudaErrorMemoryAllocation"},
    Anchor{"RMM failure at ~ Maximum pool size exceeded", Asked, true},
    Anchor{"bad_alloc: out_of_memory: CUDA error at", Asked, true}};
constexpr std::array kRmmPatterns = {Pattern{Reserved, "current/max/try size = {},"},
                                     Pattern{Allowed, "current/max/try size = ~, {},"}};

constexpr std::array kOrtAnchors = {
    Anchor{"is smaller than requested bytes of {}"},
    Anchor{"Failed to allocate memory for requested buffer of size {}"}};
constexpr std::array kOrtBefore = {Pattern{Free, "Available memory of {} is smaller than"}};

constexpr std::array kCupyAnchors = {Anchor{"Out of memory allocating {} (allocated so far"},
                                     Anchor{"memory.OutOfMemoryError: Out of memory allocating {}"},
                                     Anchor{"out of memory to allocate {} ( total"}};  // until 6
constexpr std::array kCupyPatterns = {
    Pattern{Reserved, "allocated so far: {}"}, Pattern{Allowed, "limit set to: {}"},
    Pattern{Reserved, "to allocate ~ ( total {}"}, Pattern{Allowed, "limit set to {}"}};

constexpr std::array kPaddleAnchors = {Anchor{"Cannot allocate {} memory on GPU"}};
constexpr std::array kPaddlePatterns = {Pattern{Allocated, "{} memory has been allocated"},
                                        Pattern{Free, "available memory is only {}"}};

constexpr std::array kCudaJlAnchors = {Anchor{"Out of GPU memory trying to allocate {}"}};
constexpr std::array kCudaJlPatterns = {Pattern{Total, "GPU memory usage: ~ ( ~ / {} )"},
                                        Pattern{Used, "GPU memory usage: ~ ( {} /"},
                                        Pattern{Allocated, "Memory pool usage: {} ("},
                                        Pattern{Reserved, "Memory pool usage: ~ ( {} reserved )"},
                                        Pattern{Reserved, "CUDA allocator usage: {}"},  // until 2
                                        Pattern{Allowed, "( capped at {} )"}};

constexpr std::array kVllmAnchors = {
    Anchor{"on startup is less than desired GPU memory utilization ( ~ , {} )"},
    Anchor{"{} KV cache is needed, which is larger than the available KV cache memory"},
    Anchor{"No available memory for the cache blocks"}};
constexpr std::array kVllmPatterns = {Pattern{Free, "the available KV cache memory ( {} )"}};
constexpr std::array kVllmBefore = {Pattern{Total, "Free memory on device ~ / {} ) on startup"},
                                    Pattern{Free, "Free memory on device ~ ( {} /"}};

// Its first engine.
constexpr std::array kVllmTokenAnchors = {
    Anchor{"max seq len ( {} ) is larger than the maximum number of tokens", TokensAsked}};
constexpr std::array kVllmTokenPatterns = {
    Pattern{TokensFree, "that can be stored in KV cache ( {} )"}};

constexpr std::array kSglangAnchors = {
    Anchor{"Not enough memory. Please try to increase --mem-fraction-static"}};

// TensorRT, Faiss, Warp, XGBoost and NCCL.
constexpr std::array kDriverAnchors = {
    Anchor{"Requested amount of GPU memory ( {} ) could not be allocated"},
    Anchor{"OutOfMemory (Requested size was {}", Asked, true},
    Anchor{"Failed to cudaMalloc {} on device"},
    Anchor{"size {} (cudaMalloc error out of memory"},
    Anchor{"Failed to allocate {} on device 'cuda"},
    Anchor{"Requested memory: {}"},
    Anchor{"Failed to CUDA calloc {}"},
    Anchor{"Failed to CUDA calloc async {}"},
    Anchor{"Failed to CUDA malloc {}"}};
constexpr std::array kDriverBefore = {Pattern{Free, "Free memory: {} ~ Requested memory"}};

constexpr std::array kKokkosAnchors = {
    Anchor{"MemorySpace named Cuda failed with the following error: Allocation of size {} failed"}};

// NVIDIA's Fortran and C with directives.
constexpr std::array kOpenAccAnchors = {Anchor{"Out of memory allocating {} of device memory"}};
constexpr std::array kOpenAccPatterns = {Pattern{Total, "total/free CUDA memory: {}/"},
                                         Pattern{Free, "total/free CUDA memory: ~/{}"}};

// TensorRT leaves such a way to compute out, and goes on where there is another.
constexpr std::array kTacticAnchors = {Anchor{"Tactic Device request: {} Available"}};
constexpr std::array kTacticPatterns = {Pattern{Free, "Available: {}"}};

constexpr std::array kVllmStartAnchors = {Anchor{"CUDA out of memory occurred when warming up"}};
// Triton's.
constexpr std::array kKernelAnchors = {Anchor{"out of resource: shared memory, Required: {}"}};
constexpr std::array kKernelPatterns = {Pattern{Allowed, "Hardware limit: {}"}};

constexpr std::array kVllmPoolAnchors = {Anchor{"out of memory at ~ cumem_allocator"}};

// The last ones are Linux's, Kubernetes' and Ray's of a process that was ended.
constexpr std::array kHostAnchors = {Anchor{"DefaultCPUAllocator: ~ you tried to allocate {}"},
                                     Anchor{"Unable to allocate {} for an array with shape"},
                                     Anchor{"Not enough host memory available. Requesting {} but"},
                                     Anchor{"unable to mmap {} from file"},
                                     Anchor{"failed to allocate CPU buffer of size {}"},
                                     Anchor{"requires more system memory ( {} ) than is available"},
                                     Anchor{"is killed by signal: Killed"},
                                     Anchor{"Out of memory: Killed process"},
                                     Anchor{"Reason: OOMKilled"},
                                     Anchor{"killed due to the node running low on memory"},
                                     Anchor{"OOMKilled: true"},
                                     Anchor{"oom_kill event in"},  // Slurm's, also older
                                     Anchor{"oom-kill event(s) in"},
                                     Anchor{"killed by the OOM killer"},
                                     Anchor{"killed due to memory pressure (OOM)"},
                                     Anchor{"NODE_OUT_OF_MEMORY"},
                                     Anchor{"The paging file is too small"},  // Windows
                                     Anchor{"HOST_ALLOCATION_FAILED"}};       // cuDNN's
// Of PyTorch's workers and NCCL.
constexpr std::array kSharedAnchors = {
    Anchor{"is killed by signal: Bus error"}, Anchor{"unable to allocate shared memory"},
    Anchor{"while creating shared memory segment ~ (size {})"},
    Anchor{"unable to write to file ~: No space left on device"}};
// Signal 9, whoever sent it.
constexpr std::array kKilledAnchors = {Anchor{"exit code 137"},
                                       Anchor{"exited with code 137"},
                                       Anchor{"exit code: 137"},
                                       Anchor{"exit status 137"},
                                       Anchor{"exitcode: -9"},
                                       Anchor{"return code = -9"},
                                       Anchor{"zsh: killed"},
                                       Anchor{"terminated with code -9"},
                                       Anchor{"died with <Signals.SIGKILL: 9>"}};

// ggml's, TensorFlow's and NCCL's.
constexpr std::array kPinnedAnchors = {
    Anchor{"Failed to CUDA host alloc {}"}, Anchor{"failed to allocate {} of pinned memory"},
    Anchor{"failed to alloc {} on host"},
    Anchor{"could not allocate pinned host memory of size: {}", Asked, true}};
// What the runtime answers to a size that it does not pin in one piece.
constexpr std::array kPinnedArgumentAnchors = {Anchor{"CUDA error: invalid argument"},
                                               Anchor{"HIP error: invalid argument"}};

// NCCL, ONNX Runtime, TensorRT, Triton, Thrust, dlib, bitsandbytes, CTranslate2, TVM, JAX, TGI,
// Warp, CUDA.jl, LMDeploy, LightGBM, OpenCV, hashcat, Blender, MATLAB, and macros around calls.
constexpr std::array kLibraryAnchors = {Anchor{"Cuda failure 2 out of memory"},
                                        Anchor{"CUDA failure 2: out of memory"},
                                        Anchor{"Cuda Runtime (out of memory)"},
                                        Anchor{"Triton Error [CUDA]: out of memory"},
                                        Anchor{"CUDA runtime error in ~: out of memory"},
                                        Anchor{"failed: out of memory"},
                                        Anchor{"reason: out of memory"},
                                        Anchor{"out of memory at line"},
                                        Anchor{"failed with error out of memory"},
                                        Anchor{"CUDA: out of memory"},
                                        Anchor{"Warp CUDA error 2: out of memory"},
                                        Anchor{"Out of GPU memory Stacktrace:"},
                                        Anchor{"RESOURCE_EXHAUSTED: Out of memory"},
                                        Anchor{"Not enough memory to handle ~ prefill tokens"},
                                        Anchor{"CUDA runtime error: out of memory"},
                                        Anchor{"out of memory ~ cuda_utils.hu"},
                                        Anchor{"Gpu API call) out of memory"},
                                        Anchor{"cuMemAlloc(): out of memory"},
                                        Anchor{"System is out of GPU memory"},
                                        Anchor{"System is out of GPU and shared host memory"},
                                        Anchor{"Out of memory on device. To view"},
                                        Anchor{"GPUassert: out of memory"},
                                        Anchor{"CUDA error 2 ~: out of memory"}};

// What the driver and the runtime call it: PyTorch's where the text names it, else any program's.
constexpr std::array kDriverWordAnchors = {Anchor{"CUDA_ERROR_OUT_OF_MEMORY"},
                                           Anchor{"cudaErrorMemoryAllocation"},
                                           Anchor{"hipErrorOutOfMemory"}};

constexpr std::array kNoFigureAnchors = {Anchor{"CUDA error: out of memory"},
                                         Anchor{"HIP error: out of memory"},
                                         Anchor{"CUDA driver error: out of memory"},
                                         Anchor{"cuda runtime error (2) : out of memory"},
                                         Anchor{"error=2 : out of memory"},  // THCudaCheck
                                         Anchor{"OUT_OF_DEVICE_MEMORY"},
                                         Anchor{"ErrorOutOfDeviceMemory"},
                                         Anchor{"HSA_STATUS_ERROR_OUT_OF_RESOURCES"},
                                         Anchor{"_ALLOC_FAILED"}};  // of cuBLAS, cuDNN and others

constexpr FigureStyle kBareStyle{.bare_is_bytes = true};
constexpr FigureStyle kXlaStyle{.has_letters = true};
constexpr FigureStyle kFlooredStyle{.bare_is_bytes = true, .is_floored = true};
constexpr FigureStyle kStateStyle{.bare_is_bytes = true, .goes_on = true};

constexpr std::array kForms = {
    Form{Family::PyTorch, "PyTorch", kPyTorchAnchors, kPyTorchPatterns},
    Form{Family::PyTorch, "PyTorch", kPyTorchCutAnchors, {}},
    Form{Family::PyTorchPool, "PyTorch, backend:cudaMallocAsync", kPoolAnchors, kPoolPatterns},
    Form{Family::Mps, "PyTorch, MPS", kMpsAnchors, kMpsPatterns},
    Form{Family::Metal, "Apple's Metal", kMetalAnchors, kMetalPatterns},
    Form{Family::Summary, "a memory summary of PyTorch", kSummaryAnchors, kSummaryPatterns,
         kFlooredStyle},
    Form{Family::Bfc, "TensorFlow and JAX (BFC allocator)", kBfcAnchors, kBfcPatterns, kStateStyle},
    Form{Family::Bfc,
         "TensorFlow and JAX (BFC allocator)",
         kBfcStateAnchors,
         kBfcStatePatterns,
         kStateStyle,
         {},
         true},
    Form{.family = Family::Bfc,
         .name = "TensorFlow and JAX (BFC allocator)",
         .anchors = kBfcRegionAnchors,
         .patterns = {},
         .style = kXlaStyle,
         .is_warning = true},
    Form{Family::Xla, "JAX", kXlaAnchors, kXlaPatterns, kXlaStyle},
    Form{Family::XlaPool, "TensorFlow and JAX (cudaMallocAsync)", kXlaPoolAnchors, kXlaPoolPatterns,
         kStateStyle},
    Form{Family::OtherGpu, "JAX on a TPU", kTpuAnchors, kTpuPatterns, kXlaStyle},
    Form{Family::OtherGpu, "a device without CUDA", kOtherGpuAnchors, {}, kBareStyle},
    Form{Family::XlaProgram, "JAX, a compiled program", kXlaProgramAnchors, kXlaProgramPatterns,
         kXlaStyle},
    Form{Family::Ggml, "ggml (llama.cpp)", kGgmlAnchors, {}, kBareStyle, kGgmlBefore},
    Form{Family::Rmm, "RMM", kRmmAnchors, kRmmPatterns, kBareStyle},
    Form{Family::OnnxRuntime, "ONNX Runtime", kOrtAnchors, {}, kBareStyle, kOrtBefore},
    Form{Family::CuPy, "CuPy", kCupyAnchors, kCupyPatterns},
    Form{Family::Paddle, "Paddle", kPaddleAnchors, kPaddlePatterns},
    Form{Family::CudaJl, "CUDA.jl", kCudaJlAnchors, kCudaJlPatterns},
    Form{Family::Vllm, "vLLM", kVllmAnchors, kVllmPatterns, {}, kVllmBefore},
    Form{Family::Vllm, "vLLM", kVllmTokenAnchors, kVllmTokenPatterns, kBareStyle},
    Form{Family::Sglang, "SGLang", kSglangAnchors, {}},
    Form{Family::Driver,
         "a library that asks the driver",
         kDriverAnchors,
         {},
         kBareStyle,
         kDriverBefore},
    Form{Family::Driver, "Kokkos", kKokkosAnchors, {}, kXlaStyle},
    Form{Family::Driver, "OpenACC", kOpenAccAnchors, kOpenAccPatterns, kBareStyle},
    Form{.family = Family::Driver,
         .name = "TensorRT",
         .anchors = kTacticAnchors,
         .patterns = kTacticPatterns,
         .is_warning = true},
    Form{Family::VllmPool, "vLLM's CuMemAllocator", kVllmPoolAnchors, {}},
    Form{Family::VllmStart, "vLLM", kVllmStartAnchors, {}},
    Form{Family::Kernel, "Triton", kKernelAnchors, kKernelPatterns, kBareStyle},
    Form{Family::Shared, "the host's shared memory", kSharedAnchors, {}, kBareStyle},
    Form{Family::Host, "host memory", kHostAnchors, {}, kBareStyle},
    Form{Family::Killed, "a process that was killed", kKilledAnchors, {}},
    Form{Family::Pinned, "pinned memory of the host", kPinnedAnchors, {}, kBareStyle},
    Form{Family::Pinned,
         "pinned memory of the host",
         kPinnedArgumentAnchors,
         {},
         {},
         {},
         false,
         true},
    Form{Family::NoFigures, "an error without figures", kNoFigureAnchors, {}},
    Form{.family = Family::NoFigures,
         .name = "an error without figures",
         .anchors = kDriverWordAnchors,
         .patterns = {},
         .is_library_alone = true},
    Form{.family = Family::NoFigures,
         .name = "a library's error without figures",
         .anchors = kLibraryAnchors,
         .patterns = {},
         .is_library = true}};

}  // namespace

std::span<const Form> all_forms() { return kForms; }

}  // namespace allocmark::message
