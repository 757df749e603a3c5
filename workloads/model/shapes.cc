#include "workloads/model/shapes.h"

#include <array>

namespace allocmark {
namespace {

using enum ModelFamily;

// Columns: layers, hidden, heads, kv heads, ffn, vocabulary, positions, tied head.
constexpr std::array<ModelShape, 12> kShapes = {{
    {"gpt2-124m", Gpt2, 12, 768, 12, 12, 3072, 50257, 1024, true},
    {"gpt2-355m", Gpt2, 24, 1024, 16, 16, 4096, 50257, 1024, true},
    {"gpt2-774m", Gpt2, 36, 1280, 20, 20, 5120, 50257, 1024, true},
    {"gpt2-1.5b", Gpt2, 48, 1600, 25, 25, 6400, 50257, 1024, true},
    {"bert-base", Bert, 12, 768, 12, 12, 3072, 30522, 512, true},
    {"bert-large", Bert, 24, 1024, 16, 16, 4096, 30522, 512, true},
    {"llama-2-7b", Llama, 32, 4096, 32, 32, 11008, 32000, 0, false},
    {"llama-2-13b", Llama, 40, 5120, 40, 40, 13824, 32000, 0, false},
    {"llama-2-70b", Llama, 80, 8192, 64, 8, 28672, 32000, 0, false},
    {"llama-3-8b", Llama, 32, 4096, 32, 8, 14336, 128256, 0, false},
    {"llama-3-70b", Llama, 80, 8192, 64, 8, 28672, 128256, 0, false},
    {"llama-3.1-405b", Llama, 126, 16384, 128, 8, 53248, 128256, 0, false},
}};

void append_linear(std::uint64_t in, std::uint64_t out, bool bias,
                   std::vector<std::uint64_t>* counts) {
  counts->push_back(in * out);
  if (bias) counts->push_back(out);
}

void append_block(const ModelShape& model, std::vector<std::uint64_t>* counts) {
  const std::uint64_t h = model.hidden;
  const bool bias = model.family != Llama;
  const auto norm = [&] { counts->insert(counts->end(), bias ? 2 : 1, h); };
  if (model.family == Gpt2) norm();
  if (model.family == Gpt2) {
    append_linear(h, 3 * h, bias, counts);
  } else {
    append_linear(h, h, bias, counts);
    append_linear(h, model.kv_width(), bias, counts);
    append_linear(h, model.kv_width(), bias, counts);
  }
  append_linear(h, h, bias, counts);
  if (model.family != Llama) norm();
  append_linear(h, model.ffn, bias, counts);
  if (model.family == Llama) append_linear(h, model.ffn, bias, counts);
  append_linear(model.ffn, h, bias, counts);
  if (model.family != Gpt2) norm();
  if (model.family == Llama) norm();
}

}  // namespace

std::span<const ModelShape> model_shapes() { return kShapes; }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

std::vector<std::uint64_t> parameter_element_counts(const ModelShape& model) {
  const std::uint64_t h = model.hidden;
  std::vector<std::uint64_t> counts = {model.vocabulary * h};
  if (model.positions > 0) counts.push_back(model.positions * h);
  if (model.family == Bert)
    counts.insert(counts.end(), {2 * h, h, h});  // token types and their norm
  for (std::uint64_t layer = 0; layer < model.layer_count; ++layer) append_block(model, &counts);
  if (model.family == Llama) counts.push_back(h);
  if (model.family == Gpt2) counts.insert(counts.end(), 2, h);
  if (model.family == Bert) counts.insert(counts.end(), {h * h, h, h, h, model.vocabulary});
  if (!model.tied_head) counts.push_back(model.vocabulary * h);
  return counts;
}

}  // namespace allocmark
