// Messages of PyTorch, as form_cases.h has those of others. Sizes are made up.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/tools/why/message/forms.h"

namespace allocmark::message {

struct Case {
  const char* name;
  Family family;
  std::string text;
  std::map<Quantity, std::string> figures;
};

// Each figure that a form knows is in one case at least.
using enum Quantity;

inline const std::vector<Case> kPyTorchCases = {
    {"1.0",
     Family::PyTorch,
     "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total "
     "capacity; 8.57 GiB already allocated; 9.06 MiB free; 4.68 MiB cached)",
     {{Asked, "12.50 MiB"},
      {Total, "10.92 GiB"},
      {Allocated, "8.57 GiB"},
      {Free, "9.06 MiB"},
      {Unallocated, "4.68 MiB"}}},
    {"1.8 with a limit",
     Family::PyTorch,
     "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 2; 11.17 GiB total capacity; 4.06 GiB "
     "already allocated; 5.44 GiB free; 5.00 GiB allowed; 4.50 GiB reserved in total by PyTorch) "
     "If reserved memory is >> allocated memory try setting max_split_size_mb",
     {{Asked, "1.00 GiB"},
      {Total, "11.17 GiB"},
      {Allocated, "4.06 GiB"},
      {Free, "5.44 GiB"},
      {Allowed, "5.00 GiB"},
      {Reserved, "4.50 GiB"}}},
    {"2.1, with its misspelling",
     Family::PyTorch,
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 has a "
     "total capacty of 6.00 GiB of which 0 bytes is free. Of the allocated memory 2.93 GiB is "
     "allocated by PyTorch, and 2.30 GiB is reserved by PyTorch but unallocated.",
     {{Asked, "1.70 GiB"},
      {Total, "6.00 GiB"},
      {Free, "0 bytes"},
      {Allocated, "2.93 GiB"},
      {Unallocated, "2.30 GiB"}}},
    {"2.6 with everything",
     Family::PyTorch,
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 996.00 MiB. GPU 3 has a total "
     "capacity of 44.43 GiB of which 9.06 GiB is free. Process 2102129 has 17.54 GiB memory in "
     "use. Including non-PyTorch memory, this process has 17.81 GiB memory in use. 17.69 GiB "
     "allowed; Of the allocated memory 17.44 GiB is allocated by PyTorch, with 17.00 MiB "
     "allocated in private pools (e.g., HIP Graphs), and 59.88 MiB is reserved by PyTorch but "
     "unallocated. If reserved but unallocated memory is large try setting "
     "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
     {{Asked, "996.00 MiB"},
      {Total, "44.43 GiB"},
      {Free, "9.06 GiB"},
      {ThisProcess, "17.81 GiB"},
      {Allowed, "17.69 GiB"},
      {Allocated, "17.44 GiB"},
      {PoolFree, "17.00 MiB"},
      {Unallocated, "59.88 MiB"}}},
    {"2.15 with a reserve",
     Family::PyTorch,
     "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 23.52 GiB of "
     "which 9.75 GiB is free. Of the allocated memory 12.00 GiB is allocated by PyTorch, and "
     "352.99 MiB is reserved by PyTorch but unallocated. This allocation exceeds the "
     "expandable-segment reserve of 2.00 GiB for this stream, and a single allocation cannot "
     "span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or "
     "expandable_segments_reserve_by_class (or unset it) so that a segment is at least 3.00 GiB.",
     {{Asked, "3.00 GiB"},
      {Total, "23.52 GiB"},
      {Free, "9.75 GiB"},
      {Allocated, "12.00 GiB"},
      {Unallocated, "352.99 MiB"},
      {SegmentLimit, "2.00 GiB"},
      {SegmentNeeded, "3.00 GiB"}}},
    {"the driver's pool",
     Family::PyTorchPool,
     "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
     "Currently allocated     : 6.72 GiB\nRequested               : 40.00 MiB\n"
     "Device limit            : 8.00 GiB\nFree (according to CUDA): 0 bytes\n"
     "PyTorch limit (set by user-supplied memory fraction)\n"
     "                        : 7.00 GiB",
     {{Allocated, "6.72 GiB"},
      {Asked, "40.00 MiB"},
      {Total, "8.00 GiB"},
      {Free, "0 bytes"},
      {Allowed, "7.00 GiB"}}},
    {"Apple",
     Family::Mps,
     "RuntimeError: MPS backend out of memory (MPS allocated: 17.36 GB, other allocations: "
     "613.56 "
     "MB, max allowed: 18.13 GB). Tried to allocate 192.00 MB on private pool.",
     {{Allocated, "17.36 GB"},
      {OtherMemory, "613.56 MB"},
      {Allowed, "18.13 GB"},
      {Asked, "192.00 MB"}}},
    {"Apple, one buffer",
     Family::Mps,
     "RuntimeError: Invalid buffer size: 21.36 GiB",
     {{Asked, "21.36 GiB"}}},
    {"MLX, one buffer",
     Family::Metal,
     "RuntimeError: [metal::malloc] Attempting to allocate 34359738368 bytes which is greater "
     "than "
     "the maximum allowed buffer size of 9534832640 bytes.",
     {{Asked, "34359738368 bytes"}, {Allowed, "9534832640 bytes"}}},
    {"MLX",
     Family::Metal,
     "libc++abi: [METAL] Command buffer execution failed: Insufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
     {}},
    {"llama.cpp on a Mac",
     Family::Metal,
     "ggml_metal_buffer_init: error: failed to allocate buffer, size = 20480.00 MiB",
     {{Asked, "20480.00 MiB"}}},
    {"Intel, one piece",
     Family::PyTorch,
     "RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! "
     "Tried to allocate 5.20 GiB (GPU  0; 15.11 GiB total capacity; 3.21 GiB already allocated; "
     "3.50 GiB reserved in total by PyTorch)",
     {{Asked, "5.20 GiB"}, {Total, "15.11 GiB"}, {Allocated, "3.21 GiB"}, {Reserved, "3.50 GiB"}}},
    {"a table",
     Family::Summary,
     "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
     "|            CUDA OOMs: 2            |        cudaMalloc retries: 3         |\n"
     "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
     "| Allocated memory      |  13975 MiB |  18803 MiB |   2142 GiB |   2128 GiB |\n"
     "|       from large pool |  13959 MiB |  18790 MiB |   2140 GiB |   2127 GiB |\n"
     "| GPU reserved memory   |  20000 MiB |  21000 MiB |  21000 MiB |   1000 MiB |\n"
     "| Non-releasable memory |   6025 MiB |   7000 MiB |   1200 GiB |   1190 GiB |\n"
     "| Allocations           |     512    |     600    |   91000    |   90488    |\n",
     {{OomCount, "2"},
      {RetryCount, "3"},
      {Allocated, "13975 MiB"},
      {AllocatedPeak, "18803 MiB"},
      {Reserved, "20000 MiB"},
      {ReservedPeak, "21000 MiB"},
      {Inactive, "6025 MiB"}}}};

}  // namespace allocmark::message
