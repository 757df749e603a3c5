// What follows from the figures. The cases are those of public reports, with their right values.
#include "harness/tools/why/message/verdict.h"

#include <string>

#include "tests/catch.h"
#include "tests/harness/why/message/answers.h"

using namespace allocmark::message;

namespace {

std::string modern(const std::string& asked, const std::string& total, const std::string& free,
                   const std::string& middle, const std::string& allocated,
                   const std::string& unallocated) {
  return "CUDA out of memory. Tried to allocate " + asked + ". GPU 0 has a total capacity of " +
         total + " of which " + free + " is free. " + middle + "Of the allocated memory " +
         allocated + " is allocated by PyTorch, and " + unallocated +
         " is reserved by PyTorch but unallocated.";
}

}  // namespace

TEST_CASE("free and unallocated memory below the request: no setting, and how much must go") {
  const Answer answer =
      answer_to(modern("80.00 MiB", "139.72 GiB", "60.69 MiB",
                       "Process 1 has 139.65 GiB memory in use. ", "139.21 GiB", "12.81 MiB"));
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(answer.verdict.help == Help::No);
  CHECK(*answer.verdict.must_go_bytes == 6815744);  // 80 - 60.69 - 12.81 = 6.5 MiB
  CHECK(answer.remedy.setting.empty());
  CHECK(
      has(answer.text, "73.5 MiB in all: no setting of the allocator can help, 6.50 MiB must go"));
  CHECK_FALSE(has(answer.text, "expandable_segments:True"));
}

TEST_CASE("enough in all and too little free: fragmentation is possible, not sure") {
  const Answer answer = answer_to(
      "CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of "
      "15.77 GiB of which 514.19 MiB is free. Process 1 has 15.25 GiB memory in use. Of "
      "the allocated memory 13.73 GiB is allocated by PyTorch, with 46.00 MiB allocated "
      "in private pools (e.g., CUDA Graphs), and 736.86 MiB is reserved by PyTorch but "
      "unallocated.");
  CHECK(answer.verdict.cause == Cause::FragmentationPossible);
  CHECK(answer.remedy.setting == "expandable_segments:True");
  CHECK(has(answer.text, "1.22 GiB in all"));
  CHECK(has(answer.text, "possible, not sure"));
  CHECK(has(answer.text, "To try: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  // Process 1 is this one.
  CHECK_FALSE(has(answer.text, "Process 1 holds"));
}

TEST_CASE("where expandable segments are on already, they are not named again") {
  const Answer answer =
      answer_to(modern("250.00 MiB", "79.26 GiB", "104.75 MiB", "", "74.77 GiB", "3.87 GiB") +
                " expandable_segments is enabled. If instead the process is running out of virtual "
                "address space (VSZ), expandable segments may be over-reserving VA.");
  CHECK(answer.verdict.cause == Cause::FragmentationPossible);
  CHECK(answer.verdict.help == Help::Unknown);
  CHECK(answer.remedy.setting.empty());
  CHECK(has(answer.text, "only a snapshot can tell"));
  CHECK(has(answer.text, "_dump_snapshot"));
}

TEST_CASE("a setting that the text shows elsewhere counts, the advice of the message does not") {
  const std::string message =
      modern("250.00 MiB", "79.26 GiB", "104.75 MiB", "", "74.77 GiB", "3.87 GiB") +
      " If reserved but unallocated memory is large try setting "
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
  CHECK(answer_to(message).remedy.setting == "expandable_segments:True");
  for (const std::string line :
       {"$ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "PYTORCH_ALLOC_CONF: 'max_split_size_mb:512,expandable_segments:True'",
        "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\""}) {
    INFO(line);
    CHECK(answer_to(line + "\n" + message).remedy.setting.empty());
    CHECK(answer_to(message + "\n" + line).remedy.setting.empty());
  }
  CHECK(answer_to("PYTORCH_ALLOC_CONF=expandable_segments:False\n" + message).remedy.setting ==
        "expandable_segments:True");
}

TEST_CASE("more allocated than the card has: the driver spills") {
  const Answer answer =
      answer_to(modern("1002.00 MiB", "8.00 GiB", "0 bytes", "", "13.98 GiB", "129.48 MiB"));
  CHECK(answer.verdict.cause == Cause::Spilled);
  CHECK(answer.verdict.help == Help::No);
  CHECK(has(answer.text, "spills to the host's memory"));
  CHECK(has(answer.text, "6.96 GiB must go"));
}

TEST_CASE("as much free as was asked: a limit outside PyTorch") {
  for (const std::string& text :
       {modern("20.00 MiB", "4.00 GiB", "2.35 GiB", "", "825.15 MiB", "24.85 MiB"),
        modern("960.00 MiB", "23.99 GiB", "15.52 GiB", "", "6.78 GiB", "76.36 MiB"),
        modern("2.00 MiB", "287.98 GiB", "203.49 GiB", "", "68.63 GiB", "14.93 GiB")}) {
    const Answer answer = answer_to(text);
    CHECK(answer.verdict.cause == Cause::OutsideLimit);
    CHECK(answer.verdict.help == Help::No);
    CHECK(answer.remedy.setting.empty());
    CHECK(has(answer.text, "limit outside PyTorch"));
  }
}

TEST_CASE("a process's own limit is named as the cause") {
  const Answer answer = answer_to(
      "HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 "
      "GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 "
      "MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP "
      "Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.");
  CHECK(answer.verdict.cause == Cause::ProcessLimit);
  CHECK(answer.remedy.setting.empty());
  CHECK(has(answer.text, "may take 1.05 GiB"));
  CHECK(has(answer.text, "set_per_process_memory_fraction"));
  // A limit that leaves enough is not the cause.
  CHECK(answer_to(modern("1.00 GiB", "24.00 GiB", "10.00 GiB", "20.00 GiB allowed; ", "5.00 GiB",
                         "1.00 GiB"))
            .verdict.cause == Cause::OutsideLimit);
  // Nor one that is above what the card still has.
  CHECK(answer_to(modern("1.00 GiB", "24.00 GiB", "0.10 GiB", "23.00 GiB allowed; ", "22.50 GiB",
                         "0.40 GiB"))
            .verdict.cause == Cause::TooBig);
}

TEST_CASE("a message that is cut says what is missing, and names no setting") {
  const Answer answer = answer_to(
      "CUDA out of memory. Tried to allocate 51.87 GiB. GPU 0 has a total capacity of 94.50 GiB of "
      "which 41.85 GiB is free. Including non-PyTorch memory, this process has 52.64 GiB memory in "
      "use.");
  CHECK(answer.verdict.cause == Cause::MissingFigures);
  CHECK(answer.remedy.setting.empty());
  CHECK(has(answer.text, "10.0 GiB must go"));
  // What the process holds bounds its cache.
  const Answer bounded = answer_to(
      "CUDA out of memory. Tried to allocate 51.87 GiB. GPU 0 has a total capacity of 94.50 GiB of "
      "which 1.85 GiB is free. Including non-PyTorch memory, this process has 32.64 GiB memory in "
      "use.");
  CHECK(bounded.verdict.cause == Cause::TooBig);
}

TEST_CASE("figures that contradict each other are told, and nothing rests on them") {
  const Answer answer =
      answer_to(modern("1.00 GiB", "8.00 GiB", "9.00 GiB", "", "2.00 GiB", "1.00 GiB"));
  CHECK(answer.verdict.cause == Cause::Contradiction);
  CHECK(answer.remedy.setting.empty());
  CHECK(
      has(answer.text, "the card's memory (8.00 GiB) is less than what is free on it (9.00 GiB)"));
  const Answer unbacked =
      answer_to(modern("1.00 GiB", "8.00 GiB", "5.00 GiB", "", "6.00 GiB", "1.00 GiB"));
  CHECK(unbacked.verdict.cause == Cause::Contradiction);
  CHECK(unbacked.remedy.setting.empty());
  // A figure that the answer does not need is told and does not end it.
  const Answer wrapped = answer_to(modern(
      "3.98 GiB", "31.84 GiB", "16.30 GiB",
      "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. 17.51 "
      "GiB allowed; ",
      "6.74 GiB", "7.02 GiB"));
  CHECK(wrapped.verdict.cause == Cause::ProcessLimit);
  CHECK(has(wrapped.text, "17179869184.00 GiB is no size"));
}

TEST_CASE("figures that round to the same are no answer") {
  const Answer answer =
      answer_to(modern("2.00 GiB", "24.00 GiB", "1.00 GiB", "", "20.00 GiB", "1.00 GiB"));
  CHECK(answer.verdict.cause == Cause::Borderline);
  CHECK(answer.remedy.setting.empty());
}

TEST_CASE("memory of other processes is named") {
  const Answer answer = answer_to(modern(
      "594.00 MiB", "79.33 GiB", "508.44 MiB",
      "Process 62912 has 494.00 MiB memory in use. Process 113443 has 78.33 GiB memory in use. ",
      "74.24 GiB", "185.89 MiB"));
  CHECK(answer.verdict.cause == Cause::FragmentationPossible);
  CHECK(has(answer.text, "Process 62912 holds 494.00 MiB"));
  CHECK_FALSE(has(answer.text, "Process 113443 holds"));
  const Answer full = answer_to(
      "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.75 GiB total capacity; "
      "79.11 MiB already allocated; 3.62 MiB free; 86.00 MiB reserved in total by PyTorch)");
  CHECK(full.verdict.cause == Cause::TooBig);
  CHECK(has(full.text, "15.7 GiB of the card are neither free nor PyTorch's"));
  CHECK(has(full.text, "for a request of 1 to 10 MiB"));
}

TEST_CASE("a key is not named where its release cannot have it without saying so") {
  const Answer answer = answer_to(
      "CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; "
      "8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved in total by PyTorch)");
  CHECK(answer.verdict.cause == Cause::FragmentationPossible);
  CHECK(has(answer.text, "needs PyTorch 2.1 or later"));
}

TEST_CASE("the driver's pool: what can be said without its cache") {
  const auto pool = [](const std::string& allocated, const std::string& asked,
                       const std::string& free, const std::string& limit) {
    return "Currently allocated     : " + allocated + "\nRequested               : " + asked +
           "\nDevice limit            : 8.00 GiB\nFree (according to CUDA): " + free +
           "\nPyTorch limit (set by user-supplied memory fraction)\n                        : " +
           limit;
  };
  const std::string none = "17179869184.00 GiB";
  CHECK(answer_to(pool("7.80 GiB", "1.00 GiB", "0 bytes", none)).verdict.cause == Cause::TooBig);
  CHECK(answer_to(pool("2.80 GiB", "1.00 GiB", "4.00 GiB", none)).verdict.cause ==
        Cause::OutsideLimit);
  CHECK(answer_to(pool("2.80 GiB", "1.00 GiB", "4.00 GiB", "3.00 GiB")).verdict.cause ==
        Cause::ProcessLimit);
  const Answer unknown = answer_to(pool("6.72 GiB", "40.00 MiB", "0 bytes", none));
  CHECK(unknown.verdict.cause == Cause::MissingFigures);
  CHECK(has(unknown.text, "1.28 GiB are neither free nor the program's"));
}

TEST_CASE("allocators that say their limit are compared with it") {
  const auto bfc = [](const std::string& limit, const std::string& used) {
    return "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to "
           "2147483648)\nStats: \nLimit:      " +
           limit + "\nInUse:     " + used + "\nMaxInUse:  " + used + "\nNumAllocs: 3\n";
  };
  const Answer full = answer_to(bfc("12884901888", "11811160064"));
  CHECK(full.verdict.cause == Cause::TooBig);
  CHECK(has(full.text, "1.00 GiB must go"));
  CHECK(answer_to(bfc("12884901888", "8589934592")).verdict.cause == Cause::FragmentationPossible);
  CHECK(answer_to(bfc("8589934592", "12884901888")).verdict.cause == Cause::Contradiction);
  const Answer cupy = answer_to(
      "Out of memory allocating 3,000,000,000 bytes (allocated so far: "
      "512,000,000 bytes, limit set to: 1,000,000,000 bytes).");
  CHECK(cupy.verdict.cause == Cause::ProcessLimit);
  CHECK(*cupy.verdict.must_go_bytes == 2512000000);
  CHECK(
      answer_to("failed: Available memory of 1000000 is smaller than requested bytes of 135383040")
          .verdict.must_go_bytes == 134383040);
  CHECK(answer_to("Ran out of memory in memory space hbm. Used 20.10G of 15.48G hbm. Exceeded hbm "
                  "capacity by 4.62G.")
            .verdict.must_go_bytes == 4960687227);
}

TEST_CASE("messages with few figures still say whose limit it was") {
  const Answer rejected = answer_to(
      "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it "
      "would exceed per_process_memory_fraction limit. Requested size: 512.00 MiB");
  CHECK(rejected.verdict.cause == Cause::ProcessLimit);
  CHECK(has(rejected.text, "512.00 MiB was rejected"));
  const Answer pool = answer_to(
      "std::bad_alloc: out_of_memory: RMM failure at:/mr/pool.hpp:196: "
      "Maximum pool size exceeded");
  CHECK(pool.verdict.cause == Cause::MissingFigures);
  const Answer driver = answer_to(
      "std::bad_alloc: out_of_memory: CUDA error at: /mr/cuda.hpp:70: "
      "cudaErrorMemoryAllocation out of memory");
  CHECK(driver.verdict.cause == Cause::MissingFigures);
  CHECK(answer_to("CUDA out of memory. Tried to allocate more than 1EB memory.").verdict.cause ==
        Cause::TooBig);
  const Answer npu = answer_to(
      "NPU out of memory. Tried to allocate 20.00 MiB (NPU 0; 60.97 GiB total capacity; 58.13 GiB "
      "already allocated; 58.13 GiB current active; 10.10 MiB free; 58.50 GiB reserved in total by "
      "PyTorch)");
  CHECK(npu.verdict.cause == Cause::FragmentationPossible);
  CHECK(npu.remedy.setting.empty());
}

TEST_CASE(
    "memory that is counted and not mapped is told from spilling where processes are listed") {
  const Answer answer = answer_to(
      "CUDA out of memory. Tried to allocate 1.72 GiB.\n  GPU 0 has a total capacity of 22.06 GiB "
      "of "
      "which 947.44 MiB is free.\n  Process 1 has 21.12 GiB memory in use.\n  Of the allocated "
      "memory 24.29 GiB is allocated by PyTorch,\n  with 3.80 GiB allocated in private pools "
      "(e.g., "
      "CUDA Graphs)");
  CHECK(answer.verdict.cause == Cause::Spilled);
  CHECK(has(answer.text, "a part of it is not on the card"));
}

TEST_CASE("programs that keep no cache get no setting of one") {
  for (const std::string text :
       {"using device CUDA0 (NVIDIA GeForce RTX 3090) - 23306 MiB free\nallocating 39979.48 MiB on "
        "device 0: cudaMalloc failed: out of memory",
        "allocating 9866.00 MiB on device 1: cudaMalloc failed: out of memory",
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "Free memory on device cuda:0 (10.9/23.6 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 21.3 GiB)",
        "DefaultCPUAllocator: not enough memory: you tried to allocate 68719476736 bytes",
        "RuntimeError: CUDA error: out of memory"}) {
    const Answer answer = answer_to(text);
    INFO(text);
    CHECK(answer.remedy.setting.empty());
    CHECK_FALSE(has(answer.text, "export PYTORCH"));
  }
}

TEST_CASE("an error without figures is answered by the library that wrote it") {
  const Answer wake = answer_to(
      "  File \"/vllm/device_allocator/cumem.py\", line 75, in create_and_map\n"
      "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62");
  CHECK(has(wake.text, "from: vLLM's CuMemAllocator"));
  CHECK(has(wake.text, "wake_up()"));
  CHECK_FALSE(has(wake.text, "an error without figures"));
  for (const char* text : {"CUDA error 2 at /data/llama.cpp/ggml-cuda.cu:5509: out of memory",
                           "CUDA error: out of memory\n  current device: 0, in function alloc at "
                           "/src/ggml-cuda/ggml-cuda.cu:436\n  cuMemCreate(&handle, 0)"}) {
    const Answer ggml = answer_to(text);
    CHECK(ggml.verdict.help == Help::No);
    CHECK(has(ggml.text, "from: ggml (llama.cpp)"));
    CHECK_FALSE(has(ggml.text, "gpu_memory_utilization"));
    CHECK_FALSE(has(ggml.text, "Other messages"));
  }
  const Answer rmm = answer_to(
      "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8589934592 "
      "bytes) at: /rmm/mr/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory");
  CHECK(has(rmm.text, "a request of 8589934592 bytes (8.00 GiB) failed at the driver"));
  CHECK_FALSE(has(rmm.text, "Raise the pool's maximum size"));
  CHECK(has(answer_to("MemoryError: std::bad_alloc: CUDA error at: cuda_memory_resource.hpp68: "
                      "cudaErrorMemoryAllocation out of memory")
                .text,
            "from: RMM"));
}

TEST_CASE("a few MiB free on a full card are no sign of a limit") {
  const auto with_free = [](const std::string& free, const std::string& cached) {
    return answer_to(
        "CUDA out of memory. Tried to allocate 1.12 MiB (GPU 0; 22.37 GiB total capacity; 15.87 "
        "GiB already allocated; " +
        free + " free; " + cached + " cached)");
  };
  CHECK(with_free("3.56 MiB", "787.74 MiB").verdict.cause == Cause::Borderline);
  CHECK(with_free("4.06 MiB", "787.74 MiB").verdict.cause == Cause::OutsideLimit);
}

TEST_CASE("where the allocator is a backend, its requests are recorded with its cache off") {
  const Answer jax =
      answer_to("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.");
  CHECK(has(jax.text, "export XLA_PYTHON_CLIENT_ALLOCATOR=platform"));
  CHECK(has(jax.text, "--workload file:job.sqlite --allocator bfc@xla-2026-09"));
  CHECK(has(jax.text, "allocmark advise job.sqlite --framework jax"));
  const Answer bfc =
      answer_to("Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.25GiB");
  CHECK(has(bfc.text, "bfc@tf2.21"));
  CHECK(has(bfc.text, "--framework tensorflow"));
  const Answer cupy = answer_to(
      "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 3,000,000,000 bytes (allocated "
      "so far: 512,000,000 bytes, limit set to: 1,000,000,000 bytes).");
  CHECK(has(cupy.text, "--allocator cupy"));
  for (const Answer& answer : {jax, bfc, cupy}) CHECK_FALSE(has(answer.text, "has no model"));
}

TEST_CASE("libraries that ask the driver themselves are answered by what they say") {
  const Answer engine = answer_to(
      "[TRT] [E] Requested amount of GPU memory (25769803776 bytes) could not be allocated. There "
      "may not be enough free memory for allocation to succeed.\n"
      "[TRT] [E] Error Code 2: OutOfMemory (Requested size was 25769803776 bytes.)");
  CHECK(has(engine.text, "a request of 25769803776 bytes (24.0 GiB) failed"));
  CHECK_FALSE(has(engine.text, "Other messages"));
  const Answer index = answer_to(
      "Faiss assertion failed: Failed to cudaMalloc 1610612736 bytes on device 0 (error 2 out of "
      "memory");
  CHECK(has(index.text, "keeps unallocated is not there for it"));
  const Answer boost = answer_to(
      "Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of "
      "memory\n- Free memory: 1234567\n- Requested memory: 9999999999");
  CHECK(boost.verdict.must_go_bytes == 9998765432);
  CHECK(has(answer_to("RuntimeError: Triton Error [CUDA]: out of memory").text,
            "set_per_process_memory_fraction"));
  const Answer sglang =
      answer_to("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.");
  CHECK(sglang.verdict.cause == Cause::TooBig);
  CHECK_FALSE(has(sglang.text, "vLLM"));
}

TEST_CASE("cuDNN's error of the host is not the card's") {
  CHECK(
      answer_to("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED").verdict.cause ==
      Cause::HostMemory);
}

TEST_CASE("an exit code of 137 says who may have killed the job, unless a message says more") {
  const Answer killed = answer_to("Process finished with exit code 137");
  CHECK(killed.verdict.cause == Cause::HostMemory);
  CHECK(has(killed.text, "dmesg"));
  const Answer both =
      answer_to(modern("80.00 MiB", "139.72 GiB", "60.69 MiB", "", "139.21 GiB", "12.81 MiB") +
                "\nProcess finished with exit code 137");
  CHECK(both.verdict.cause == Cause::TooBig);
  const Answer card = answer_to("CUDA error: out of memory\n\nexit code 137");
  CHECK(has(card.text, "an error without figures"));
}
