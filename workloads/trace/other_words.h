// What other tools call the keys and values of our workloads: "batch_size" is "batch" here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// Which of `known` is meant by a word that transformers, Megatron-LM, vLLM or PyTorch use for it;
// case and "-" for "_" are ignored. Empty where none is.
[[nodiscard]] std::string other_word(std::string_view word, const std::vector<std::string>& known);

// Which of `known` is meant by a model's name on Hugging Face: "openai-community/gpt2-medium",
// "meta-llama/Meta-Llama-3-8B-Instruct". Empty where none is.
[[nodiscard]] std::string model_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace allocmark
