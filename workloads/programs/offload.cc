// Generator offload: programs that keep something in pinned memory of the host. Each asks for the
// device's memory that goes with it, too.
#include "workloads/programs/offload.h"

#include <array>
#include <string>

#include "workloads/model/shapes.h"

namespace allocmark {

std::uint64_t read_bus_gbs(Parameters& parameters) {
  return parameters.number("bus_gbs", 50, {1, 1000});
}

LayerTensors read_layer_tensors(Parameters& parameters) {
  std::vector<std::string> names;
  std::vector<const ModelShape*> shapes;
  for (const ModelShape& shape : model_shapes()) {
    if (!shape.is_plain_llama()) continue;
    names.emplace_back(shape.name);
    shapes.push_back(&shape);
  }
  std::size_t preset = 0;
  while (preset + 1 < names.size() && names[preset] != "llama-3.2-1b") ++preset;
  const ModelShape& shape = *shapes[parameters.choice("model", names, preset)];
  const std::uint64_t layer_count = parameters.number("layers", shape.layer_count, {1, 200});
  const std::uint64_t hidden = shape.hidden;
  LayerTensors layers;
  layers.push_back({shape.vocabulary * hidden});
  for (std::uint64_t i = 0; i < layer_count; ++i) {
    layers.push_back({hidden * shape.attention_width(), hidden * shape.kv_width(),
                      hidden * shape.kv_width(), hidden * shape.attention_width(),
                      hidden * shape.ffn, hidden * shape.ffn, hidden * shape.ffn, hidden, hidden});
  }
  layers.push_back({hidden});
  if (!shape.tied_head) layers.back().push_back(shape.vocabulary * hidden);
  return layers;
}

namespace {

std::unique_ptr<EventSource> make_offload(Parameters& parameters, std::uint64_t seed) {
  constexpr std::array kMakers = {make_offload_optimizer, make_offload_checkpoint,
                                  make_offload_loader, make_offload_kv_cache, make_offload_weights};
  const std::vector<std::string> kinds = {"optimizer", "checkpoint", "loader", "kv_cache",
                                          "weights"};
  return kMakers[parameters.variant_index("kind", kinds, true)](parameters, seed);
}

}  // namespace

extern constinit const GeneratorEntry kOffloadGenerator{
    "offload", "offload:optimizer,library=fsdp,model=llama-3.2-1b,steps=3",
    "pinned memory of the host: optimizer states, checkpoints, data loading, KV caches, streamed "
    "weights; ask 'allocmark pinned --workload'",
    make_offload};

}  // namespace allocmark
