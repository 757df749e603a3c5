#include "workloads/model_options.h"

#include <cstdint>
#include <string>

namespace allocmark {

ModelShape read_model_shape(Parameters& parameters) {
  ModelShape model = model_shapes()[parameters.variant_index("model", model_names(), true)];
  const auto number = [&](const char* key, std::uint64_t preset, std::uint64_t highest) {
    return parameters.number(key, {.preset = preset, .lowest = 1, .highest = highest});
  };
  const std::uint64_t heads_preset = model.head_count;
  model.layer_count = number("layers", model.layer_count, 1024);
  model.hidden = number("hidden", model.hidden, 1 << 17);
  model.head_count = number("heads", model.head_count, 1024);
  model.ffn = number("ffn", model.ffn, 1 << 20);
  model.vocabulary = number("vocabulary", model.vocabulary, 1 << 20);
  if (model.positions > 0) model.positions = number("positions", model.positions, 1 << 20);
  if (model.family == ModelFamily::Llama) {
    const std::uint64_t preset =
        model.kv_head_count == heads_preset ? model.head_count : model.kv_head_count;
    model.kv_head_count = number("kv_heads", preset, 1024);
  } else {
    model.kv_head_count = model.head_count;
  }
  if (model.hidden % model.head_count != 0) {
    parameters.refuse_value("heads", "a divisor of hidden = " + std::to_string(model.hidden),
                            model.head_count);
  }
  if (model.head_count % model.kv_head_count != 0) {
    parameters.refuse_value("kv_heads", "a divisor of heads = " + std::to_string(model.head_count),
                            model.kv_head_count);
  }
  return model;
}

}  // namespace allocmark
