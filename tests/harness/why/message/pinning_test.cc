// Which errors are of pinned memory, and what is answered to them. Most are of public reports.

#include <string>

#include "tests/catch.h"
#include "tests/harness/why/message/answers.h"

using namespace allocmark::message;

namespace {

// A traceback of PyTorch with these last two frames.
std::string traceback(const std::string& outer, const std::string& inner,
                      const std::string& error) {
  return "Traceback (most recent call last):\n  File \"/job/train.py\", line 7, in <module>\n    "
         "main(DataLoader(data, pin_memory=True))\n  File \"/job/train.py\", line 5, in main\n   "
         " " +
         outer + "\n  File \"/job/model.py\", line 3, in forward\n    " + inner + "\n" + error;
}

}  // namespace

TEST_CASE("an error without figures is of pinned memory where the last frames or calls pin") {
  const std::string error = "RuntimeError: CUDA error: out of memory";
  for (const std::string& text :
       {traceback("cache = Cache()", "self.buffer = torch.empty(n, pin_memory=True)", error),
        traceback("batch = next(it)", "return data.pin_memory(device)", error),
        traceback("pin(buffer)", "torch.cuda.cudart().cudaHostRegister(p, n, 0)", error),
        traceback("cache = Cache()", "self.buffer = torch.empty(n, pin_memory=pin)",
                  "torch.AcceleratorError: CUDA error: invalid argument"),
        error + "\nCUDA kernel errors might be asynchronously reported\nframe #5: "
                "at::cuda::CachingHostAllocator_emptyCache()",
        std::string("cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: "
                    "out of memory in cudaHostAlloc")}) {
    INFO(text);
    const Answer answer = answer_to(text);
    CHECK(answer.verdict.cause == Cause::PinnedMemory);
    CHECK(answer.verdict.help == Help::No);
    CHECK(answer.remedy.setting.empty());
    CHECK(has(answer.text, "allocmark pinned"));
    CHECK(has(answer.text, "the host or a limit on it refused, not the card"));
  }
  CHECK(has(answer_to("failed to allocate 1024.00 MiB of pinned memory: out of memory").text,
            "allocmark pinned 1073741824B"));
}

TEST_CASE("another program is not told how PyTorch pins") {
  const std::string gromacs =
      "gmx mdrun\ncudaMallocHost of size 1073741824 bytes failed: cudaErrorMemoryAllocation";
  const Answer answer = answer_to(gromacs);
  CHECK(answer.verdict.cause == Cause::PinnedMemory);
  CHECK_FALSE(has(answer.text, "PyTorch"));
  CHECK_FALSE(has(answer.text, "pin_memory"));
  CHECK(has(answer_to("torch/utils/data.py\n" + gromacs).text, "PyTorch pins a power of two"));
}

TEST_CASE("messages of public reports about pinned memory name it") {
  struct Report {
    std::string name;
    std::string text;
    Cause cause = Cause::PinnedMemory;
  };
  const Report reports[] = {
      {"sgl-project/sglang 7666",
       traceback("self.kv_buffer = self.init_kv_buffer()", "pass",
                 "File \"/srt/mem_cache/memory_pool_host.py\", line 240, in init_kv_buffer\n    "
                 "return torch.empty(\nRuntimeError: CUDA error: invalid argument")},
      {"LMCache 1063", traceback("return MixedMemoryAllocator(n)",
                                 "buffer = torch.empty(size, dtype=torch.uint8, pin_memory=True)",
                                 "RuntimeError: CUDA error: invalid argument")},
      {"pytorch 152335",
       traceback("main()", "t.pin_memory()", "RuntimeError: CUDA error: invalid argument")},
      {"vllm 51081", "WARNING cudaHostRegister failed for rank=0 (code=2)\n" +
                         traceback("warm_up()", "warm_v1_block_table_kernels(x)",
                                   "torch.AcceleratorError: CUDA error: out of memory")},
      {"ollama 8964",
       "ggml_cuda_host_malloc: failed to allocate 349659.17 MiB of pinned memory: out of memory"},
      {"llama.cpp 9629",
       "ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: invalid argument"},
      {"talmolab/sleap 2001",
       "E tensorflow/stream_executor/cuda/cuda_driver.cc:802] failed to alloc 34359738368 bytes on "
       "host: CUDA_ERROR_OUT_OF_MEMORY: out of memory\nW .\\tensorflow\\core\\common_runtime\\"
       "device\\device_host_allocator.h:46] could not allocate pinned host memory of size: "
       "34359738368"},
      {"wtdcode/vllm-backport 67", "Out of memory: Killed process 4711 (VLLM::EngineCor)",
       Cause::HostMemory},
  };
  for (const Report& report : reports) {
    INFO(report.name);
    const Answer answer = answer_to(report.text);
    CHECK(answer.verdict.cause == report.cause);
    CHECK(has(answer.text, "allocmark pinned"));
    CHECK(answer.remedy.setting.empty());
  }
}

TEST_CASE("a loader's argument further up does not make an error one of pinned memory") {
  const std::string error = "RuntimeError: CUDA error: out of memory";
  for (const std::string& text :
       {error, traceback("y = model(x)", "return torch.matmul(x, self.weight)", error),
        traceback("y = model(x)", "x = x.to(device, non_blocking=self.pin_memory)", error)}) {
    INFO(text);
    CHECK(answer_to(text).verdict.cause == Cause::MissingFigures);
  }
  // Of another kind: no message at all.
  CHECK(find_messages(traceback("y = model(x)", "return torch.matmul(x, self.weight)",
                                "RuntimeError: CUDA error: invalid argument"))
            .messages.empty());
  // It hides none behind it either.
  CHECK(find_messages("RuntimeError: CUDA error: invalid argument\n" + error).messages.size() == 1);
}

TEST_CASE("a process that the host ended died of the host's memory") {
  const Answer answer =
      answer_to("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.");
  CHECK(answer.verdict.cause == Cause::HostMemory);
  CHECK(has(answer.text, "Pinned buffers cannot be swapped"));
}
