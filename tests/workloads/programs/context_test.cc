// Goal: ranks that share every sequence (train's cp) ask for what PyTorch's context_parallel() asks
// for, keep their part of the activations, and refuse what it cannot do. Method: fingerprints of
// recordings, and counts of sizes that are worked out by hand.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/workloads/kind_peak.h"
#include "tests/workloads/sizes.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

// Three blocks, 4 x 768 tokens, 2 heads of 64 for keys and 6 for queries, two bytes.
const std::string kLlama =
    "train:llama-3-8b,layers=3,hidden=384,heads=6,kv_heads=2,ffn=1000,vocabulary=1000,batch=4,"
    "seq=768,steps=1,precision=bf16,kv_cache=none,";

}  // namespace

// PyTorch 2.11 and transformers 5.17 on simcuda, 2026-11-25: scripts/record/record_without_gpu.py
// --lone RANK NAME, with --check 1 for the last rank and for GPT-2, else 0. H200s asked for the
// same on rank 0 of each: references_test.cc.
TEST_CASE("context parallel ranks ask for the recorded sizes in the recorded order") {
  struct Recorded {
    std::string workload;
    std::uint64_t count, fingerprint;
  };
  const std::string llama =  // cp2_llama_bf16
      "train:llama-3-8b,layers=8,hidden=1536,heads=12,kv_heads=4,ffn=4096,vocabulary=32000,batch=2,"
      "seq=2048,steps=4,precision=fp32,gathered=bf16,kv_cache=none,cp=2,initialize=whole,rank=";
  const std::string gpt2 =  // cp2_gpt2_fp32
      "train:gpt2-124m,batch=4,seq=1024,steps=3,precision=fp32,attention_mask=ones,kv_cache=none,"
      "cp=2,initialize=whole,rank=";
  const std::string qwen =  // cp4_qwen3_bf16
      "train:qwen3-0.6b,layers=6,batch=1,seq=4096,steps=3,precision=bf16,checkpoint=full,optimizer="
      "adamw_fused,cp=4,rotate=alltoall,initialize=whole,rank=";
  const Recorded recorded[] = {
      {llama + "0", 6856, 0x81c7b8d79985a3c4u}, {llama + "1", 6692, 0xdb12c5f65da7a301u},
      {gpt2 + "0", 6439, 0x664ae54a82913ec4u},  {gpt2 + "1", 6259, 0x872c9b5f1851a71cu},
      {qwen + "0", 7943, 0x84e15b7464a667b2u},  {qwen + "1", 7871, 0xe21eb6b3301aab47u},
      {qwen + "2", 7799, 0x89c280af0b94ff3au},  {qwen + "3", 7646, 0xef8d90b3efa11362u},
  };
  for (const Recorded& each : recorded) {
    INFO(each.workload);
    const std::vector<std::uint64_t> sizes = sizes_of(each.workload);
    CHECK(sizes.size() == each.count);
    CHECK(fingerprint(sizes) == each.fingerprint);
  }
}

TEST_CASE("activations of a rank shrink as sequences are shared") {
  const auto activations = [](const std::string& keys) {
    return kind_peak(kLlama + keys, TensorKind::Activation);
  };
  const std::uint64_t whole = activations("dp=4,fsdp=2");
  for (const std::uint64_t ranks : {2, 4}) {
    // Besides its part a rank has whole batches, and attention's results twice.
    const std::uint64_t shared = activations("cp=" + std::to_string(ranks) + ",dp=2");
    CHECK(shared > whole / ranks);
    CHECK(shared < whole / ranks * 106 / 100);
  }
}

TEST_CASE("keys and values are gathered once in each direction, or passed on") {
  // On each of 4 ranks 4 x 192 tokens with 128 numbers of two bytes for keys and for values.
  const std::uint64_t pair = 2ull * 4 * 192 * 128 * 2;
  const std::vector<std::uint64_t> gathered = sizes_of(kLlama + "cp=4");
  const std::vector<std::uint64_t> passed = sizes_of(kLlama + "cp=4,rotate=alltoall");
  CHECK(count_of(gathered, 4 * pair) == 3 * 2);
  // Three joined pairs in each direction and block; passed on, three come back as well.
  CHECK(count_of(passed, 4 * pair) == 0);
  CHECK(count_of(passed, pair) == count_of(gathered, pair) + 3 * 2 * 3);
  // Their gradients have four bytes: four are joined and four come, whatever `rotate` says.
  CHECK(count_of(gathered, 2 * pair) == 3 * (4 + 4));
  CHECK(count_of(passed, 2 * pair) == 3 * (4 + 4));
}

TEST_CASE("all ranks but the last make a mask that nobody uses") {
  // Booleans of 4 x 192 x 192 pairs: whether two tokens are of one text, and the result.
  const auto masks = [](const std::string& keys) {
    return count_of(sizes_of(kLlama + "cp=4," + keys), 4 * 192 * 192);
  };
  CHECK(masks("rank=0") == 2);
  CHECK(masks("rank=2") == 2);
  CHECK(masks("rank=3") == 0);
  CHECK(masks("rank=0,attention_mask=ones") == 0);
}

TEST_CASE("context parallel set-ups are valid traces that give everything back") {
  const std::string small = ",batch=2,steps=3,kernels=1,layers=4,hidden=128,vocabulary=1000,";
  const std::string models[] = {
      "gpt2-124m" + small + "heads=4,ffn=256,attention_mask=ones,seq=128,",
      "llama-3-8b" + small + "heads=8,kv_heads=4,ffn=256,seq=64,",
      "qwen3-0.6b" + small + "heads=8,kv_heads=1,ffn=256,seq=64,",
      "mixtral-8x7b" + small + "heads=8,kv_heads=8,ffn=256,seq=128,"};
  const std::string setups[] = {"cp=2",
                                "cp=4,rank=3,rotate=alltoall",
                                "cp=2,dp=3,rank=5,reshard=0",
                                "cp=2,precision=bf16,checkpoint=full",
                                "cp=2,checkpoint=full,reentrant=1",
                                "cp=2,checkpoint=selective,kv_cache=none",
                                "cp=2,accumulate=2,keep_batch=0",
                                "cp=2,eval_every=1,eval_batch=3,kv_cache=none",
                                "cp=2,eval_every=1,eval_grad=1,keep_eval_losses=1",
                                "cp=2,clip=1,save_every=1,save=gathered",
                                "cp=2,lora=4,precision=bf16"};
  for (const std::string& model : models) {
    for (const std::string& setup : setups) {
      INFO(model + setup);
      CHECK(summarize(*open_workload("train:" + model + setup, 1)).leftover_count == 0);
    }
  }
  CHECK_NOTHROW(open_workload("train:llama-3-8b,cp=2,tp=4,sp=1,seq=2048", 1));
  CHECK_NOTHROW(open_workload("train:gpt2-124m,cp=2,attention_mask=ones,precision=fp32", 1));
}

TEST_CASE("what context parallelism cannot be joined with is refused") {
  const auto refuses = [](const std::string& workload, const char* key, const char* rule) {
    INFO(workload);
    const std::string error = refusal_of("train:" + workload);
    CHECK(mentions(error, "bad value of key '" + std::string(key) + "'"));
    CHECK(mentions(error, rule));
  };
  refuses("bert-base,cp=2", "cp", "1 for bert-base");
  refuses("t5-small,cp=2", "cp", "causal attention without masks only");
  refuses("vit-base,cp=2", "cp", "1 for vit-base");
  refuses("llama-3-8b,cp=2,implementation=megatron", "cp", "where implementation=megatron");
  refuses("llama-3-8b,cp=2,pp=2", "cp", "1 where pp is above 1");
  refuses("llama-3-8b,cp=2,lengths=lognormal", "cp", "1 where lengths are drawn");
  refuses("llama-3-8b,cp=4,seq=1028", "seq", "a multiple of 8 = 2 x cp");
  refuses("llama-3-8b,cp=2,tp=4,sp=1,seq=1028", "seq", "a multiple of 16 = 2 x cp x tp where sp=1");
  refuses("llama-2-7b,cp=2,precision=fp32,seq=1032", "seq",
          "a multiple of 128 = 2 x cp x 32 where precision=fp32");
  refuses("llama-3-8b,cp=2,precision=fp32", "cp", "no kernel for grouped heads in four");
  refuses("llama-3-8b,cp=2,zero=3,precision=bf16", "zero", "0 where cp is above 1");
  refuses("llama-3-8b,cp=2,dp=2,fsdp=0", "fsdp", "2 where cp is above 1: accelerate");
  refuses("llama-3-8b,cp=2,fsdp=1", "fsdp", "2 where cp is above 1");
  refuses("llama-3-8b,cp=2,attention=eager", "cp", "attention=fused");
  refuses("llama-3-8b,cp=2,attention_mask=padding", "cp", "attention_mask=none or ones");
  refuses("gpt2-124m,cp=2", "cp", "attention_mask=ones for GPT-2");
  refuses("llama-3-8b,cp=2,checkpoint=keep_products", "cp", "checkpoint=none, full or selective");
  refuses("llama-3-8b,cp=2,loss_chunks=2", "cp", "loss_chunks=1");
  refuses("mixtral-8x7b,cp=2,ep=2", "cp", "ep=1");
  refuses("llama-3-8b,cp=2,vision=vit-base", "vision", "cp or dp is above 1");
  refuses("llama-3-8b,cp=2,rank=2", "rank", "a whole number from 0 to 1");
  CHECK(mentions(refusal_of("train:llama-3-8b,rotate=alltoall"), "unknown key 'rotate'"));
}
