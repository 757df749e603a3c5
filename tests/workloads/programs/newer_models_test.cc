// Families of 2025: Gemma 3, DeepSeek-V3, Qwen 3's mixtures. Numbers of parameters are those of the
// published weights. Peaks are those of PyTorch 2.11 with transformers 5.17 on simcuda, which ran
// the same steps.
#include <cstdint>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/workloads/kind_peak.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

std::uint64_t parameter_count(const std::string& model) {
  // Two bytes each; nothing is trained, so that no narrow copy joins them.
  const std::string text = "train:" + model + ",steps=0,eval_every=1,batch=1,seq=16,precision=bf16";
  return kind_peak(text, TensorKind::Parameter) / 2;
}

std::uint64_t requested_peak(const std::string& workload) {
  return summarize(*open_workload(workload, 1)).requested_bytes_peak;
}

}  // namespace

TEST_CASE("models have as many parameters as their published weights") {
  CHECK(parameter_count("gemma-3-1b") == 999'885'952);
  // Without the tower that sees images and its projector: 4,300,079,472 with them.
  CHECK(parameter_count("gemma-3-4b") == 3'880'263'168);
  CHECK(parameter_count("qwen3-30b-a3b") == 30'532'122'624);
  // Without the module that predicts a second token.
  CHECK(parameter_count("deepseek-v3") == 671'026'404'352);
}

TEST_CASE("a Gemma's steps hold at most what PyTorch's do") {
  const std::string gemma = "train:gemma-3-1b,optimizer=adamw_fused,steps=2,batch=2";
  CHECK(requested_peak(gemma + ",layers=7,seq=1024,kv_cache=none") == 15'147'192'816);
  // Frequencies are made in the model's type there, so that two are cast to four bytes.
  CHECK(requested_peak(gemma + ",layers=6,seq=300,precision=bf16,attention=eager,checkpoint=full") +
            1024 ==
        4'979'425'290);
}

TEST_CASE("a DeepSeek-V3's steps hold what PyTorch's do") {
  const std::string model =
      "train:deepseek-v3,hidden=1024,heads=8,kv_heads=8,ffn=256,vocabulary=16384,expert_count=16,"
      "experts_per_token=4,key_rank=128,shared_ffn=256,dense_ffn=2816,batch=2,steps=2,"
      "optimizer=adamw_fused,kv_cache=none";
  const std::string narrow = model + ",query_rank=384,seq=512,precision=bf16";
  CHECK(requested_peak(narrow + ",layers=3,dense_layers=1") == 929'398'316);
  CHECK(requested_peak(narrow + ",layers=2,dense_layers=2") == 729'563'412);
  CHECK(requested_peak(narrow + ",layers=2,dense_layers=0,attention=eager,checkpoint=full") ==
        674'091'340);
  // Of 1,717,382,356: some of the router's tensors have other sizes under autocast.
  CHECK(requested_peak(model + ",query_rank=0,seq=700,layers=3,dense_layers=1") == 1'717'376'756);
  CHECK(mentions(refusal_of(narrow + ",rope_size=192"), "less than head_size"));
  CHECK(mentions(refusal_of("train:deepseek-v3,tp=2"), "1 for deepseek-v3"));
}

TEST_CASE("a Qwen 3 with experts weighs their results in the type of its logits") {
  CHECK(requested_peak("train:qwen3-30b-a3b,layers=3,hidden=1024,heads=16,kv_heads=4,ffn=256,"
                       "vocabulary=16384,expert_count=16,experts_per_token=4,batch=2,seq=512,"
                       "steps=2,precision=bf16,optimizer=adamw_fused,kv_cache=none") ==
        1'005'259'912);
}

TEST_CASE("a window needs a mask where texts are as long") {
  const std::string llama =
      "train:llama-3-8b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,batch=2,"
      "seq=1024,precision=bf16,optimizer=adamw_fused,kv_cache=none,steps=2";
  CHECK(requested_peak(llama + ",window=256") == 1'937'652'068);
  CHECK(requested_peak(llama + ",window=1025") == requested_peak(llama));
  // Each block keeps its mask as numbers, and keys and values of every head.
  const std::uint64_t block = 2ull * 1024 * 1024 * 2 + 2ull * 2 * 1024 * (1024 - 256) * 2;
  CHECK(requested_peak(llama + ",window=256") -
            requested_peak(llama + ",window=256,window_every=2") >=
        2 * block - (1 << 20));
  CHECK(mentions(refusal_of("train:llama-3-8b,window=256,cp=2,seq=1024"), "cp or pp"));
}

TEST_CASE("what keeps a cache of keys and values refuses windows and latent keys") {
  for (const char* generator : {"infer:", "serve:", "colocate:"}) {
    CHECK(mentions(refusal_of(std::string(generator) + "gemma-3-1b"), "without windows"));
  }
  CHECK(mentions(refusal_of("serve:deepseek-v3"), "without latent keys"));
}

TEST_CASE("experts in Megatron's layers are refused with what they amount to") {
  for (const char* model : {"mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"}) {
    INFO(model);
    const std::string told = refusal_of("train:" + std::string(model) + ",implementation=megatron");
    CHECK(mentions(told, "router and grouped products are not generated"));
    CHECK(mentions(told, "add 4 bytes for each parameter"));
  }
  CHECK(mentions(refusal_of("train:qwen3-0.6b,implementation=megatron"), "transformers for BERT"));
}
