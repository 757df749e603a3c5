// What programs do to need less memory: states on the host, a loss in chunks, a model shared by
// ranks that infer.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/workloads/kind_peak.h"
#include "tests/workloads/sizes.h"
#include "workloads/open_workload.h"
#include "workloads/trace/request_marks.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

std::uint64_t managed_bytes_of(const std::string& workload) {
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  std::uint64_t size_bytes = 0;
  for (auto batch = source->next(); !batch.empty(); batch = source->next()) {
    for (const Event& event : batch) {
      const bool is_mark = event.kind == EventKind::Mark;
      if (is_mark && mark_class_of(source->labels()[event.id]) == MarkClass::ManagedMemory) {
        size_bytes += event.size_bytes;
      }
    }
  }
  return size_bytes;
}

}  // namespace

TEST_CASE("an optimizer on the host leaves no states on the device") {
  const std::string model = "train:gpt2-124m,batch=1,seq=64,steps=2,precision=bf16,kv_cache=none";
  // 124,439,808 elements of two bytes: two states each.
  CHECK(kind_peak(model, TensorKind::OptimizerState) == 2 * 2 * 124'439'808);
  CHECK(kind_peak(model + ",offload=states", TensorKind::OptimizerState) == 0);
  CHECK(kind_peak(model + ",offload=gradients", TensorKind::OptimizerState) == 0);
  // Gradients stay until the step, or only until they are complete: the table's comes last.
  CHECK(kind_peak(model + ",offload=states", TensorKind::Gradient) > 2 * 124'439'808);
  CHECK(kind_peak(model + ",offload=gradients", TensorKind::Gradient) < 3 * 2 * 38'597'376 + 512);
  for (const char* zero : {",dp=4,zero=1", ",dp=4,zero=2"}) {
    INFO(zero);
    // A copy in four bytes and two states of a quarter, rounded up.
    CHECK(kind_peak(model + zero, TensorKind::OptimizerState) / 1000 == 3 * 124'439'808 / 1000);
    CHECK(kind_peak(model + zero + ",offload=states", TensorKind::OptimizerState) == 0);
  }
  CHECK(kind_peak(model + ",dp=4,zero=3,offload=states", TensorKind::OptimizerState) == 0);
}

// bitsandbytes 0.49.2, PyTorch 2.11 and transformers 5.17 on simcuda, 2026-11-27:
// scripts/record/record_without_gpu.py, a script that trains this Llama for three steps.
TEST_CASE("a paged optimizer's large states are in managed memory, its small ones in PyTorch's") {
  const std::string model =
      "train:llama-3-8b,layers=2,hidden=256,heads=4,kv_heads=4,ffn=512,vocabulary=1000,batch=2,"
      "seq=128,steps=3,precision=bf16,kv_cache=none,optimizer=";
  const auto states_of = [](const std::string& workload) {
    return kind_peak(workload, TensorKind::OptimizerState);
  };
  // Table and head have 256,000 elements, the MLPs' three 131,072; attention's four have 65,536
  // and five norms 256.
  const std::uint64_t large = 2 * 256'000 + 2 * 3 * 131'072;
  const std::uint64_t middle = 2 * 4 * 65'536, small = 5 * 256;
  CHECK(managed_bytes_of(model + "paged_adamw_8bit") == 2 * large);
  CHECK(managed_bytes_of(model + "paged_adamw_32bit") == 2 * 4 * large);
  CHECK(managed_bytes_of(model + "adamw_8bit") == 0);
  // Two tables; one scale of four bytes per 256 elements wherever states have one byte.
  const std::uint64_t scales = 2 * (large + middle) / 256 * 4;
  CHECK(states_of(model + "paged_adamw_8bit") == 2 * 1024 + 2 * middle + scales + 2 * 4 * small);
  CHECK(states_of(model + "paged_adamw_32bit") == 2 * 4 * (middle + small));
  CHECK(states_of(model + "adamw_8bit") ==
        2 * 1024 + 2 * (large + middle) + scales + 2 * 4 * small);
  const auto peak_of = [](const std::string& workload) {
    return summarize(*open_workload(workload, 1)).requested_bytes_peak;
  };
  CHECK(peak_of(model + "paged_adamw_8bit") == 80762152);
  CHECK(peak_of(model + "paged_adamw_32bit") == 83848872);
  CHECK(peak_of(model + "adamw_8bit") == 83359016);
  const auto steps_of = [&model](const std::string& optimizer, std::size_t count) {
    return fingerprint(last_large(sizes_of(model + optimizer), count));
  };
  CHECK(steps_of("paged_adamw_8bit", 821) == 0xf7eee38ea1bf69f9u);
  CHECK(steps_of("paged_adamw_32bit", 787) == 0x97e9adfe98c3d668u);
  CHECK(steps_of("adamw_8bit", 837) == 0xbd025ab9b705811eu);
}

TEST_CASE("states that are loaded are paged no more, and shards have none that are") {
  const std::string adapters =
      "train:llama-3-8b,layers=2,batch=1,seq=64,steps=2,lora=64,optimizer=";
  // q: 64 x 4096 and 4096 x 64, v: 64 x 4096; v's second, 1024 x 64, is too small.
  CHECK(managed_bytes_of(adapters + "paged_adamw_32bit") == 2 * 2 * 4 * 3 * 64 * 4096);
  CHECK(managed_bytes_of(adapters + "paged_adamw_32bit,resume=host") == 0);
  CHECK(kind_peak(adapters + "paged_adamw_32bit,resume=host", TensorKind::OptimizerState) ==
        2 * 2 * 4 * (3 * 64 * 4096 + 1024 * 64));
  const std::string paged = "train:gpt2-124m,optimizer=paged_adamw_8bit,";
  CHECK(mentions(refusal_of(paged + "dp=2,fsdp=2"), "not paged where zero or fsdp"));
  CHECK(mentions(refusal_of(paged + "dp=2,zero=2,precision=bf16"), "not paged where zero or fsdp"));
  CHECK(mentions(refusal_of(paged + "offload=states"), "not paged where offload"));
}

TEST_CASE("adapters alone are trained, in shards too") {
  const std::string model = "train:llama-3-8b,layers=8,batch=1,seq=64,steps=2,lora=16,";
  // q: 16 x 4096 and 4096 x 16; v: 16 x 4096 and 1024 x 16.
  const std::uint64_t adapters = 8ull * 16 * (4096 + 4096 + 4096 + 1024);
  const auto states_of = [](const std::string& workload) {
    return kind_peak(workload, TensorKind::OptimizerState);
  };
  CHECK(states_of(model + "precision=bf16") == adapters * 2 * 4);
  const std::string sharded = "precision=fp32,gathered=bf16,dp=4,fsdp=2,checkpoint=full";
  CHECK(states_of(model + sharded) == adapters * 2 * 4 / 4);
  // DeepSpeed's have a copy in four bytes of what is trained.
  CHECK(states_of(model + "precision=bf16,dp=4,zero=2") == adapters * 3 * 4 / 4);
  // Frozen shards are gathered as before, and only adapters' gradients are reduced.
  const std::uint64_t block = 4096ull * 4096 * 2 + 4096ull * 1024 * 2 + 3 * 4096ull * 14336;
  CHECK(kind_peak(model + sharded, TensorKind::Gradient) < block * 4);
  CHECK(kind_peak(model + sharded, TensorKind::Parameter) >
        (8 * block + 2 * 128'256ull * 4096) / 4 * 4);
  // GPT-2's joint projection: 768 x 16 and 16 x 2304.
  CHECK(states_of("train:gpt2-124m,batch=1,seq=32,steps=1,lora=16,precision=bf16") ==
        12ull * 16 * (768 + 2304) * 2 * 4);
  CHECK(states_of("train:bert-base,batch=1,seq=32,steps=1,lora=16,precision=bf16") ==
        12ull * 16 * 4 * 768 * 2 * 4);
  CHECK(mentions(refusal_of("train:llama-3-8b,lora=8,dp=2,fsdp=1"), "0 where fsdp=1"));
}

TEST_CASE("copies of the tables are trained beside adapters") {
  const std::string model =
      "train:llama-3-8b,layers=2,batch=1,seq=64,steps=2,lora=16,precision=bf16";
  const std::uint64_t adapters = 2ull * 16 * (4096 + 4096 + 4096 + 1024);
  const std::uint64_t table = 128'256ull * 4096;
  const std::string both = model + ",lora_trains=embeddings";
  // Two states of each, in the model's type.
  CHECK(kind_peak(both, TensorKind::OptimizerState) == adapters * 2 * 4 + 2 * table * 2 * 2);
  // The frozen ones stay.
  CHECK(kind_peak(both, TensorKind::Parameter) ==
        kind_peak(model, TensorKind::Parameter) + 2 * table * 2);
  CHECK(kind_peak(both + ",checkpoint=full", TensorKind::OptimizerState) ==
        kind_peak(both, TensorKind::OptimizerState));
  CHECK(mentions(refusal_of(both + ",dp=2,zero=2"), "adapters where zero or fsdp is given"));
}

TEST_CASE("DeepSpeed's third stage steps by groups of 1e9 elements") {
  const std::string model =
      "train:llama-3-8b,batch=1,seq=64,steps=2,precision=bf16,optimizer=adamw_fused,dp=2,zero=3";
  // Each rank has half of all elements, and its gradients in two bytes. A group ends with a whole
  // parameter: the largest has the table and seven blocks, without the last one's norms.
  const std::uint64_t own = 8'030'261'248ull / 2;
  const std::uint64_t largest = (128'256ull * 4096 + 7 * 218'103'808ull + 6 * 2 * 4096) / 2;
  const std::uint64_t step = own * 2 + largest * (2 + 4);
  const std::uint64_t found = kind_peak(model, TensorKind::Gradient);
  CHECK(found >= step);
  CHECK(found < step + (4u << 20));
}

TEST_CASE("Liger's blocks save gate and up, and overwrite them") {
  const std::string model =
      "train:llama-3-8b,layers=2,batch=2,seq=128,steps=2,precision=bf16,kv_cache=none,liger=";
  // 256 tokens of 14,336 numbers in two bytes: gate, silu, up and product, and a gradient of each.
  const std::uint64_t inner = 256ull * 14'336 * 2;
  CHECK(count_of(sizes_of(model + "none"), inner) == 2 * 2 * 8);
  CHECK(count_of(sizes_of(model + "blocks"), inner) == 2 * 2 * 4);
  // Norms cast nothing to four bytes.
  const std::uint64_t wide = 256ull * 4096 * 4;
  CHECK(count_of(sizes_of(model + "none"), wide) > 2 * 2 * 8);
  CHECK(count_of(sizes_of(model + "blocks"), wide) == 0);
  CHECK(mentions(refusal_of(model + "blocks,dp=2,tp=2"), "none where tp or cp is above 1"));
  CHECK(mentions(refusal_of("train:qwen3-0.6b,liger=blocks"), "norms of heads"));
}

// PyTorch 2.13, transformers 5.13.1 and Liger-Kernel 0.8.5 on simcuda, 2026-11-26:
// scripts/record/record_without_gpu.py --card h100. Of the third step, without what is below 1 KiB,
// which the rotation of that release of transformers asks for less often.
TEST_CASE("Liger's operators ask for the recorded sizes in the recorded order") {
  const std::string model =
      "train:llama-3-8b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,batch=4,"
      "seq=512,steps=3,precision=bf16,kv_cache=none,optimizer=adamw_fused,liger=";
  CHECK(fingerprint(last_large(sizes_of(model + "blocks"), 203)) == 0xa1ea278dd7baef53u);
  CHECK(fingerprint(last_large(sizes_of(model + "all"), 201)) == 0xe12a522b082c4d8au);
}

TEST_CASE("Liger's loss has scores of a part of the tokens, and gradients in the forward") {
  const std::string model =
      "train:llama-3-8b,layers=2,batch=2,seq=128,steps=2,precision=bf16,kv_cache=none,liger=all";
  const std::vector<std::uint64_t> sizes = sizes_of(model);
  // 256 tokens in 32 parts, as words are 32 times the width.
  CHECK(count_of(sizes, 8ull * 128'256 * 2) == 2);
  CHECK(count_of(sizes, 256ull * 128'256 * 2) == 0);
  CHECK(count_of(sizes, 256ull * 128'256 * 4) == 0);
  // The head itself, its gradient of each step, and two states.
  CHECK(count_of(sizes, 128'256ull * 4096 * 2) >= 1 + 2 + 2);
  CHECK(mentions(refusal_of(model + ",loss_chunks=4"), "1 where liger=all"));
  CHECK(mentions(refusal_of(model + ",eval_every=1"), "none or blocks where eval_every"));
  CHECK(mentions(refusal_of("train:llama-3-8b,liger=all"), "where precision has autocast"));
}

TEST_CASE("a frozen model is in two bytes unless told otherwise") {
  const std::string model = "train:llama-3-8b,layers=2,batch=1,seq=64,steps=1,lora=16";
  const std::uint64_t preset = kind_peak(model, TensorKind::Parameter);
  CHECK(preset == kind_peak(model + ",precision=bf16", TensorKind::Parameter));
  CHECK(preset < kind_peak(model + ",precision=bf16_autocast", TensorKind::Parameter) * 6 / 10);
  CHECK(mentions(deciding_presets(model), "precision=bf16 (weights in two bytes)"));
  // Without adapters, and where it is said, nothing changes.
  const std::string whole = "train:llama-3-8b,layers=2,batch=1,seq=64,steps=1";
  CHECK(kind_peak(whole, TensorKind::Parameter) ==
        kind_peak(whole + ",precision=bf16_autocast", TensorKind::Parameter));
}

TEST_CASE("what decides the answer and was not given is told") {
  CHECK(deciding_presets("train:gpt2-124m") ==
        "precision=bf16_autocast (weights in four bytes), optimizer=adamw, batch=8, seq=1024, "
        "checkpoint=none");
  CHECK(deciding_presets("train:gpt2-124m,batch=2,seq=64,precision=bf16,optimizer=sgd,"
                         "checkpoint=full") == "");
  CHECK(mentions(deciding_presets("serve:llama-3-8b"), "kv_memory=16.0GiB"));
  CHECK(deciding_presets("gpt2_train_amp") == "");
  CHECK(mentions(deciding_presets("train:gpt2-124m then serve:gpt2-124m"), "; serve:gpt2-124m: "));
}

TEST_CASE("a loss in chunks never holds all logits") {
  const std::string model =
      "train:qwen2.5-0.5b,layers=1,batch=2,seq=512,steps=1,precision=bf16,optimizer=sgd";
  const auto logits_of = [](const std::string& workload) {
    std::uint64_t largest = 0;
    for (const Event& event : read_all(*open_workload(workload, 1))) {
      const bool is_made = event.kind == EventKind::Alloc;
      if (is_made && event.tensor == TensorKind::Activation) {
        largest = std::max(largest, event.size_bytes);
      }
    }
    return largest;
  };
  CHECK(logits_of(model) == 1024ull * 151'936 * 4);
  CHECK(logits_of(model + ",loss_chunks=8") == 128ull * 151'936 * 4);
  // 1,024 tokens in chunks of 147, the last one smaller.
  CHECK(logits_of(model + ",loss_chunks=7") == 147ull * 151'936 * 4);
}

// The first chunk casts the head, the others find its copy, and each recomputation casts again.
// What PyTorch 2.11 with transformers 5.17 asked for, `requested_bytes.all.peak`: 767,166,844.
TEST_CASE("under autocast a chunk of the loss adds its gradient to the first one's copy") {
  const std::string model =
      "train:llama-3-8b,layers=2,hidden=512,heads=8,kv_heads=2,ffn=1408,vocabulary=32000,batch=2,"
      "seq=512,steps=3,precision=bf16_autocast,kv_cache=none,optimizer=adamw_fused,loss_chunks=4";
  CHECK(summarize(*open_workload(model, 1)).requested_bytes_peak == 767'166'844);
  // Head and table, their two states, and their gradients of each step, in four bytes.
  const std::vector<std::uint64_t> sizes = sizes_of(model);
  CHECK(count_of(sizes, 32'000ull * 512 * 4) == 2 * (1 + 2 + 3));
}

TEST_CASE("ranks that infer share blocks and the head, but not the word table") {
  const std::uint64_t table = 128'256ull * 4096;
  const std::uint64_t block = 4096ull * 4096 * 2 + 4096ull * 1024 * 2 + 3 * 4096ull * 14336;
  const std::uint64_t norms = (2 * 32 + 1) * 4096;
  const std::string model = "llama-3-8b,requests=2,context_max=64,lengths=code,";
  CHECK(kind_peak("infer:" + model + "answers=3,tp=4", TensorKind::Parameter) ==
        2 * (table + table / 4 + 32 * block / 4 + norms));
  // vLLM shares the table, too.
  CHECK(kind_peak("serve:" + model + "generated_max=3,tp=4", TensorKind::Parameter) ==
        2 * (2 * table / 4 + 32 * block / 4 + norms));
  // Keys and values of two of eight heads: 3 tokens after at most 64.
  CHECK(kind_peak("infer:" + model + "answers=3,tp=4", TensorKind::KvCache) * 4 <=
        kind_peak("infer:" + model + "answers=3", TensorKind::KvCache) + 4096);
}

TEST_CASE("weights in 4 bits infer with less, and one row multiplies them packed") {
  const std::string model = "infer:llama-3-8b,layers=2,requests=1,batch=1,seq=9,answers=4";
  // Half a byte an element, a scale of a byte per 64, one of four per 256 of those, 1092 each.
  const auto packed = [](std::uint64_t count) {
    return count / 2 + count / 64 + count / 64 / 256 * 4 + 1092;
  };
  const std::uint64_t wide = 4096ull * 4096, grouped = 4096ull * 1024, inner = 4096ull * 14336;
  const std::uint64_t others = 2 * (2 * 128'256ull * 4096 + 5 * 4096);
  CHECK(kind_peak(model + ",quantize=nf4", TensorKind::Parameter) ==
        2 * (2 * packed(wide) + 2 * packed(grouped) + 3 * packed(inner)) + 1024 + others);
  const auto dequantized = [](const std::string& workload) {
    std::size_t count = 0;
    for (const Event& event : read_all(*open_workload(workload, 1))) {
      count += event.kind == EventKind::Alloc && event.tensor == TensorKind::Workspace &&
                       event.size_bytes == 2ull * 4096 * 14336
                   ? 1
                   : 0;
    }
    return count;
  };
  // Three inner matrices of two layers: when they are loaded, and for the prompt.
  CHECK(dequantized(model + ",quantize=nf4") == 2 * 3 * 2);
  CHECK(dequantized("infer:llama-3-8b,layers=2,requests=2,batch=2,seq=9,answers=4,quantize=nf4") ==
        2 * 3 * (1 + 4));
  CHECK(mentions(refusal_of("infer:llama-3-8b,quantize=nf4,precision=fp32"), "none where"));
}

TEST_CASE("ranks share experts and nothing else") {
  const std::string model = "train:mixtral-8x7b,layers=2,batch=1,seq=64,steps=1,precision=bf16,";
  const std::uint64_t attention = 4096ull * 4096 * 2 + 4096ull * 1024 * 2;
  const std::uint64_t expert = 3 * 4096ull * 14336;
  const std::uint64_t others = 2 * 32'000ull * 4096 + 5 * 4096 + 2 * 8 * 4096;
  for (const std::uint64_t ranks : {1, 2, 4, 8}) {
    CHECK(kind_peak(model + "optimizer=sgd,ep=" + std::to_string(ranks), TensorKind::Parameter) ==
          2 * (2 * (attention + 8 / ranks * expert) + others));
  }
  CHECK(mentions(refusal_of(model + "ep=3"), "a divisor of expert_count = 8"));
  CHECK(mentions(refusal_of(model + "ep=2,experts=loop"), "1 where experts=loop"));
  CHECK(mentions(refusal_of(model + "ep=2,dp=2"), "1, or fsdp=2 where dp is above 1"));
  // Eight ranks: two that share experts, for each of four that share data.
  CHECK_NOTHROW(open_workload(model + "ep=2,dp=4,fsdp=2,rank=7", 1));
  CHECK(mentions(refusal_of(model + "ep=2,dp=4,fsdp=2,rank=8"), "from 0 to 7"));
}

TEST_CASE("ways to save memory that contradict others are refused") {
  CHECK(mentions(refusal_of("train:gpt2-124m,dp=2,offload=states"), "DeepSpeed's zero"));
  CHECK(mentions(refusal_of("train:qwen2.5-0.5b,tp=2,dp=2"), "takes no tied DTensors"));
  CHECK(mentions(refusal_of("train:gpt2-124m,dp=2,zero=2,precision=bf16,offload=gradients"),
                 "states where zero is given"));
  CHECK(mentions(refusal_of("train:gpt2-124m,offload=gradients,clip=1"), "on the host"));
  CHECK(mentions(refusal_of("train:gpt2-124m,tp=2,loss_chunks=4"), "1 where tp is above 1"));
  CHECK(mentions(refusal_of("train:bert-base,loss_chunks=4"), "unknown key 'loss_chunks'"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,tp=2"), "1 but for Llama, Qwen and Mixtral"));
  CHECK(mentions(refusal_of("infer:qwen2.5-0.5b,tp=4"), "a divisor of heads = 14"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,tp=2,draft=llama-3-8b"), "none where tp"));
}

TEST_CASE("adapters are on the products that lora_targets names") {
  // What PEFT's own comparison counts of Llama-3.2-3B (huggingface/peft, method_comparison).
  const auto trained = [](const std::string& keys) {
    return kind_peak("train:llama-3.2-3b,batch=1,seq=16,steps=1,precision=bf16," + keys,
                     TensorKind::OptimizerState) /
           8;
  };
  CHECK(trained("lora=32") == 9'175'040);
  CHECK(trained("lora=32,lora_targets=qv") == 9'175'040);
  CHECK(trained("lora=10,lora_targets=mlp") == 9'461'760);
  // q: 3072 and 3072; k, v: 3072 and 1024; o: 3072 and 3072.
  CHECK(trained("lora=10,lora_targets=attention") == 28ull * 10 * (4 * 3072 + 2 * 4096));
  CHECK(trained("lora=10,lora_targets=all") ==
        trained("lora=10,lora_targets=attention") + trained("lora=10,lora_targets=mlp"));
  CHECK(mentions(refusal_of("train:mixtral-8x7b,lora=8,lora_targets=all"), "lora_targets"));
}

TEST_CASE("each adapter keeps its input in four bytes, and its low result, until its backward") {
  const std::string model =
      "train:llama-3-8b,layers=1,batch=1,seq=640,steps=1,precision=bf16,kv_cache=none,lora=16,"
      "vocabulary=999,lora_targets=";
  const auto count_of = [&](const std::string& targets, std::uint64_t size_bytes) {
    const std::vector<std::uint64_t> sizes = sizes_of(model + targets);
    return std::count(sizes.begin(), sizes.end(), size_bytes);
  };
  // The input of `down`, 640 x 14336 in four bytes, is cast once, and its gradient comes so.
  CHECK(count_of("attention", 640ull * 14'336 * 4) == 0);
  CHECK(count_of("mlp", 640ull * 14'336 * 4) > 0);
  // Low results, 640 x 16: three adapters have six products' results and their gradients.
  CHECK(count_of("mlp", 640ull * 16 * 4) == 3 * count_of("qv", 640ull * 16 * 4) / 2);
  CHECK(count_of("all", 640ull * 16 * 4) == 7 * count_of("qv", 640ull * 16 * 4) / 2);
}

TEST_CASE("a Llama whose head is tied has one table, and one gradient of it") {
  const std::string model = "train:llama-3-8b,layers=1,batch=1,seq=64,steps=1,precision=bf16,tied=";
  const std::uint64_t table = 128'256ull * 4096 * 2;
  CHECK(kind_peak(model + "0", TensorKind::Parameter) -
            kind_peak(model + "1", TensorKind::Parameter) ==
        table);
  CHECK(kind_peak(model + "0", TensorKind::OptimizerState) -
            kind_peak(model + "1", TensorKind::OptimizerState) ==
        2 * table);
  // The published count of parameters.
  CHECK(
      kind_peak("train:llama-3.2-3b,batch=1,seq=16,steps=1,precision=bf16", TensorKind::Parameter) /
          2 ==
      3'212'749'824);
  CHECK(
      kind_peak("train:llama-3.2-1b,batch=1,seq=16,steps=1,precision=bf16", TensorKind::Parameter) /
          2 ==
      1'235'814'400);
}

TEST_CASE("head_size is that of every head, whatever the model's width") {
  const std::string model =
      "train:llama-3-8b,layers=1,batch=1,seq=16,steps=1,precision=bf16,heads=32";
  // q and o have half as many elements with heads of 64 instead of 128, k and v too.
  CHECK(kind_peak(model + ",head_size=128", TensorKind::Parameter) -
            kind_peak(model + ",head_size=64", TensorKind::Parameter) ==
        (2ull * 4096 * 4096 + 2ull * 4096 * 1024) / 2 * 2);
}

// An H200 with PyTorch 2.11 and transformers 5.17, 2026-11-28 (scripts/record/described_job.py).
TEST_CASE("products that are kept are not computed again, nor attention in four bytes") {
  const std::string gpt2 =
      "train:gpt2-124m,layers=3,hidden=1024,heads=8,ffn=2048,vocabulary=1000,batch=2,seq=255,"
      "steps=3,precision=fp32,optimizer=sgd_momentum,checkpoint=keep_products,accumulate=2";
  const std::uint64_t kOneNumber = 4;  // the loss's variable lives a little longer there
  CHECK(summarize(*open_workload(gpt2, 1)).requested_bytes_peak == 492'599'252 - kOneNumber);
  const std::string qwen =
      "train:qwen2.5-0.5b,layers=4,hidden=256,heads=8,ffn=1024,kv_heads=4,head_size=32,tied=1,"
      "vocabulary=32000,batch=2,seq=256,steps=3,optimizer=sgd_momentum,checkpoint=keep_products";
  CHECK(summarize(*open_workload(qwen, 1)).requested_bytes_peak == 395'356'360);
}
