// Generator train: training steps of a transformer, lowered to the allocations that PyTorch makes:
// forward (model/transformer.cc, model/megatron.cc), loss, backward (model/tape.cc), collective
// operations, optimizer, zero_grad. The seed matters only where the lengths of sequences are drawn.
#include <cstdint>
#include <memory>

#include "workloads/programs/training.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {

namespace {

std::unique_ptr<EventSource> make_train(Parameters& parameters, std::uint64_t seed) {
  const TrainConfig config = read_train_config(parameters);
  const bool is_parallel = config.setup.parallel.rank_count() > 1;
  const std::uint32_t stream_count =
      is_parallel ? ShardedParameters::stream_count(config.setup.parallel.replicas) : 1;
  return make_running<Training>(
      parameters,
      {.name = "train-" + parameters.variant(), .seed = seed, .stream_count = stream_count},
      config);
}

}  // namespace

extern constinit const GeneratorEntry kTrainGenerator{
    "train", "train:gpt2-124m,batch=8,seq=1024,steps=4",
    "transformer training steps as eager PyTorch allocates them: autocast, checkpointing, AdamW",
    make_train};

}  // namespace allocmark
