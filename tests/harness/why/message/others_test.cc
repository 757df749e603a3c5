// Answers to those who do not run PyTorch's allocator on an NVIDIA card.
#include "tests/catch.h"
#include "tests/harness/why/message/answers.h"
#include "tests/harness/why/message/form_cases.h"

using namespace allocmark::message;

TEST_CASE("a cache that is too small for one request says how long requests may be") {
  const Answer answer = answer_to(
      "max seq len (20480) is larger than the maximum number of tokens that can be stored in KV "
      "cache (7216).");
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(has(answer.text, "max_model_len must be 7216 at most"));
}

TEST_CASE("a start of vLLM beside others says which share it can have") {
  const Answer answer = answer_to(
      "Free memory on device cuda:0 (12.31/23.52 GiB) on startup is less than desired GPU memory "
      "utilization (0.9, 21.17 GiB).");
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(has(answer.text, "gpu_memory_utilization=0.52 at most"));
}

TEST_CASE("a pool of RMM that the driver refused to grow has not reached its maximum") {
  const std::string head =
      "RMM failure at:/rmm/mr/pool_memory_resource.hpp:257: Maximum pool size exceeded";
  const Answer driver = answer_to(
      head +
      " (failed to allocate 4.000000 GiB): std::bad_alloc: out_of_memory: CUDA error (failed "
      "to allocate 4294967296 bytes) at: /rmm/mr/cuda_memory_resource.hpp:62: "
      "cudaErrorMemoryAllocation out of memory");
  CHECK(driver.verdict.cause == Cause::MissingFigures);
  CHECK(has(driver.text, "failed at the driver"));
  CHECK_FALSE(has(driver.text, "Other messages"));
  const Answer limit =
      answer_to(head + " (failed to allocate 4.000000 GiB): Not enough room to grow");
  CHECK(limit.verdict.cause == Cause::ProcessLimit);
  const Answer old = answer_to("std::bad_alloc: " + head);
  CHECK(old.verdict.cause == Cause::MissingFigures);
  CHECK(has(old.text, "older releases do not say which"));
}

TEST_CASE("PyTorch's first words alone are not called a library's") {
  const Answer cut = answer_to("torch.OutOfMemoryError: CUDA out of memory.");
  CHECK(cut.verdict.cause == Cause::MissingFigures);
  CHECK_FALSE(has(cut.text, "does not come from PyTorch"));
  CHECK(has(cut.text, "Tried to allocate"));
}

TEST_CASE("a pool of CuPy without a limit failed at the driver") {
  const Answer answer = answer_to(
      "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated "
      "so far: 4,294,967,296 bytes).");
  CHECK(has(answer.text, "failed at the driver: CuPy's pool has no limit and holds 4,294,967,296"));
}

TEST_CASE("what Julia's pool keeps free counts, and its caller gets Julia's words") {
  const Answer too_big = answer_to(
      "Out of GPU memory trying to allocate 3.000 GiB\nEffective GPU memory usage: 99.55% (11.688 "
      "GiB/11.741 GiB)\nMemory pool usage: 8.505 GiB (10.406 GiB reserved)\n");
  CHECK(too_big.verdict.cause == Cause::TooBig);
  // 3.000 - (11.741 - 11.688) - (10.406 - 8.505) GiB
  CHECK(has(too_big.text, "1.05 GiB must go"));
  CHECK(has(too_big.text, "JULIA_CUDA_MEMORY_POOL=none"));
  CHECK(has(too_big.text, "nor CUDA.jl's"));
  CHECK_FALSE(has(too_big.text, "torch"));
  const Answer pieces = answer_to(case_of("CUDA.jl").text);
  CHECK(pieces.verdict.cause == Cause::FragmentationPossible);
  CHECK(pieces.remedy.setting.empty());
}

TEST_CASE("a compiled program's own sum says what must fit") {
  const Answer answer = answer_to(case_of("JAX with a program's buffers").text);
  CHECK(has(answer.text, "The compiled program holds 14.44 GiB at once"));
  CHECK(has(answer.text, "donate_argnums"));
}

TEST_CASE("a library's error is not answered with a snapshot of PyTorch") {
  for (const char* text : {"RuntimeError: CUDA failed with error out of memory",
                           "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770"})
    CHECK_FALSE(has(answer_to(text).text, "_record_memory_history"));
  CHECK(has(answer_to("RuntimeError: CUDA error: out of memory").text, "_record_memory_history"));
  // The driver's own words: whose program it is, the rest of the text says.
  const std::string words = "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY";
  CHECK_FALSE(has(answer_to("numba.cuda.cudadrv.driver.CudaAPIError: [2] " + words).text,
                  "_record_memory_history"));
  CHECK(has(answer_to("File \"torch/cuda/__init__.py\", line 3\n" + words).text,
            "_record_memory_history"));
}

TEST_CASE("no form is answered with another program's words") {
  for (const Case& one : kCases) {
    const Answer answer = answer_to(one.text);
    INFO(one.name << answer.text);
    if (one.family != Family::Vllm && one.family != Family::VllmStart &&
        one.family != Family::VllmPool)
      CHECK_FALSE(has(answer.text, "vLLM"));
    if (one.family != Family::PyTorch && one.family != Family::PyTorchPool &&
        one.family != Family::Summary && one.family != Family::NoFigures)
      CHECK_FALSE(has(answer.text, "_record_memory_history"));
  }
}

TEST_CASE("a TPU is not told of settings for GPUs") {
  const Answer tpu = answer_to(
      "RESOURCE_EXHAUSTED: Attempting to allocate 512.00M. That was not possible. There are "
      "196.00M "
      "free.");
  CHECK(tpu.verdict.cause == Cause::TooBig);
  CHECK_FALSE(has(tpu.text, "XLA_PYTHON_CLIENT"));
  CHECK_FALSE(has(tpu.text, "nsys"));
}

TEST_CASE("limits that are not the card's memory are told from it") {
  const Answer kernel = answer_to(
      "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block "
      "sizes or `num_stages` may help.");
  CHECK(has(kernel.text, "the card's memory is not short"));
  const Answer shared = answer_to("DataLoader worker (pid 4711) is killed by signal: Bus error.");
  CHECK(shared.verdict.cause == Cause::HostMemory);
  CHECK(has(shared.text, "--shm-size"));
  const Answer tactic = answer_to("[TRT] [W] Tactic Device request: 5212MB Available: 3912MB.");
  CHECK(has(tactic.text, "this is a warning"));
}

TEST_CASE("a size that no card has is called absurd, whoever asked for it") {
  const Answer answer = answer_to(
      "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size "
      "4585490524328388608");
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(has(answer.text, "a size went wrong in the program"));
}

TEST_CASE("a card is looked at with its own maker's program") {
  const std::string rest =
      " out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 16.00 GiB of "
      "which 9.00 GiB is free. Of the allocated memory 1.00 GiB is allocated by PyTorch, and 2.00 "
      "MiB is reserved by PyTorch but unallocated.";
  CHECK(has(answer_to("CUDA" + rest).text, "nvidia-smi"));
  CHECK(has(answer_to("HIP" + rest).text, "rocm-smi"));
  CHECK(has(answer_to("XPU" + rest).text, "xpu-smi stats -d 1"));
  for (const char* device : {"HIP", "XPU", "MUSA"})
    CHECK_FALSE(has(answer_to(device + rest).text, "nvidia-smi"));
}

TEST_CASE("Paddle is not told what PyTorch's message would say") {
  const Answer answer = answer_to(
      "Out of memory error on GPU 0. Cannot allocate 1.000000GB memory on GPU 0, 22.000000GB "
      "memory has been allocated and available memory is only 512.000000MB.");
  CHECK_FALSE(has(answer.text, "PyTorch"));
}

TEST_CASE("what is too large for one piece is not called out of memory") {
  const Answer intel = answer_to(
      "Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate "
      "5.20 GiB (GPU  0; 15.11 GiB total capacity; 3.21 GiB already allocated; 3.50 GiB reserved "
      "in "
      "total by PyTorch)");
  CHECK(intel.verdict.cause == Cause::OutsideLimit);
  CHECK(has(intel.text, "more than the device gives in one piece"));
  CHECK(has(intel.text, "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"));
  CHECK_FALSE(has(intel.text, "torch.cuda"));
  const Answer buffer = answer_to("RuntimeError: Invalid buffer size: 21.36 GiB");
  CHECK(buffer.verdict.cause == Cause::OutsideLimit);
  CHECK_FALSE(has(buffer.text, "UR_L0"));
  const Answer mlx = answer_to(
      "[metal::malloc] Attempting to allocate 34359738368 bytes which is greater than the maximum "
      "allowed buffer size of 9534832640 bytes.");
  CHECK(has(mlx.text, "One piece may have 9534832640 bytes (8.88 GiB)."));
  // Newer texts do not say it.
  const std::string rest =
      " GPU 0 has a total capacity of 15.11 GiB. Of the allocated memory 0 bytes is allocated by "
      "PyTorch, and 0 bytes is reserved by PyTorch but unallocated.";
  CHECK(has(answer_to("XPU out of memory. Tried to allocate 4.00 GiB." + rest).text,
            "4 GiB at most"));
  CHECK_FALSE(has(answer_to("XPU out of memory. Tried to allocate 2.00 GiB." + rest).text,
                  "4 GiB at most"));
  CHECK_FALSE(has(answer_to("CUDA out of memory. Tried to allocate 4.00 GiB." + rest).text,
                  "4 GiB at most"));
}

TEST_CASE("the limit of Apple's GPUs is not advised away") {
  const Answer answer = answer_to(
      "MPS backend out of memory (MPS allocated: 17.36 GiB, other allocations: 613.56 MiB, max "
      "allowed: 18.13 GiB). Tried to allocate 192.00 MiB on private pool. Use "
      "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may "
      "cause system failure).");
  CHECK(answer.verdict.cause == Cause::ProcessLimit);
  CHECK(has(answer.text, "may freeze or end programs"));
  CHECK(answer.remedy.last_line == "To set: nothing; less must be live.");
}

TEST_CASE("an error of another maker's driver is not answered with torch.cuda") {
  for (const char* text :
       {"level_zero: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
        "Insufficient Memory (kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "XPU out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity "
        "of 8.00 GiB. Of the allocated memory 1.00 GiB is allocated by PyTorch"})
    CHECK_FALSE(has(answer_to(text).text, "torch.cuda"));
  CHECK(has(answer_to("level_zero: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)").text,
            "does not model this device's allocator"));
}
