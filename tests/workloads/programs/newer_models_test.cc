// Families since 2024: Gemma 3, Phi 3 and 4, DeepSeek-V3, Qwen 3's mixtures. Numbers of parameters
// are those of the published weights. Peaks are those of PyTorch 2.11 with transformers 5.17 on
// simcuda, which ran the same steps.
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
  CHECK(parameter_count("phi-3-mini") == 3'821'079'552);
  CHECK(parameter_count("phi-4-mini") == 3'836'021'760);
  CHECK(parameter_count("phi-4") == 14'659'507'200);
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

TEST_CASE("a Phi 3's steps and answers hold what PyTorch's do") {
  const std::string layers = "phi-3-mini,layers=3,ffn=2048";
  const std::string whole = layers + ",hidden=768,heads=12";
  const std::string grouped = whole + ",kv_heads=4,tied=1,precision=fp32,attention=eager";
  const std::string part = layers + ",hidden=1024,heads=8,kv_heads=4,rope_size=96";
  const std::string steps = ",seq=512,steps=3,optimizer=sgd";
  // Values are kept in the joint product, or in a cache of their own.
  CHECK(requested_peak("train:" + whole + steps + ",batch=4,kv_cache=none") == 1'506'243'896);
  CHECK(requested_peak("train:" + part + steps + ",batch=4") == 1'651'806'648);
  CHECK(requested_peak("train:" + part + steps + ",batch=4,checkpoint=full") == 1'343'283'592);
  CHECK(requested_peak("train:" + part + steps + ",batch=3,attention=eager") == 1'493'387'656);
  CHECK(requested_peak("train:" + grouped + steps + ",batch=4,kv_cache=none") == 1'589'409'032);
  CHECK(requested_peak("train:" + grouped +
                       ",seq=700,steps=3,optimizer=sgd,batch=1,kv_cache=none") == 721'185'912);
  CHECK(requested_peak("infer:" + part +
                       ",requests=3,batches=2/1,seq=300/200,answers=12/8,precision=fp32") ==
        452'794'028);
}

TEST_CASE("adapters of a Phi 3 stand at its joint products") {
  const std::string lora =
      "train:phi-4-mini,layers=1,batch=1,seq=16,steps=2,precision=bf16,optimizer=sgd_momentum,"
      "lora=8,lora_targets=";
  // A momentum of four bytes for each element of both matrices.
  const auto width = [&](const std::string& targets) {
    return kind_peak(lora + targets, TensorKind::OptimizerState) / 4 / 8;
  };
  const std::uint64_t joint = 3072 + (3072 + 2 * 1024);
  const std::uint64_t output = 3072 + 3072;
  const std::uint64_t mlp = (3072 + 2 * 8192) + (8192 + 3072);
  CHECK(width("qv") == joint);
  CHECK(width("attention") == joint + output);
  CHECK(width("mlp") == mlp);
  CHECK(width("all") == joint + output + mlp);
}

TEST_CASE("a Phi 3 refuses what is not generated for joint products") {
  CHECK(mentions(refusal_of("train:phi-3-mini,tp=2"), "1 for phi-3-mini"));
  CHECK(mentions(refusal_of("infer:phi-3-mini,tp=2"), "1 for phi-3-mini"));
  CHECK(mentions(refusal_of("train:phi-3-mini,cp=2"), "1 for Phi models"));
  CHECK(mentions(refusal_of("train:phi-3-mini,implementation=megatron"), "transformers for"));
  CHECK(mentions(refusal_of("train:phi-4-mini,rope_size=130"), "up to head_size = 128"));
  CHECK(mentions(refusal_of("train:phi-4-mini,rope_size=95"), "an even number"));
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
  CHECK(requested_peak(model + ",query_rank=0,seq=700,layers=3,dense_layers=1") == 1'717'382'356);
  CHECK(mentions(refusal_of(narrow + ",rope_size=192"), "less than head_size"));
  CHECK(mentions(refusal_of("train:deepseek-v3,layers=2,expert_count=8"), "at least 16"));
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
