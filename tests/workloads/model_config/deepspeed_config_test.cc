// A DeepSpeed config as keys of `train`. The first is what the documentation of transformers gives
// for stage 3.
#include "workloads/model_config/deepspeed_config.h"

#include <string>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

constexpr const char* kTrainer = R"({
  "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000},
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto"}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "cpu", "pin_memory": true},
    "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
    "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true
  },
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "steps_per_print": 2000,
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "wall_clock_breakdown": false})";

DescribedWorkload read(const std::string& json) {
  return read_deepspeed_config(json, "ds_config.json");
}

std::string zero(const std::string& fields) {
  return read(R"({"zero_optimization": {)" + fields + "}}").text;
}

std::string refusal(const std::string& json) {
  return usage_error_of([&] { (void)read(json); });
}

}  // namespace

TEST_CASE("a config that the Trainer fills in gives its keys") {
  const DescribedWorkload config = read(kTrainer);
  CHECK(config.text ==
        "zero=3,zero_presets=trainer,live_elements=1000000000,reuse_elements=1000000000,"
        "group_elements=1000000000,overlap=1,offload=parameters,clip=1,optimizer=adamw_fused");
  CHECK(config.notes.empty());
}

TEST_CASE("what a config leaves out is DeepSpeed's preset, also beside \"auto\"") {
  CHECK(zero(R"("stage": 1)") == "zero=1,precision=fp32");
  CHECK(zero(R"("stage": 3, "reduce_bucket_size": "auto")") ==
        "zero=3,zero_presets=trainer,prefetch_elements=50000000,persistent_elements=100000,"
        "precision=fp32");
  CHECK(zero(R"("stage": 3, "prefetch_bucket_size": 7, "max_live_parameters": 2e9)") ==
        "zero=3,prefetch_elements=7,live_elements=2000000000,precision=fp32");
  CHECK(
      read(
          R"({"zero_optimization": {"stage": 3, "sub_group_size": 0}, "amp": {"enabled": "auto"}})")
          .text == "zero=3,group_elements=0,precision=fp32");
  // Stages 1 and 2 read none of the third's.
  CHECK(zero(R"("stage": 2, "stage3_max_live_parameters": 1, "reduce_bucket_size": 2e8)") ==
        "zero=2,reduce_elements=200000000,precision=fp32");
  CHECK(zero(R"("stage": 2, "offload_optimizer": {"device": "none"}, "cpu_offload": true,
                "overlap_comm": false)") == "zero=2,overlap=0,offload=states,precision=fp32");
}

TEST_CASE("batches, precisions and optimizers of a config") {
  const auto with = [](const std::string& fields) {
    return read(R"({"zero_optimization": {"stage": 2}, )" + fields + "}").text;
  };
  CHECK(with(R"("train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8,
                "train_batch_size": 256, "bf16": {"enabled": true})") ==
        "zero=2,batch=4,accumulate=8,precision=bf16");
  CHECK(with(R"("train_micro_batch_size_per_gpu": 4, "train_batch_size": 256,
                "bf16": {"enabled": "auto"}, "gradient_clipping": 0.5)") ==
        "zero=2,batch=4,global_batch=256,clip=1");
  CHECK(with(R"("gradient_clipping": 0.0, "optimizer": {"type": "Adam",
                "params": {"torch_adam": true}})") == "zero=2,precision=fp32,optimizer=adamw");
  CHECK(with(R"("optimizer": {"type": "SGD", "params": {"momentum": 0.9}})") ==
        "zero=2,precision=fp32,optimizer=sgd_momentum");
  CHECK(with(R"("optimizer": {"type": "SGD"})") == "zero=2,precision=fp32,optimizer=sgd");
  const DescribedWorkload half =
      read(R"({"zero_optimization": {"stage": 2, "round_robin_gradients": true},
               "activation_checkpointing": {"partition_activations": true},
               "fp16": {"enabled": true}})");
  CHECK(half.text == "zero=2,precision=bf16");
  REQUIRE(half.notes.size() == 3);
  CHECK(mentions(half.notes[0], "round_robin_gradients is left out"));
  CHECK(mentions(half.notes[1], "fp16 is taken as bf16"));
  CHECK(mentions(half.notes[2], "activation_checkpointing is left out"));
}

TEST_CASE("what is no such config, or is not generated, is refused with what is") {
  CHECK(mentions(refusal("{"), "no config of DeepSpeed"));
  CHECK(mentions(refusal("[]"), "no 'zero_optimization'"));
  CHECK(mentions(refusal(R"({"model_type": "llama"})"), "no 'zero_optimization'"));
  const auto zero_refusal = [](const std::string& fields) {
    return refusal(R"({"zero_optimization": {)" + fields + "}}");
  };
  CHECK(mentions(zero_refusal(""), "1, 2 or 3"));
  CHECK(mentions(zero_refusal(R"("stage": 0)"), "1, 2 or 3"));
  CHECK(mentions(zero_refusal(R"("stage": "auto")"), "'stage' cannot be used"));
  CHECK(mentions(zero_refusal(R"("stage": 2, "reduce_bucket_sise": 5)"),
                 "unknown field 'zero_optimization.reduce_bucket_sise'"));
  CHECK(mentions(zero_refusal(R"("stage": 2, "reduce_bucket_sise": 5)"), "'reduce_bucket_size'"));
  for (const char* value : {"-1", "0.5", "1e300", "\"many\"", "null", "[]", "true"}) {
    INFO(value);
    CHECK(mentions(zero_refusal(R"("stage": 2, "reduce_bucket_size": )" + std::string(value)),
                   "'reduce_bucket_size' cannot be used"));
  }
  // Nobody fills these in.
  CHECK(mentions(zero_refusal(R"("stage": 3, "sub_group_size": "auto")"), "from 0 on"));
  CHECK(mentions(zero_refusal(R"("stage": 2, "contiguous_gradients": false)"), "true"));
  CHECK(mentions(zero_refusal(R"("stage": 3, "zero_quantized_weights": true)"), "false"));
  CHECK(mentions(zero_refusal(R"("stage": 3, "zero_hpz_partition_size": 8)"), "'zero_hpz"));
  CHECK(mentions(zero_refusal(R"("stage": 3, "offload_optimizer": {"device": "nvme"})"),
                 "cpu or none"));
  CHECK(mentions(zero_refusal(R"("stage": 3, "offload_optimizer": "cpu")"), "an object"));
  CHECK(mentions(zero_refusal(R"("stage": 3, "offload_param": {"device": "cpu"})"),
                 "cpu where offload_param is on the host"));
  CHECK(mentions(zero_refusal(R"("stage": 3, "offload_optimizer": {"device": "cpu",
                                 "ratio": 0.5})"),
                 "'offload_optimizer.ratio' cannot be used"));
  CHECK(mentions(refusal(R"({"zero_optimization": {"stage": 2}, "amp": {"enabled": true}})"),
                 "'amp.enabled' cannot be used"));
  CHECK(mentions(refusal(R"({"zero_optimization": {"stage": 2}, "tensor_parallel": {}})"),
                 "unknown field 'tensor_parallel'"));
  CHECK(mentions(
      refusal(R"({"zero_optimization": {"stage": 2}, "optimizer": {"type": "OneBitAdam"}})"),
      "Adam, AdamW or SGD"));
}

TEST_CASE("a workload takes a config's keys where it names the file, and its own win") {
  const TemporaryFolder folder;
  const std::string path = folder.write("ds_config.json", kTrainer);
  const std::string model =
      "train:llama-3-8b,layers=2,hidden=256,heads=4,kv_heads=2,ffn=512,"
      "vocabulary=1000,batch=1,seq=64,steps=2,precision=bf16";
  const DescribedWorkload described =
      with_configs(model + ",deepspeed=" + path + ",dp=4,offload=none");
  CHECK(described.text == model +
                              ",dp=4,offload=none,zero=3,zero_presets=trainer,"
                              "live_elements=1000000000,reuse_elements=1000000000,"
                              "group_elements=1000000000,overlap=1,clip=1,optimizer=adamw_fused");
  CHECK(described.notes.empty());
  const DescribedWorkload alone = with_configs(model + ",deepspeed=" + path);
  REQUIRE(alone.notes.size() == 1);
  CHECK(mentions(alone.notes.front(), "does not say how many GPUs there are: this is one"));
  const auto peak_of = [](const std::string& text) {
    return summarize(*open_workload(text, 1)).requested_bytes_peak;
  };
  CHECK(peak_of(model + ",dp=4,deepspeed=" + path) ==
        peak_of(model + ",dp=4,zero=3,reduce_elements=65536,prefetch_elements=58982,"
                        "persistent_elements=2560,offload=parameters,clip=1,"
                        "optimizer=adamw_fused"));
  // Only `train` has it, and a file that is not there is named.
  CHECK(mentions(refusal_of("infer:gpt2-124m,deepspeed=" + path), "unknown key 'deepspeed'"));
  CHECK_THROWS_AS(with_configs(model + ",deepspeed=none.json"), FileError);
  for (const std::string& wrong : {std::string(), path + ",deepspeed=" + path}) {
    CHECK(mentions(refusal_of(model + ",deepspeed=" + wrong), "'deepspeed' names one file"));
  }
}
