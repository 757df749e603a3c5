// See model_config_notes.h.
#include "workloads/model_config/model_config_notes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"

namespace allocmark {
namespace {

// What a config says and no key can, with what that changes.
class LeftOut {
 public:
  LeftOut(const Json& config, ModelConfig* model)
      : config_(config),
        type_(model->model_type),
        notes_(&model->notes),
        layers_(number_of(config, "num_hidden_layers").value_or(0)),
        hidden_(number_of(config, "hidden_size").value_or(0)),
        heads_(std::max<std::uint64_t>(number_of(config, "num_attention_heads").value_or(1), 1)),
        kv_heads_(number_of(config, "num_key_value_heads").value_or(heads_)),
        head_size_(number_of(config, "head_dim").value_or(hidden_ / heads_)),
        ffn_(number_of(config, "intermediate_size").value_or(0)) {}

  void add_all() const {
    add_biases();
    add_dropout();
    add_dense_layers();
    add_quantization();
    if (const std::uint64_t more = number_of(config_, "num_nextn_predict_layers").value_or(0);
        more > 0) {
      add(fmt::format("num_nextn_predict_layers={} is left out, as transformers does in training",
                      more));
    }
  }

 private:
  void add(std::string note) const { notes_->push_back(std::move(note)); }
  void add_parameters(std::string_view key, std::uint64_t count) const {
    add(fmt::format("{} is left out: {} parameters more, {:.2f} MiB in two bytes", key, count,
                    static_cast<double>(2 * count) / static_cast<double>(kMiB)));
  }

  void add_biases() const {
    const std::uint64_t attention = (heads_ + 2 * kv_heads_) * head_size_ + hidden_;
    if (is_on(config_, "attention_bias") && type_ != "qwen2") {
      add_parameters("attention_bias", layers_ * attention);
    }
    if (is_on(config_, "mlp_bias")) add_parameters("mlp_bias", layers_ * (2 * ffn_ + hidden_));
  }

  void add_dropout() const {
    const auto rate_of = [&](const char* field) {
      const auto found = config_.find(field);
      return found != config_.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    if (const double rate = rate_of("attention_dropout"); rate > 0) {
      add(fmt::format(
          "attention_dropout={} is left out: nothing with attention=fused; with eager each "
          "block keeps a mask and scores, batch x {} x seq x seq x 3 bytes",
          rate, heads_));
    }
    if (const double rate = rate_of("resid_pdrop"); rate > 0 && type_ == "phi3") {
      add(fmt::format(
          "resid_pdrop={} is left out: each block keeps two masks, batch x seq x {} bytes each",
          rate, hidden_));
    }
  }

  // Blocks of a mixture that have one MLP instead of experts.
  void add_dense_layers() const {
    const std::optional<std::uint64_t> experts = number_of(config_, "num_experts");
    if (!experts) return;
    std::uint64_t count = 0;
    const auto only = config_.find("mlp_only_layers");
    const std::uint64_t step =
        std::max<std::uint64_t>(number_of(config_, "decoder_sparse_step").value_or(1), 1);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const bool is_named = only != config_.end() && only->is_array() &&
                            std::ranges::find(*only, Json(layer)) != only->end();
      if (is_named || (layer + 1) % step != 0) ++count;
    }
    if (count == 0) return;
    const std::uint64_t inner = number_of(config_, "moe_intermediate_size").value_or(0);
    const std::uint64_t taken = count * hidden_ * (3 * inner + 1) * *experts;
    const std::uint64_t dense = count * hidden_ * 3 * ffn_;
    add(
        fmt::format("{} blocks without experts are taken for blocks with them: {} parameters where "
                    "the model has {}",
                    count, taken, dense));
  }

  void add_quantization() const {
    const auto found = config_.find("quantization_config");
    if (found == config_.end() || !found->is_object()) return;
    const std::string method = found->value("quant_method", "?");
    const std::optional<std::uint64_t> given = number_of(*found, "bits");
    const std::uint64_t bits = given.value_or(method == "fp8" ? 8 : 0);
    const std::uint64_t attention = 2 * hidden_ * (heads_ + kv_heads_) * head_size_;
    const std::uint64_t weights = layers_ * (attention + 3 * hidden_ * ffn_);
    const bool is_counted = bits > 0 && bits < 16 && !number_of(config_, "num_experts") &&
                            !number_of(config_, "n_routed_experts") &&
                            !number_of(config_, "num_local_experts");
    add(fmt::format("quantization_config ({}) is left out: weights are taken whole{}", method,
                    is_counted ? fmt::format(", {:.2f} GiB more in two bytes than in {} bits",
                                             static_cast<double>(weights * (16 - bits) / 8) /
                                                 static_cast<double>(kGiB),
                                             bits)
                               : ""));
  }

  const Json& config_;
  const std::string& type_;
  std::vector<std::string>* notes_;
  std::uint64_t layers_, hidden_, heads_, kv_heads_, head_size_, ffn_;
};

}  // namespace

void note_left_out(const Json& config, ModelConfig* model) { LeftOut(config, model).add_all(); }

void note_vision(const Json& config, std::uint64_t text_hidden, ModelConfig* model) {
  const auto found = config.find("vision_config");
  if (found == config.end() || !found->is_object()) return;
  const auto number = [&](const char* field, std::uint64_t preset) {
    return number_of(*found, field).value_or(preset);
  };
  const std::uint64_t hidden = number("hidden_size", 768);
  const std::uint64_t inner = number("intermediate_size", 3072);
  const std::uint64_t patch = std::max<std::uint64_t>(number("patch_size", 16), 1);
  const std::uint64_t side = number("image_size", 224) / patch;
  const std::uint64_t block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden +
                              4 * hidden;  // attention, MLP, two norms
  const std::uint64_t tower = (3 * patch * patch + 1) * hidden + side * side * hidden +
                              number("num_hidden_layers", 12) * block + 2 * hidden;
  model->notes.push_back(fmt::format(
      "vision_config is left out: a tower and a projector of {} parameters, and what they keep of "
      "images",
      tower + hidden * text_hidden + hidden));
}

}  // namespace allocmark
