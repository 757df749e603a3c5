// How generator train is spread over GPUs (train_keys.h).
#include "workloads/programs/train_keys.h"

#include <numeric>
#include <string>
#include <vector>

namespace allocmark {
namespace {

const char* autocast_name(const TransformerSetup& setup) {
  if (setup.is_half) return "fp16_autocast";
  return setup.wide_bytes == 2 ? "bf16_weights_autocast" : "bf16_autocast";
}

void check_shares(Parameters& parameters, const TransformerSetup& setup) {
  const ModelShape& model = setup.model;
  const std::uint64_t ranks = setup.parallel.tensor;
  const auto divides = [&](const char* what, std::uint64_t value) {
    if (value % ranks == 0) return;
    parameters.refuse("tp", "a divisor of " + std::string(what) + " = " + std::to_string(value),
                      ranks);
  };
  divides("heads", model.head_count);
  divides("kv_heads", model.kv_head_count);
  divides("hidden", model.hidden);
  divides("ffn", model.ffn);
  const std::uint64_t pieces = setup.parallel.pipeline * setup.parallel.chunks;
  parameters.refuse_if(model.layer_count % pieces != 0 && setup.parallel.stage_layers == 0,
                       setup.parallel.chunks > 1 ? "virtual" : "pp",
                       "pp * virtual a divisor of layers = " + std::to_string(model.layer_count) +
                           ", or stage_layers with the blocks of each stage",
                       setup.parallel.chunks > 1 ? setup.parallel.chunks : setup.parallel.pipeline);
}

// Stages that differ: how many blocks each has. Returns nothing where they are alike.
std::vector<std::uint64_t> read_stage_layers(Parameters& parameters,
                                             const TransformerSetup& setup) {
  const ParallelSetup& parallel = setup.parallel;
  if (parallel.pipeline == 1 || parallel.chunks > 1) return {};
  std::vector<std::uint64_t> given = parameters.numbers("stage_layers", 0, {1, 1024});
  if (given.front() == 0) return {};
  const std::uint64_t sum = std::accumulate(given.begin(), given.end(), std::uint64_t{0});
  parameters.refuse_if(
      given.size() != parallel.pipeline || sum != setup.model.layer_count, "stage_layers",
      "pp = " + std::to_string(parallel.pipeline) +
          " numbers whose sum is layers = " + std::to_string(setup.model.layer_count),
      sum);
  return given;
}

// Families whose blocks nobody has cut into parts yet.
void check_families(Parameters& parameters, const TransformerSetup& setup) {
  const ModelFamily family = setup.model.family;
  const bool is_whole =
      setup.model.image > 0 || family == ModelFamily::T5 || family == ModelFamily::Mixtral;
  const std::string wanted = "1 for " + std::string(setup.model.name);
  parameters.refuse_if(setup.parallel.tensor > 1 && (is_whole || setup.model.joint_products), "tp",
                       wanted, setup.parallel.tensor);
  parameters.refuse_if(setup.parallel.pipeline > 1 && is_whole, "pp", wanted,
                       setup.parallel.pipeline);
}

// Whether PyTorch's ZeroRedundancyOptimizer does it; DeepSpeed alone has the stages above.
bool shares_states(Parameters& parameters, std::uint64_t zero) {
  if (zero == 0 || (zero > 1 && parameters.given("sharder") == nullptr)) return false;
  const bool by_torch = parameters.choice("sharder", {"deepspeed", "torch"}) == 1;
  parameters.refuse_if(by_torch && zero > 1, "sharder",
                       "deepspeed where zero > 1: PyTorch's optimizer shares states alone");
  return by_torch;
}

void check_data_parallel(Parameters& parameters, const TrainConfig& config, std::uint64_t zero,
                         std::uint64_t fsdp) {
  const char* given = zero > 0 ? "zero" : "fsdp";
  check_context_sharding(parameters, config, zero, fsdp);
  parameters.refuse_if(zero > 0 && fsdp > 0, "fsdp", "0 where zero = " + std::to_string(zero),
                       fsdp);
  // DeepSpeed trains on one GPU, too.
  const bool may_be_alone = zero > 0 && !config.is_megatron() &&
                            config.setup.parallel.rank_count() == 1 &&
                            !config.data_parallel.shares_states;
  parameters.refuse_if(zero + fsdp > 0 && config.data_parallel.ranks == 1 && !may_be_alone, given,
                       "0 where dp is 1: there is nobody to share with", zero + fsdp);
  parameters.refuse_if(config.is_megatron() && fsdp > 0, "fsdp", "0 where implementation=megatron",
                       fsdp);
  parameters.refuse_if(config.is_megatron() && zero > 1, "zero",
                       "0, or 1 for the distributed optimizer, where implementation=megatron",
                       zero);
  parameters.refuse_if(config.setup.parallel.pipeline > 1 && (zero > 1 || fsdp > 0), given,
                       "at most zero=1 where pp > 1: a stage would gather its parameters for "
                       "every micro batch",
                       zero + fsdp);
  parameters.refuse_if(config.lora.rank > 0 && fsdp == 1, "lora",
                       "0 where fsdp=1: one flat parameter is trained or frozen", config.lora.rank);
  parameters.refuse_if(config.lora.trains_tables && zero + fsdp > 0, "lora_trains",
                       "adapters where zero or fsdp is given");
  parameters.refuse_if(config.lora.bits != WeightBits::Whole && zero + fsdp > 0, "quantize",
                       "none where zero or fsdp is given");
}

// What PyTorch 2.11 does not run: DistributedDataParallel takes DTensors apart, and puts them
// together again in the first forward.
void check_grid(Parameters& parameters, const TrainConfig& config) {
  const DataParallelKind kind = config.data_parallel.kind;
  const ParallelSetup& parallel = config.setup.parallel;
  parameters.refuse_if(parallel.expert > 1 && parallel.data > 1 && kind != DataParallelKind::Fsdp2,
                       "ep", "1, or fsdp=2 where dp is above 1", parallel.expert);
  parameters.refuse_if(
      parallel.tensor > 1 && config.setup.model.tied_head && kind == DataParallelKind::Ddp, "tied",
      "0, or fsdp=2 where tp and dp are above 1: DistributedDataParallel takes no tied DTensors",
      1);
}

// Hybrid sharding: replicas of the model, each in shards.
std::uint64_t read_replicas(Parameters& parameters, const ParallelSetup& parallel,
                            std::uint64_t fsdp) {
  const std::uint64_t replicas = parameters.number("replicate", 1, {1, 1 << 16});
  if (replicas == 1) return 1;
  parameters.refuse_if(fsdp == 0, "replicate",
                       "1, or fsdp=1 or 2: each replica's ranks share the model", replicas);
  parameters.refuse_if(parallel.data % replicas != 0, "replicate",
                       "a divisor of dp = " + std::to_string(parallel.data), replicas);
  parameters.refuse_if(replicas == parallel.data * parallel.context, "replicate",
                       "below dp = " + std::to_string(parallel.data) + ": nobody would share",
                       replicas);
  return replicas;
}

// `zero_presets`: what transformers' Trainer and accelerate write in place of "auto".
ZeroSettings read_zero(Parameters& parameters, std::uint64_t hidden, std::uint64_t stage) {
  constexpr std::uint64_t kMost = 1'000'000'000'000;
  ZeroSettings zero;
  if (parameters.choice("zero_presets", {"deepspeed", "trainer"}) == 1) {
    zero.reduce_elements = hidden * hidden;
    zero.prefetch_elements = hidden * hidden * 9 / 10;
    zero.persistent_elements = 10 * hidden;
  }
  const auto read = [&](const char* key, std::uint64_t least, std::uint64_t* value) {
    *value = parameters.number(key, *value, {least, kMost});
  };
  read("reduce_elements", 1, &zero.reduce_elements);
  zero.overlaps = parameters.flag("overlap", stage == 3);
  if (stage < 3) return zero;
  read("prefetch_elements", 0, &zero.prefetch_elements);
  read("persistent_elements", 0, &zero.persistent_elements);
  read("live_elements", 0, &zero.live_elements);
  read("reuse_elements", 0, &zero.reuse_elements);
  read("group_elements", 0, &zero.group_elements);
  return zero;
}

void read_rank(Parameters& parameters, ParallelSetup* parallel) {
  const std::uint64_t world = parallel->rank_count();
  std::uint64_t rank = parameters.number("rank", 0, {0, world - 1});
  parallel->tensor_rank = rank % parallel->tensor;
  rank /= parallel->tensor;
  parallel->expert_rank = rank % parallel->expert;
  rank /= parallel->expert;
  parallel->context_rank = rank % parallel->context;
  rank /= parallel->context;
  parallel->data_rank = rank % parallel->data;
  parallel->stage = rank / parallel->data;
}

}  // namespace

void read_parallel(Parameters& parameters, TrainConfig* config) {
  TransformerSetup& setup = config->setup;
  ParallelSetup& parallel = setup.parallel;
  const auto number = [&](const char* key, std::uint64_t highest) {
    return parameters.number(key, 1, {1, highest});
  };
  const bool is_bert = setup.model.family == ModelFamily::Bert;
  parallel.tensor = number("tp", 1024);
  parallel.sequence = parameters.flag("sp", false);
  if (setup.model.expert_count > 0) {
    parallel.expert = number("ep", 1024);
    parameters.refuse_if(setup.model.expert_count % parallel.expert != 0, "ep",
                         "a divisor of expert_count = " + std::to_string(setup.model.expert_count),
                         parallel.expert);
  }
  parallel.data = number("dp", 1 << 16);
  parallel.pipeline = number("pp", 1024);
  if (parallel.pipeline > 1) parallel.chunks = number("virtual", 1024);
  parameters.refuse_if(parallel.sequence && parallel.tensor == 1, "sp",
                       "0 where tp is 1: tokens are shared over the tensor ranks", 1);
  parameters.refuse_if(
      parallel.sequence && !config->is_megatron() && setup.model.family != ModelFamily::Llama, "sp",
      "0, a Llama model, or implementation=megatron", 1);
  parameters.refuse_if(parallel.pipeline > 1 && is_bert, "pp", "1 for BERT models",
                       parallel.pipeline);
  check_families(parameters, setup);
  const std::vector<std::uint64_t> stage_layers = read_stage_layers(parameters, setup);
  if (!stage_layers.empty()) parallel.stage_layers = stage_layers.front();
  check_shares(parameters, setup);
  parameters.refuse_if(parallel.pipeline > 1 && config->draws_lengths, "pp",
                       "1 where lengths are drawn: stages have to agree", parallel.pipeline);
  parameters.refuse_if(
      parallel.pipeline > 1 && config->sequences.size() > 1 && !config->is_megatron(), "pp",
      "1 where seq has several lengths, or implementation=megatron: "
      "PyTorch's stages have fixed shapes",
      parallel.pipeline);
  read_context(parameters, config);
  read_rank(parameters, &parallel);
  if (!stage_layers.empty()) parallel.stage_layers = stage_layers[parallel.stage];
  if (!parallel.sequence) return;
  for (const std::uint64_t sequence : config->sequences) {
    parameters.refuse_if(sequence % parallel.tensor != 0, "seq",
                         "a multiple of tp = " + std::to_string(parallel.tensor) + " where sp=1",
                         sequence);
  }
  parameters.refuse_if(config->draws_lengths, "sp",
                       "0 where lengths are drawn: they cannot be shared evenly", 1);
}

void read_micro_batches(Parameters& parameters, TrainConfig* config) {
  const ParallelSetup& parallel = config->setup.parallel;
  const std::uint64_t accumulate = parameters.number("accumulate", 1, {1, 100'000});
  const std::uint64_t stages = parallel.pipeline;
  const std::uint64_t micro =
      parameters.number("micro_batches", stages > 1 ? stages : accumulate, {1, 100'000});
  parameters.refuse_if(accumulate > 1 && micro != accumulate, "accumulate",
                       "1 where micro_batches = " + std::to_string(micro) + " says the same",
                       accumulate);
  config->accumulate = micro;
  const std::uint64_t global = parameters.number("global_batch", 0, {1, std::uint64_t{1} << 32});
  if (global > 0) {
    const std::uint64_t each = config->setup.batch * parallel.data;
    parameters.refuse_if(global % each != 0, "global_batch",
                         "a multiple of batch * dp = " + std::to_string(each), global);
    parameters.refuse_if(micro != 1 && micro != stages && micro != global / each, "micro_batches",
                         "global_batch / (batch * dp) = " + std::to_string(global / each), micro);
    config->accumulate = global / each;
  }
  parameters.refuse_if(parallel.chunks > 1 && config->accumulate % stages != 0, "micro_batches",
                       "a multiple of pp = " + std::to_string(stages) + " where virtual > 1",
                       config->accumulate);
}

void read_data_parallel(Parameters& parameters, TrainConfig* config) {
  // Ranks that share sequences share the model as those with other data do.
  ParallelSetup& parallel = config->setup.parallel;
  const std::uint64_t ranks = parallel.data * parallel.context;
  DataParallelSettings& own = config->data_parallel;
  own.ranks = ranks;
  const std::uint64_t zero = parameters.number("zero", 0, {0, 3});
  const std::uint64_t fsdp =
      parameters.number("fsdp", parallel.splits_sequences() ? 2u : 0u, {0, 2});
  if (!config->is_megatron()) own.shares_states = shares_states(parameters, zero);
  check_data_parallel(parameters, *config, zero, fsdp);
  parallel.replicas = read_replicas(parameters, parallel, fsdp);
  own.replicas = parallel.replicas;
  own.ranks = parallel.shard_count();
  own.rank = parallel.shard_rank();
  if (config->is_megatron()) {
    config->distributed_optimizer = zero == 1;
    return;
  }
  using enum DataParallelKind;
  const DataParallelKind kinds[] = {Ddp, Zero1, Zero2, Zero3};
  config->lora.in_own_type = zero + fsdp > 0;
  own.kind = fsdp == 1 ? Fsdp1 : fsdp == 2 ? Fsdp2 : zero == 0 && ranks == 1 ? None : kinds[zero];
  // ZeroRedundancyOptimizer is beside DistributedDataParallel.
  if (own.shares_states) own.kind = Ddp;
  check_grid(parameters, *config);
  if (own.kind == Ddp) {
    own.bucket_bytes = parameters.number("bucket_mb", 25, {1, 4096}) << 20;
    // Whoever gives a size gives it to the first bucket, too.
    if (parameters.given("bucket_mb") != nullptr) own.first_bucket_bytes = own.bucket_bytes;
    own.bucket_view = parameters.flag("bucket_view", false);
    own.no_sync = parameters.flag("no_sync", false) || parallel.pipeline > 1;
    own.holds_buckets = parameters.flag("holds_buckets", false);
  }
  if (own.shares_states) return;
  if (zero > 0) own.zero = read_zero(parameters, config->setup.model.hidden, zero);
  parameters.refuse_if(zero > 0 && config->setup.autocast, "precision",
                       "bf16 or fp32 where zero is given: DeepSpeed casts the model",
                       autocast_name(config->setup));
  if (fsdp > 0) {
    own.reshard = parameters.flag("reshard", true);
    own.gathers_narrow = parameters.choice("gathered", {"same", "bf16"}) == 1;
  }
  if (fsdp > 0 || zero == 3) {
    own.prefetch = parameters.flag("prefetch", true);
    if (!own.prefetch) own.zero.prefetch_elements = 0;
    own.defers_parameters = parameters.choice("initialize", {"deferred", "whole"}) == 0;
    config->setup.defers_parameters = own.defers_parameters;
    config->setup.defers_buffers = own.defers_parameters && own.kind == DataParallelKind::Fsdp2;
  }
  if (own.kind != None) own.records = parameters.flag("record", true);
  if (!own.gathers_narrow) return;
  TransformerSetup& setup = config->setup;
  parameters.refuse_if(setup.autocast || setup.wide_bytes != 4, "gathered",
                       "same, or precision=fp32 for the shards");
  setup.parameter_bytes = 4;
  setup.wide_bytes = setup.narrow_bytes = 2;
}

}  // namespace allocmark
