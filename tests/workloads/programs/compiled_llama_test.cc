// torch.compile of Llama and Qwen against recordings, by the peak of the third step: from then on
// every step asks for the same. Of one graph of the model and its loss, and of layers alone.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"

using namespace allocmark;

namespace {

// Bytes live at most from the mark on until the next one.
double peak_after_mark(const std::string& workload, std::uint64_t mark) {
  std::map<std::uint64_t, std::uint64_t> live;
  std::uint64_t now = 0, peak = 0, marks = 0;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    if (event.kind == EventKind::Mark) ++marks;
    if (event.kind == EventKind::Alloc) now += live[event.id] = event.size_bytes;
    if (event.kind == EventKind::Free) now -= live[event.id];
    if (marks == mark) peak = std::max(peak, now);
  }
  return static_cast<double>(peak);
}

// "begin", then one for each step.
double third_step_peak(const std::string& workload) { return peak_after_mark(workload, 4); }

void check_peak(const std::string& workload, double recorded, double share) {
  INFO(workload);
  CHECK(std::abs(third_step_peak(workload) / recorded - 1) < share);
}

const std::string kCompiledLlama =
    "train:llama-3-8b,layers=4,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,steps=3,"
    "kv_cache=none,optimizer=adamw_fused,";
const std::string kCompiledTied =
    "train:llama-3-8b,layers=3,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=64000,tied=1,"
    "batch=4,seq=1024,steps=3,kv_cache=none,optimizer=adamw_fused,precision=bf16,";
const std::string kCompiledQwen2 =
    "train:qwen2.5-0.5b,layers=4,hidden=896,heads=14,kv_heads=2,ffn=4864,vocabulary=151936,tied=1,"
    "batch=2,seq=1024,steps=3,kv_cache=none,optimizer=adamw_fused,";
const std::string kCompiledQwen3 =
    "train:qwen3-0.6b,layers=4,hidden=1024,heads=16,kv_heads=8,head_size=128,ffn=3072,tied=1,"
    "vocabulary=151936,batch=2,seq=1024,steps=3,kv_cache=none,optimizer=adamw_fused,"
    "precision=bf16,";
const std::string kCompiledSmall =
    "train:llama-3-8b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=16384,steps=3,"
    "kv_cache=none,";

}  // namespace

// NVIDIA H200, PyTorch 2.11.0+cu130, transformers 5.17, 2026-11-27: record_pytorch.py around four
// steps of AutoModelForCausalLM.from_config under model.compile(), or layer.compile() of each.
TEST_CASE("compiled Llamas and Qwens peak where an H200's did") {
  const std::string whole = "compile=inductor", layers = "compile=inductor_layers";
  check_peak(kCompiledLlama + "batch=4,seq=1024,precision=bf16," + whole, 3856233588, 0.001);
  check_peak(kCompiledLlama + "batch=1,seq=4096,precision=bf16," + whole, 3882185460, 0.001);
  check_peak(kCompiledLlama + "batch=2,seq=1024," + whole, 5323703156, 0.01);
  check_peak(kCompiledLlama + "batch=4,seq=1024,precision=bf16,checkpoint=full," + whole,
             3120542648, 0.01);
  check_peak(kCompiledLlama + "batch=4,seq=1024,precision=bf16," + layers, 4567364328, 0.001);
  check_peak(kCompiledLlama + "batch=4,seq=1024,precision=bf16,checkpoint=full," + layers,
             3643445928, 0.001);
  check_peak(kCompiledTied + whole, 2671373116, 0.001);
  check_peak(kCompiledQwen2 + "precision=bf16," + whole, 3478621088, 0.001);
  check_peak(kCompiledQwen2 + whole, 5074236576, 0.01);
  check_peak(kCompiledQwen3 + whole, 3686367940, 0.01);
  check_peak(kCompiledQwen3 + "checkpoint=full," + layers, 5146243780, 0.001);
}

// The same without a GPU: scripts/record/record_without_gpu.py, PyTorch 2.11, transformers 5.17.
TEST_CASE("compiled steps peak where PyTorch's on simcuda do") {
  const std::string whole = "compile=inductor", layers = "compile=inductor_layers";
  const std::string bf16 = "optimizer=adamw_fused,precision=bf16,";
  check_peak(kCompiledSmall + "batch=4,seq=512," + whole, 1653379436, 0.01);
  check_peak(kCompiledSmall + "batch=4,seq=512," + layers, 1823412552, 0.01);
  check_peak(kCompiledSmall + "batch=4,seq=512,optimizer=adamw_fused,checkpoint=full," + whole,
             1432462004, 0.02);
  check_peak(kCompiledSmall + "batch=1,seq=2048," + bf16 + layers, 1207056740, 0.001);
  // Gradients of a whole graph are handed out at its end, so that sums have both.
  check_peak(kCompiledSmall + "batch=1,seq=128,accumulate=2," + bf16 + whole, 924937512, 0.001);
  check_peak(kCompiledSmall + "batch=1,seq=128,accumulate=2," + bf16 + layers, 750925668, 0.001);
}

// PyTorch 2.11 on simcuda, 2026-11-29. The head's gradient is added to the table's at the end of
// the backward: until then the logits' stays, which is smaller than the table here.
TEST_CASE("a compiled head that is the table of words adds its gradient last") {
  const std::string both =
      ",steps=3,kv_cache=none,precision=bf16,optimizer=sgd_momentum,tied=1,vocabulary=32000,"
      "batch=4,seq=100,compile=inductor";
  check_peak("train:llama-3-8b,layers=3,hidden=512,heads=8,kv_heads=4,ffn=1024,clip=1" + both,
             325050632, 0.00001);
  check_peak(
      "train:qwen3-0.6b,layers=2,hidden=1024,heads=8,kv_heads=2,head_size=128,ffn=3072" + both,
      591548808, 0.00001);
}

TEST_CASE("torch.compile of a Llama is refused where it was not recorded") {
  const std::string fits = "train:llama-3.2-1b,layers=2,seq=64,kv_cache=none,precision=bf16";
  const auto refused = [&](const std::string& with, const char* wanted) {
    INFO(with);
    CHECK(mentions(refusal_of(fits + ",compile=inductor" + with), wanted));
  };
  CHECK_NOTHROW(open_workload(fits + ",compile=inductor", 1));
  CHECK_NOTHROW(open_workload(fits + ",dp=2,fsdp=2,compile=inductor_layers", 1));
  refused(",dp=2", "one rank");
  refused("_layers,dp=2,fsdp=2,tp=2", "no tp, cp or pp");
  refused(",lora=8", "lora=0");
  refused(",window=32", "window=0");
  refused(",liger=blocks", "liger=none");
  refused(",products=fp8", "products=own");
  refused(",checkpoint=selective", "checkpoint=none or full");
  refused(",checkpoint=full,reentrant=1", "reentrant=0");
  refused(",loss_chunks=4", "loss_chunks=1");
  refused(",eval_every=1", "no evaluation");
  CHECK(mentions(refusal_of("train:llama-3.2-1b,kv_cache=none,precision=fp32,compile=inductor"),
                 "precision=bf16 or bf16_autocast"));
  CHECK(mentions(refusal_of("train:qwen3-30b-a3b,compile=inductor"), "unknown key 'compile'"));
}
