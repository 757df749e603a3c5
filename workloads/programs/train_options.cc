#include "workloads/programs/train_options.h"

#include <algorithm>
#include <string>

#include "workloads/programs/model_options.h"
#include "workloads/programs/train_keys.h"

namespace allocmark {
namespace {

// More than any device has; products of sizes stay far from 64 bits below it.
constexpr double kLiveBytesMax = 4.0e18;

void read_lengths(Parameters& parameters, TrainConfig* config) {
  const std::uint64_t positions = config->setup.model.positions;
  if (config->setup.model.image > 0) {
    config->sequences = {positions};
    config->lengths.context_max = positions;
    return;
  }
  const std::uint64_t longest = positions > 0 ? positions : 131'072;
  config->sequences = parameters.numbers("seq", positions > 0 ? positions : 2048, {1, longest});
  const std::size_t source = parameters.choice("lengths", {"fixed", "lognormal", "conv", "code"});
  config->draws_lengths = source != 0;
  LengthSettings& lengths = config->lengths;
  lengths.source = source == 1   ? LengthSource::Lognormal
                   : source == 2 ? LengthSource::Conversation
                                 : LengthSource::Code;
  lengths.context_max = *std::max_element(config->sequences.begin(), config->sequences.end());
  if (!config->draws_lengths) return;
  lengths.longest_percent = parameters.number("longest_percent", 0, {0, 100});
  if (source != 1) return;
  lengths.median = parameters.number("median", 500, {1, 100'000});
  lengths.sigma_percent = parameters.number("sigma_percent", 60, {0, 300});
}

void read_precision(Parameters& parameters, TrainConfig* config) {
  TransformerSetup& setup = config->setup;
  if (config->is_megatron()) {
    parameters.pick<void>("precision", {"bf16"});
    setup.autocast = false;
    setup.wide_bytes = setup.narrow_bytes = 2;
    return;
  }
  // A frozen model is loaded in bf16, as people load it for adapters.
  const std::string* const lora = parameters.given("lora");
  const std::string* const given = parameters.given("precision");
  const bool is_adapted = lora != nullptr && *lora != "0" && given == nullptr;
  const std::vector<std::string> names = {"bf16_autocast", "bf16", "fp32", "fp16_autocast",
                                          "bf16_weights_autocast"};
  const std::size_t precision = parameters.choice("precision", names, is_adapted ? 1 : 0);
  setup.autocast = precision == 0 || precision >= 3;
  setup.is_half = config->scales_loss = precision == 3;
  setup.wide_bytes = precision == 1 || precision == 4 ? 2 : 4;
  setup.narrow_bytes = precision == 2 ? 4 : 2;
}

// transformers runs scaled dot product attention unless told not to, Megatron-LM its own layers.
void read_attention(Parameters& parameters, TrainConfig* config) {
  const bool is_megatron = config->is_megatron();
  const std::size_t kind = is_megatron ? parameters.choice("attention", {"eager", "fused"})
                                       : parameters.choice("attention", {"fused", "eager"});
  config->setup.fused_attention = (kind == 0) != is_megatron;
  parameters.refuse_if(
      config->setup.implementation == Implementation::Timm && !config->setup.fused_attention,
      "attention", "fused where implementation=timm");
}

void read_checkpoint(Parameters& parameters, TrainConfig* config) {
  const std::size_t kind =
      parameters.choice("checkpoint", {"none", "full", "selective", "keep_products"});
  config->checkpointed = kind == 1 || kind == 3;
  config->keeps_products = kind == 3;
  parameters.refuse_if(config->keeps_products && config->is_megatron(), "checkpoint",
                       "none, full or selective where implementation=megatron");
  config->setup.recomputes_attention = kind == 2;
  if (!config->checkpointed) return;
  config->reentrant = config->is_megatron();
  if (!config->is_megatron() && !config->keeps_products) {
    config->reentrant = parameters.flag("reentrant", false);
  }
  parameters.refuse_if(config->reentrant && config->setup.model.family == ModelFamily::T5,
                       "reentrant", "0 for T5 models", 1);
  const std::uint64_t layers = config->setup.own_layer_count();
  config->checkpoint_every = parameters.number("checkpoint_every", 1, {1, 1024});
  config->checkpoint_blocks = parameters.number("checkpoint_blocks", 1, {1, layers});
  parameters.refuse_if(
      config->setup.model.family == ModelFamily::T5 && config->checkpoint_blocks > 1,
      "checkpoint_blocks", "1 for T5 models", config->checkpoint_blocks);
  parameters.refuse_if(config->checkpoint_every > 1 && config->checkpoint_blocks > 1,
                       "checkpoint_blocks", "1 where checkpoint_every is above 1",
                       config->checkpoint_blocks);
}

// Where gradients lie in buffers of the wrapper's own, zero_grad is not the program's to call.
void read_zero_grad(Parameters& parameters, TrainConfig* config) {
  config->zero_grad =
      parameters.pick<ZeroGrad>("zero_grad", {"after_step", "before_backward", "zeros", "never"});
  if (config->zero_grad == ZeroGrad::AfterStep) return;
  const DataParallelSettings& own = config->data_parallel;
  parameters.refuse_if(config->is_megatron(), "zero_grad",
                       "after_step where implementation=megatron");
  parameters.refuse_if(own.is_deepspeed(), "zero_grad",
                       "after_step where zero is given: DeepSpeed's step does it");
  parameters.refuse_if(
      own.kind == DataParallelKind::Fsdp1 && config->zero_grad == ZeroGrad::BeforeBackward,
      "zero_grad", "after_step, zeros or never where fsdp=1");
  parameters.refuse_if(own.bucket_view, "bucket_view", "0 where zero_grad is not after_step", 1);
}

void read_offload(Parameters& parameters, TrainConfig* config) {
  config->offload =
      parameters.pick<Offload>("offload", {"none", "states", "gradients", "parameters"});
  if (config->offload == Offload::None) return;
  DataParallelSettings& own = config->data_parallel;
  const bool is_deepspeed = own.is_deepspeed();
  const bool is_alone = own.kind == DataParallelKind::None;
  parameters.refuse_if(config->is_megatron() || !(is_alone || is_deepspeed), "offload",
                       "none, or implementation=transformers with dp=1 or DeepSpeed's zero");
  parameters.refuse_if(is_deepspeed && config->offload == Offload::Gradients, "offload",
                       "states where zero is given: DeepSpeed's gradients go too");
  own.offloads = is_deepspeed;
  own.offloads_parameters = config->offload == Offload::Parameters;
  parameters.refuse_if(own.offloads_parameters && own.kind != DataParallelKind::Zero3, "offload",
                       "parameters where zero=3, else none, states or gradients");
  parameters.refuse_if(
      config->offload == Offload::Gradients && config->zero_grad != ZeroGrad::AfterStep, "offload",
      "none or states where zero_grad is not after_step");
  parameters.refuse_if(config->clips && config->offload == Offload::Gradients, "clip",
                       "0 where gradients are on the host", 1);
  parameters.refuse_if(config->scales_loss, "offload", "none where precision=fp16_autocast");
}

void read_loss(Parameters& parameters, TrainConfig* config) {
  config->keeps_batch = parameters.flag("keep_batch", true);
  parameters.refuse_if(config->is_scheduled() && !config->keeps_batch, "keep_batch",
                       "1 where pp > 1: a schedule cuts a step's batch, and holds it", 0);
  const TransformerSetup& setup = config->setup;
  const bool is_causal = setup.model.family == ModelFamily::Gpt2 || setup.model.is_llama_like();
  if (config->is_megatron() || !is_causal) return;
  config->loss_chunks = parameters.number("loss_chunks", 1, {1, 1024});
  parameters.refuse_if(config->loss_chunks > 1 && setup.parallel.tensor > 1, "loss_chunks",
                       "1 where tp is above 1", config->loss_chunks);
  const bool needs_scores = config->keeps_outputs || config->eval_every > 0;
  parameters.refuse_if(config->loss_chunks > 1 && needs_scores, "loss_chunks",
                       "1 where eval_every or keep_outputs is given", config->loss_chunks);
  if (setup.liger != LigerParts::All) return;
  parameters.refuse_if(config->loss_chunks > 1, "loss_chunks", "1 where liger=all",
                       config->loss_chunks);
  parameters.refuse_if(needs_scores, "liger",
                       "none or blocks where eval_every or keep_outputs is given");
}

void read_optimizer(Parameters& parameters, TrainConfig* config) {
  if (config->is_megatron()) {  // its own, fused
    parameters.pick<void>("optimizer", {"adamw"});
  } else {
    config->optimizer = parameters.pick<OptimizerKind>(
        "optimizer", {"adamw", "adamw_fused", "sgd", "adamw_loop", "sgd_momentum", "adamw_8bit",
                      "paged_adamw_8bit", "paged_adamw_32bit"});
  }
  config->clips = parameters.flag("clip", false);
  parameters.refuse_if(config->is_megatron() && config->clips, "clip",
                       "0 where implementation=megatron", 1);
  read_zero_grad(parameters, config);
  read_offload(parameters, config);
  if (!is_paged(config->optimizer)) return;
  parameters.refuse_if(config->data_parallel.kind > DataParallelKind::Ddp, "optimizer",
                       "one that is not paged where zero or fsdp is given");
  parameters.refuse_if(config->offload != Offload::None, "optimizer",
                       "one that is not paged where offload is given");
}

void read_model_state(Parameters& parameters, TrainConfig* config) {
  config->save_every = parameters.number("save_every", 0, {0, 1'000'000});
  if (config->save_every > 0) {
    config->save = parameters.pick<SaveKind>("save", {"plain", "cast", "gathered"});
    const DataParallelKind kind = config->data_parallel.kind;
    const bool sharded = kind == DataParallelKind::Zero3 || kind == DataParallelKind::Fsdp1 ||
                         kind == DataParallelKind::Fsdp2;
    parameters.refuse_if(config->save == SaveKind::Gathered && !sharded, "save",
                         "plain or cast where parameters are whole (zero=3, fsdp)");
    parameters.refuse_if(config->save == SaveKind::Cast && sharded, "save",
                         "plain or gathered where parameters are sharded");
    parameters.refuse_if(
        config->save == SaveKind::Cast && config->setup.wide_bytes == 2 && config->lora.rank == 0,
        "save", "plain where parameters have two bytes already");
  }
  config->resume = parameters.pick<ResumeKind>("resume", {"none", "host", "device"});
  if (config->resume == ResumeKind::None) return;
  parameters.refuse_if(config->is_megatron(), "resume", "none where implementation=megatron");
  parameters.refuse_if(config->data_parallel.kind == DataParallelKind::Fsdp1, "resume",
                       "none where fsdp=1, whose loading is not modelled; fsdp=2 is");
  parameters.refuse_if(is_paged(config->optimizer) && config->resume == ResumeKind::Device,
                       "resume",
                       "host where the optimizer pages: bitsandbytes prefetches what is loaded to "
                       "the device as if it were managed memory, and ends the program");
  config->resume_at =
      parameters.number("resume_at", 0, {0, std::max<std::uint64_t>(config->step_count, 1) - 1});
}

void read_evaluation(Parameters& parameters, TrainConfig* config) {
  config->eval_every = parameters.number("eval_every", 0, {0, 1'000'000});
  config->keeps_losses = parameters.flag("keep_losses", false);
  config->keeps_outputs = parameters.flag("keep_outputs", false);
  const ParallelSetup& parallel = config->setup.parallel;
  if (!parallel.is_last() && (config->keeps_losses || config->keeps_outputs)) {
    const std::uint64_t first_rank = parallel.tensor * parallel.data * (parallel.pipeline - 1);
    parameters.refuse(config->keeps_losses ? "keep_losses" : "keep_outputs",
                      "0, or rank = " + std::to_string(first_rank) +
                          " or above: only the last stage has losses and outputs",
                      1);
  }
  parameters.refuse_if(config->is_megatron() && config->keeps_outputs, "keep_outputs",
                       "0 where implementation=megatron", 1);
  if (config->is_scheduled()) config->returns_outputs = parameters.flag("return_outputs", true);
  parameters.refuse_if(config->keeps_outputs && !config->returns_outputs, "keep_outputs",
                       "0 where return_outputs=0: there is nothing to keep", 1);
  parameters.refuse_if(config->step_count == 0 && config->eval_every == 0, "steps",
                       "at least 1, or eval_every=1 to evaluate only", 0);
  if (config->eval_every == 0) return;
  parameters.refuse_if(config->setup.parallel.pipeline > 1, "eval_every", "0 where pp > 1",
                       config->eval_every);
  config->eval_batches = parameters.number("eval_batches", 4, {1, 100'000});
  config->eval_batch = parameters.number("eval_batch", config->setup.batch, {1, 4096});
  if (config->setup.autocast) {
    config->eval_casts_once = parameters.choice("eval_autocast", {"batch", "loop"}) == 1;
  }
  config->eval_grad = parameters.flag("eval_grad", false);
  config->keeps_eval_losses = parameters.flag("keep_eval_losses", false);
  parameters.refuse_if(config->keeps_eval_losses && !config->eval_grad, "keep_eval_losses",
                       "0, or eval_grad=1: without graphs nothing is kept", 1);
  // Its hooks stay at what the flat parameter was in the evaluation.
  const DataParallelSettings& own = config->data_parallel;
  parameters.refuse_if(
      config->eval_grad && own.kind == DataParallelKind::Fsdp1 && own.gathers_narrow, "eval_grad",
      "0 where fsdp=1 and gathered=bf16: PyTorch then forgets to reduce the next gradients", 1);
}

void read_lora(Parameters& parameters, TrainConfig* config) {
  const ModelShape& model = config->setup.model;
  const bool has_adapters = model.is_llama_like() || model.family == ModelFamily::Gpt2 ||
                            model.family == ModelFamily::Bert;
  if (!has_adapters || model.is_latent() || config->is_megatron()) return;
  config->lora.rank = parameters.number("lora", 0, {0, 4096});
  if (config->lora.rank == 0) return;
  parameters.refuse_if(config->setup.parallel.tensor * config->setup.parallel.pipeline > 1, "lora",
                       "0 where tp or pp is above 1", config->lora.rank);
  config->lora.input_gradient = config->checkpointed;
  config->lora.dropout = parameters.flag("lora_dropout", false);
  if (!model.is_llama_like()) return;
  if (model.family == ModelFamily::Llama) {
    config->lora.targets =
        parameters.pick<LoraTargets>("lora_targets", {"qv", "attention", "mlp", "all"});
  }
  config->lora.trains_tables = parameters.choice("lora_trains", {"adapters", "embeddings"}) == 1;
  config->lora.bits = parameters.pick<WeightBits>("quantize", {"none", "nf4"});
  parameters.refuse_if(config->lora.bits != WeightBits::Whole && config->setup.wide_bytes != 2,
                       "quantize", "none, or precision=bf16 or bf16_weights_autocast");
}

// What all blocks and the loss keep at once, roughly: enough to refuse what 64 bits cannot hold.
void check_live_bytes(Parameters& parameters, const TrainConfig& config) {
  const ModelShape& model = config.setup.model;
  const auto real = [](std::uint64_t count) { return static_cast<double>(count); };
  const double longest = real(config.lengths.context_max);
  const double hidden = real(model.hidden);
  const double words = real(model.vocabulary);
  const double tokens = real(std::max(config.setup.batch, config.eval_batch)) * longest;
  const double block =
      tokens * (60.0 * hidden + 40.0 * real(model.ffn) + 24.0 * longest * real(model.head_count));
  const double experts = real(std::max<std::uint64_t>(model.expert_count, 1));
  const double matrices =
      hidden * (4.0 * real(model.attention_width()) + 3.0 * real(model.ffn) * experts);
  const double layers = real(model.block_count());
  const double passes = real(passes_in_flight_max(config.pipeline()));
  const double kept = config.keeps_eval_losses ? real(config.eval_batches) : 1.0;
  const double live = (block * layers * passes + 16.0 * tokens * words) * kept +
                      24.0 * (matrices * layers + 2.0 * words * hidden);
  if (live <= kLiveBytesMax) return;
  parameters.refuse("seq",
                    "batch, seq, micro batches in flight and the model's sizes that keep "
                    "fewer than 2^62 bytes",
                    config.lengths.context_max);
}

}  // namespace

TrainConfig read_train_config(Parameters& parameters) {
  TrainConfig config;
  TransformerSetup& setup = config.setup;
  setup.model = read_model_shape(parameters);
  read_implementation(parameters, &setup);
  setup.batch = parameters.number("batch", 8, {1, 4096});
  read_lengths(parameters, &config);
  config.step_count = parameters.number("steps", 4, {0, 1'000'000});
  read_precision(parameters, &config);
  read_parallel(parameters, &config);
  read_micro_batches(parameters, &config);
  read_checkpoint(parameters, &config);
  read_lora(parameters, &config);
  read_windows(parameters, &config);
  read_products(parameters, &config);
  read_liger(parameters, &config);
  read_vision(parameters, &config);
  read_data_parallel(parameters, &config);
  read_optimizer(parameters, &config);
  // transformers keeps a KV cache in training too, unless told not to or checkpointing.
  if (!config.is_megatron() && setup.model.generates()) {
    config.caches_in_evaluation = parameters.choice("kv_cache", {"default", "none"}) == 0;
    config.keeps_cache = config.caches_in_evaluation && !config.checkpointed;
  } else {
    config.keeps_cache = config.caches_in_evaluation = false;
  }
  read_mask(parameters, &config);
  read_packed(parameters, &config);
  if (setup.model.family == ModelFamily::T5) {
    config.targets = parameters.numbers("target", 128, {1, 131'072});
    setup.target = *std::max_element(config.targets.begin(), config.targets.end());
    parameters.refuse_if(setup.recomputes_attention, "checkpoint", "none or full for T5 models");
  }
  const bool one_length = config.sequences.size() == 1 && !config.draws_lengths;
  read_experts(parameters, one_length ? setup.batch * config.sequences.front() : 0, &setup);
  read_attention(parameters, &config);
  setup.kernels = parameters.flag("kernels", false);
  read_meetings(parameters, setup.parallel.rank_count(), &setup);
  read_model_state(parameters, &config);
  read_evaluation(parameters, &config);
  read_loss(parameters, &config);
  config.marks_phases = parameters.choice("marks", {"steps", "phases"}) == 1;
  read_compile(parameters, &config);
  check_context(parameters, config);
  parameters.refuse_if(
      config.data_parallel.kind != DataParallelKind::None &&
          config.data_parallel.kind >= DataParallelKind::Zero3 && config.checkpoint_blocks > 1,
      "checkpoint_blocks", "1 where zero=3 or fsdp is given", config.checkpoint_blocks);
  check_live_bytes(parameters, config);
  return config;
}

}  // namespace allocmark
