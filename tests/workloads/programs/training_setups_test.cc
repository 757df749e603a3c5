// Training set-ups of generator train: what memory that parallel ranks share, leaks, and what is
// refused.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

TraceSummary summary_of(const std::string& workload) {
  return summarize(*open_workload("train:" + workload, 1));
}

std::uint64_t peak_of(const std::string& workload) {
  return summary_of(workload).requested_bytes_peak;
}

std::uint64_t kind_peak_of(const std::string& workload, TensorKind kind) {
  return summary_of(workload).tensor_bytes_peak[static_cast<std::size_t>(kind)];
}

}  // namespace

TEST_CASE("every set-up is a valid trace that gives everything back") {
  const std::string small = ",batch=2,steps=3,kernels=1,layers=4,hidden=128,ffn=256,";
  const std::string text = ",vocabulary=1000,seq=32,";
  const std::string models[] = {"gpt2-124m" + small + "heads=4" + text,
                                "llama-3-8b" + small + "heads=8,kv_heads=4" + text,
                                "bert-base" + small + "heads=4" + text,
                                "mixtral-8x7b" + small + "heads=8,kv_heads=4" + text,
                                "t5-small" + small + "heads=4,target=16" + text,
                                "dit-s" + small + "heads=4,image=16,patch=4,",
                                "vit-base" + small + "heads=4,image=32,patch=8,"};
  const std::string setups[] = {
      "dp=2",
      "dp=3,bucket_view=1,bucket_mb=1",
      "dp=2,zero=1,precision=bf16,reduce_elements=1000",
      "dp=2,zero=2,precision=bf16,reduce_elements=100000",
      "dp=4,rank=3,zero=3,precision=bf16",
      "dp=2,zero=1,sharder=torch,clip=1",
      "dp=3,fsdp=1,rank=2",
      "dp=3,fsdp=2,rank=1,reshard=0",
      "dp=2,fsdp=2,prefetch=0,save_every=1,save=gathered",
      "dp=2,fsdp=1,precision=fp32,gathered=bf16,eval_every=1",
      "tp=2",
      "tp=4,dp=2,rank=7",
      "tp=2,sp=1,checkpoint=full",
      "pp=2",
      "pp=4,rank=3,micro_batches=6",
      "pp=2,virtual=2,micro_batches=4,checkpoint=full",
      "tp=2,pp=2,dp=2,rank=5,micro_batches=3",
      "checkpoint=full,checkpoint_blocks=3",
      "checkpoint=full,checkpoint_every=3",
      "checkpoint=full,reentrant=1,checkpoint_blocks=2",
      "checkpoint=full,reentrant=1,pp=2,virtual=2",
      "checkpoint=full,reentrant=1,dp=2,fsdp=2",
      "checkpoint=selective,attention=fused",
      "checkpoint=keep_products",
      "optimizer=adamw_8bit,clip=1",
      "optimizer=sgd_momentum",
      "optimizer=adamw_loop",
      "eval_every=2,eval_grad=1",
      "eval_every=1,eval_grad=1,keep_eval_losses=1",
      "keep_losses=1",
      "keep_outputs=1",
      "zero_grad=never",
      "zero_grad=zeros",
      "zero_grad=before_backward",
      "save_every=1,save=cast",
      "resume=device,resume_at=1",
      "resume=host",
      "lora=4",
      "lora=4,quantize=nf4,precision=bf16,checkpoint=full",
      "implementation=megatron,tp=2,sp=1,pp=2,virtual=2,micro_batches=4,checkpoint=selective",
      "implementation=megatron,dp=3,zero=1,attention=fused",
      "implementation=megatron,checkpoint=full"};
  std::size_t runs = 0;
  for (const std::string& model : models) {
    for (const std::string& setup : setups) {
      const std::string workload = model + setup;
      INFO(workload);
      try {
        const TraceSummary summary = summary_of(workload);
        CHECK(summary.leftover_count == 0);
        ++runs;
      } catch (const UsageError& error) {
        // Not every model can do everything: each refusal names a rule.
        CHECK(mentions(error.what(), "wanted"));
      }
    }
  }
  CHECK(runs >= 190);
}

// The hashes were also computed apart in Python from the written files.
TEST_CASE("set-ups give the same bytes on every machine") {
  struct Golden {
    std::string workload;
    std::uint64_t hash, events, peak;
  };
  const Golden goldens[] = {
      {"train:gpt2-124m,layers=4,batch=2,seq=64,steps=3,dp=8,rank=3,kernels=1,attention=eager",
       0x286aab10899f3e36u, 5199, 1693842436},
      {"train:gpt2-124m,layers=4,batch=2,seq=64,steps=2,dp=4,zero=2,precision=bf16,reduce_elements="
       "1000000,attention=eager",
       0xc2470cb162776cd6u, 1583, 640426888},
      {"train:llama-3-8b,layers=4,hidden=512,ffn=1024,vocabulary=1000,batch=2,seq=64,steps=2,dp=4,"
       "rank=1,zero=3,precision=bf16,attention=eager",
       0xce511fd23fed3e7cu, 3096, 1163698212},
      {"train:llama-3-8b,layers=4,hidden=512,ffn=1024,vocabulary=1000,batch=2,seq=64,steps=2,dp=4,"
       "fsdp=2,initialize=whole,precision=fp32,gathered=bf16,kernels=1,attention=eager",
       0x5e2ac308574ad55fu, 4543, 137380936},
      {"train:gpt2-124m,layers=4,batch=2,seq=64,steps=2,dp=3,rank=2,fsdp=1,checkpoint=full,"
       "attention=eager",
       0x13ad16c9496cc404u, 3054, 850580488},
      {"train:llama-3-8b,layers=4,hidden=512,ffn=1024,vocabulary=1000,batch=2,seq=64,steps=2,tp=4,"
       "sp=1,kernels=1,attention=eager",
       0x96a296de32823335u, 5349, 118423108},
      {"train:gpt2-124m,batch=1,seq=64,steps=2,pp=2,virtual=3,micro_batches=4,rank=1,attention="
       "eager",
       0x39e26c871e8d5518u, 11860, 1816868372},
      {"train:gpt2-124m,batch=2,seq=64,steps=2,implementation=megatron,tp=4,sp=1,pp=2,dp=2,zero=1,"
       "rank=11,micro_batches=5,checkpoint=selective",
       0xa83e7f5ff38445dfu, 8504, 340009752},
      {"train:llama-3-8b,layers=2,hidden=512,ffn=1024,vocabulary=1000,batch=2,seq=64,lengths="
       "lognormal,steps=3,precision=bf16,lora=8,quantize=nf4,checkpoint=full,reentrant=1,attention="
       "eager",
       0xdc2842fdba0b02f0u, 3719, 77856800},
      {"train:gpt2-124m,layers=2,batch=2,seq=64,steps=4,optimizer=adamw_8bit,clip=1,eval_every=2,"
       "eval_grad=1,save_every=2,save=cast,resume=device,keep_outputs=1,attention=eager",
       0x64b1f1cfba93c077u, 4856, 811819424},
  };
  for (const Golden& golden : goldens) {
    INFO(golden.workload);
    const std::unique_ptr<EventSource> source = open_workload(golden.workload, 1);
    for (int pass = 0; pass < 2; ++pass) {
      const TraceSummary summary = summarize(*source);
      CHECK(summary.hash == golden.hash);
      CHECK(summary.event_count == golden.events);
      CHECK(summary.requested_bytes_peak == golden.peak);
      source->rewind();
    }
  }
}

TEST_CASE("ranks share what their set-up says") {
  const std::string model = "gpt2-355m,batch=1,seq=64,steps=2,precision=bf16";
  const std::uint64_t states = kind_peak_of(model, TensorKind::OptimizerState);
  CHECK(kind_peak_of(model + ",dp=4", TensorKind::OptimizerState) == states);
  // DeepSpeed's states have four bytes, and a third one for the parameters.
  CHECK(kind_peak_of(model + ",dp=4,zero=1", TensorKind::OptimizerState) == states * 3 / 4);
  const std::uint64_t sharded = kind_peak_of(model + ",dp=4,fsdp=2", TensorKind::OptimizerState);
  CHECK(sharded < states / 4 + 200'000);
  CHECK(sharded >= states / 4);
  const std::uint64_t parameters = kind_peak_of(model, TensorKind::Parameter);
  CHECK(kind_peak_of(model + ",tp=4", TensorKind::Parameter) < parameters * 3 / 10);
  CHECK(kind_peak_of(model + ",pp=4", TensorKind::Parameter) < parameters / 2);
}

TEST_CASE("a model that is made in shards is never whole on one device") {
  const std::string model =
      "llama-3-70b,layers=8,batch=1,seq=128,steps=1,dp=64,checkpoint=full,attention=fused,";
  const std::string wide = "precision=fp32,gathered=bf16,";
  // Per block 855,654,400 elements; two tables of 128,256 x 8192, and a norm.
  const std::uint64_t table = 128'256u * 8192u;
  const std::uint64_t elements = std::uint64_t{8} * 855'654'400 + 2 * table + 8192;
  const auto start_of = [](const std::string& workload) {
    // What lives when the first step begins.
    std::map<std::uint64_t, std::uint64_t> live;
    std::uint64_t bytes = 0, peak = 0, marks = 0;
    for (const Event& event : read_all(*open_workload("train:" + workload, 1))) {
      if (event.kind == EventKind::Mark && ++marks == 2) break;
      if (event.kind == EventKind::Alloc) bytes += live[event.id] = event.size_bytes;
      if (event.kind == EventKind::Free) bytes -= live[event.id];
      peak = std::max(peak, bytes);
    }
    return std::array<std::uint64_t, 2>{bytes, peak};
  };
  const auto near = [](std::uint64_t got, std::uint64_t wanted) {
    return got >= wanted && got < wanted + (1u << 20);
  };
  const auto single = start_of(model + wide + "fsdp=2");
  CHECK(near(single[0], elements / 64 * 4));
  CHECK(near(single[1], elements / 64 * 4));
  // Tables and their flat parameter beside all shards of the blocks.
  const auto flat = start_of(model + wide + "fsdp=1");
  CHECK(near(flat[0], elements / 64 * 4));
  CHECK(near(flat[1], elements / 64 * 4 + 2 * 2 * table * 4));
  // Shards of two bytes, masters of four, gradients of two; each parameter is gathered once.
  const auto zero = start_of(model + "precision=bf16,zero=3,reduce_elements=1");
  CHECK(near(zero[0], elements / 64 * (2 + 4 + 2)));
  CHECK(near(zero[1], elements / 64 * (2 + 4 + 2) + table * 2));
  CHECK(start_of(model + wide + "fsdp=2,initialize=whole")[1] > elements * 4);
}

TEST_CASE("stages may have different numbers of blocks") {
  // 24 blocks of 12,596,224 elements, in two bytes each.
  const std::string model = "gpt2-355m,batch=1,seq=64,steps=1,precision=bf16,pp=3,";
  const auto parameters_of = [&model](const std::string& keys) {
    return kind_peak_of(model + keys, TensorKind::Parameter);
  };
  const std::uint64_t block = 12'596'224ull * 2;
  CHECK(parameters_of("rank=1,stage_layers=7/9/8") == parameters_of("rank=1") + block);
  CHECK(parameters_of("rank=0,stage_layers=7/9/8") == parameters_of("rank=0") - block);
  CHECK(parameters_of("rank=1") == 8 * block);
  CHECK(kind_peak_of("gpt2-355m,batch=1,seq=64,steps=1,precision=bf16,pp=5,rank=4,"
                     "stage_layers=5/5/5/5/4",
                     TensorKind::Parameter) > 4 * block);
}

TEST_CASE("leaks leave what they leave") {
  const std::string model = "gpt2-124m,batch=2,seq=256,steps=3";
  const std::uint64_t none = peak_of(model + ",eval_every=1");
  const std::uint64_t graph = peak_of(model + ",eval_every=1,eval_grad=1");
  CHECK(graph > none + (std::uint64_t{500} << 20));
  CHECK(peak_of(model + ",eval_every=1,eval_grad=1,keep_eval_losses=1") >
        graph + (std::uint64_t{1} << 30));
  // One number of four bytes per step, and logits of two bytes.
  CHECK(peak_of(model + ",keep_losses=1") == peak_of(model) + 2 * 4);
  CHECK(peak_of(model + ",keep_outputs=1") >= peak_of(model) + 2 * 512 * 50257 * 2);
  for (const char* other : {"vit-base", "t5-small", "bert-base", "mixtral-8x7b,hidden=64,ffn=96"}) {
    const std::string small = std::string(other) + ",layers=1,batch=2,steps=3";
    INFO(small);
    CHECK(kind_peak_of(small + ",keep_outputs=1", TensorKind::Activation) >
          kind_peak_of(small, TensorKind::Activation));
  }
  CHECK(kind_peak_of(model + ",zero_grad=never", TensorKind::Gradient) ==
        kind_peak_of(model + ",zero_grad=zeros", TensorKind::Gradient));
  CHECK(kind_peak_of(model + ",zero_grad=never", TensorKind::Gradient) >
        kind_peak_of(model, TensorKind::Gradient));
}

TEST_CASE("weights in 4 bits take the bytes of bitsandbytes' format") {
  // q, k, v, o: 65536 elements each; gate, up, down: 131072. Packed halves, 16 values (64), mean
  // (4), a nested scale (4) per 256 scales, a scale (1) per 64 elements, 256 values (1024); these
  // values once more for all.
  const std::uint64_t small = 32768 + 64 + 4 + 16 + 1024 + 1024;
  const std::uint64_t large = 65536 + 64 + 4 + 32 + 2048 + 1024;
  const std::uint64_t whole = 2 * 1000 * 256 * 2 + 3 * 256 * 2;  // table, head, norms
  const std::uint64_t adapters = 4 * 1024 * 4 + 1024 * 2;  // the last one is still there twice
  CHECK(kind_peak_of("llama-2-7b,layers=1,hidden=256,heads=4,ffn=512,vocabulary=1000,batch=1,"
                     "seq=32,steps=1,precision=bf16,lora=4,quantize=nf4",
                     TensorKind::Parameter) == 4 * small + 3 * large + 1024 + whole + adapters);
}

TEST_CASE("collective operations have streams, kernels, records and a kind") {
  const auto counts_of = [](const std::string& workload) {
    std::array<std::uint64_t, 4> kernels{};
    std::uint64_t records = 0, buffers = 0;
    for (const Event& event : read_all(*open_workload("train:" + workload, 1))) {
      if (event.kind == EventKind::Kernel) ++kernels.at(event.stream);
      if (event.kind == EventKind::Record) ++records;
      if (event.tensor == TensorKind::Communication) ++buffers;
    }
    return std::array<std::uint64_t, 6>{kernels[0], kernels[1], kernels[2],
                                        kernels[3], records,    buffers};
  };
  const std::string model = "gpt2-124m,layers=2,batch=1,seq=32,steps=2,kernels=1";
  const auto alone = counts_of(model);
  CHECK((alone[1] + alone[2] + alone[3] + alone[4] + alone[5]) == 0);
  // Three units, gathered in both directions but for the root, and reduced; two steps.
  const auto single = counts_of(model + ",dp=2,fsdp=2");
  CHECK(single == std::array<std::uint64_t, 6>{496, 10, 6, 0, 0, 16});
  CHECK(alone[0] > single[0]);
  const auto flat = counts_of(model + ",dp=2,fsdp=1");
  CHECK(flat == std::array<std::uint64_t, 6>{496, 0, 10, 6, 16, 0});
  CHECK(counts_of(model + ",dp=2,fsdp=1,record=0")[4] == 0);
  // Two blocks: four borders forward, four backward, and the tables' and logits'.
  CHECK(counts_of(model + ",tp=2")[1] == 2 * (4 + 4 + 3));
}

TEST_CASE("impossible set-ups are refused with key, value and rule") {
  const auto refuses = [](const std::string& workload, const char* key, const char* rule) {
    INFO(workload);
    const std::string error = refusal_of("train:" + workload);
    INFO(error);
    CHECK(mentions(error, "bad value of key '" + std::string(key) + "'"));
    CHECK(mentions(error, rule));
  };
  refuses("gpt2-124m,tp=5", "tp", "a divisor of heads = 12");
  refuses("llama-3-8b,tp=16", "tp", "a divisor of kv_heads = 8");
  refuses("gpt2-124m,ffn=3074,tp=4", "tp", "a divisor of ffn = 3074");
  refuses("gpt2-124m,pp=5", "pp", "pp * virtual a divisor of layers = 12");
  refuses("gpt2-124m,pp=2,stage_layers=7/6", "stage_layers", "sum is layers = 12");
  refuses("gpt2-124m,pp=2,stage_layers=4/4/4", "stage_layers", "pp = 2 numbers");
  refuses("gpt2-124m,pp=2,virtual=5", "virtual", "a divisor of layers = 12");
  refuses("gpt2-124m,pp=4,virtual=3,micro_batches=6", "micro_batches", "a multiple of pp = 4");
  refuses("gpt2-124m,batch=8,dp=2,global_batch=40", "global_batch", "batch * dp = 16");
  refuses("gpt2-124m,pp=2,accumulate=4,micro_batches=8", "accumulate", "micro_batches = 8");
  refuses("gpt2-124m,pp=2,lengths=lognormal", "pp", "1 where lengths are drawn");
  refuses("gpt2-124m,pp=2,seq=8/16", "pp", "1 where seq has several lengths");
  refuses("gpt2-124m,tp=2,rank=2", "rank", "a whole number from 0 to 1");
  refuses("gpt2-124m,sp=1", "sp", "0 where tp is 1");
  refuses("gpt2-124m,sp=1,tp=2", "sp", "a Llama model");
  refuses("llama-3-8b,tp=8,sp=1,seq=1001", "seq", "a multiple of tp = 8");
  refuses("bert-base,pp=2", "pp", "1 for BERT models");
  refuses("gpt2-124m,fsdp=2", "fsdp", "0 where dp is 1");
  refuses("gpt2-124m,zero=1,sharder=torch", "zero", "0 where dp is 1");
  refuses("gpt2-124m,implementation=megatron,zero=1", "zero", "0 where dp is 1");
  refuses("gpt2-124m,tp=2,zero=1,precision=bf16", "zero", "0 where dp is 1");
  refuses("gpt2-124m,dp=2,zero=3,fsdp=2", "fsdp", "0 where zero = 3");
  refuses("gpt2-124m,dp=2,zero=2", "precision", "DeepSpeed casts the model");
  refuses("gpt2-124m,dp=2,fsdp=2,gathered=bf16", "gathered", "precision=fp32");
  refuses("gpt2-124m,dp=2,pp=2,fsdp=1", "fsdp", "at most zero=1 where pp > 1");
  refuses("gpt2-124m,checkpoint=full,checkpoint_every=2,checkpoint_blocks=2", "checkpoint_blocks",
          "1 where checkpoint_every");
  refuses("gpt2-124m,dp=2,fsdp=2,checkpoint=full,checkpoint_blocks=2", "checkpoint_blocks",
          "1 where zero=3 or fsdp");
  refuses("llama-3-8b,lora=8,tp=2", "lora", "0 where tp or pp is above 1");
  refuses("llama-3-8b,lora=8,quantize=nf4,precision=fp32", "quantize", "precision=bf16");
  refuses("bert-base,implementation=megatron", "implementation", "transformers for BERT");
  refuses("gpt2-124m,implementation=megatron,precision=fp32", "precision", "one of bf16");
  refuses("gpt2-124m,implementation=megatron,dp=2,zero=3", "zero", "distributed optimizer");
  refuses("gpt2-124m,implementation=megatron,optimizer=sgd", "optimizer", "one of adamw");
  refuses("gpt2-124m,implementation=megatron,clip=1", "clip", "0 where implementation=megatron");
  refuses("gpt2-124m,implementation=megatron,zero_grad=never", "zero_grad", "got never");
  refuses("gpt2-124m,implementation=megatron,resume=host", "resume", "got host");
  refuses("gpt2-124m,dp=2,zero=2,precision=bf16,zero_grad=zeros", "zero_grad", "DeepSpeed's step");
  refuses("gpt2-124m,dp=2,fsdp=1,zero_grad=before_backward", "zero_grad", "where fsdp=1");
  refuses("gpt2-124m,pp=2,tp=2,keep_losses=1", "keep_losses", "rank = 2 or above");
  refuses("gpt2-124m,pp=2,rank=0,keep_outputs=1", "keep_outputs", "rank = 1 or above");
  refuses("t5-small,pp=4", "pp", "1 for t5-small");
  refuses("t5-small,tp=2", "tp", "1 for t5-small");
  refuses("vit-base,pp=2", "pp", "1 for vit-base");
  refuses("vit-base,tp=2", "tp", "1 for vit-base");
  refuses("mixtral-8x7b,tp=2", "tp", "1 for mixtral-8x7b");
  refuses("mixtral-8x7b,pp=2", "pp", "1 for mixtral-8x7b");
  refuses("mixtral-8x7b,implementation=megatron", "implementation", "got megatron");
  refuses("t5-small,checkpoint=full,checkpoint_blocks=2", "checkpoint_blocks", "1 for T5");
  refuses("t5-small,checkpoint=selective", "checkpoint", "none or full for T5");
  refuses("gpt2-124m,save_every=1,save=gathered", "save", "plain or cast");
  refuses("gpt2-124m,dp=2,fsdp=2,save_every=1,save=cast", "save", "plain or gathered");
  refuses("gpt2-124m,eval_every=1,keep_eval_losses=1", "keep_eval_losses", "eval_grad=1");
  refuses("gpt2-124m,pp=2,eval_every=1", "eval_every", "0 where pp > 1");
  refuses("gpt2-124m,steps=0", "steps", "to evaluate only");
  refuses("gpt2-124m,resume=host,steps=3,resume_at=3", "resume_at", "a whole number from 0 to 2");
  refuses("llama-3.1-405b,batch=4096,seq=131072,heads=1024,hidden=131072", "seq",
          "fewer than 2^62 bytes");
  CHECK(mentions(refusal_of("train:gpt2-124m,virtual=2"), "unknown key 'virtual'"));
  CHECK(mentions(refusal_of("train:gpt2-124m,dp=2,zeroo=1"), "did you mean 'zero'"));
}

// How often PyTorch 2.11 and transformers 5.17 asked for these sizes on simcuda
// (scripts/record/record_without_gpu.py gpt2_single_amp llama_single_bf16). Of one sequence the
// shifted labels are contiguous, and so are the values that attention gets without a KV cache: no
// copies.
TEST_CASE("a batch of one sequence copies neither labels nor gradients of values") {
  const auto count_of = [](const std::string& workload, std::uint64_t size_bytes) {
    const std::vector<std::uint64_t> sizes = sizes_of(workload);
    return std::count(sizes.begin(), sizes.end(), size_bytes);
  };
  const std::string gpt2 = "train:gpt2-124m,batch=1,seq=512,steps=3,attention=eager";
  CHECK(count_of(gpt2, 513 * 8) == 3);
  CHECK(count_of(gpt2, 512 * 8) == 21);
  const std::string llama =
      "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,batch=1,"
      "seq=1024,steps=3,precision=bf16,kv_cache=none,optimizer=adamw_fused";
  CHECK(count_of(llama, 1024 * 512 * 2) == 312);
}
