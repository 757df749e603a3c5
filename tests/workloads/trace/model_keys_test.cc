// The table of keys that only some models have, against the generators themselves: each model is
// asked with each key.
#include "workloads/trace/model_keys.h"

#include <array>
#include <string>
#include <string_view>

#include "tests/catch.h"
#include "tests/support/trace_files.h"

using namespace allocmark;

namespace {

// A family each, and what makes them small enough to be made at once.
constexpr std::array kModels = {"gpt2-124m",  "bert-base",   "llama-3-8b", "qwen2.5-0.5b",
                                "gemma-3-1b", "deepseek-v3", "qwen3-8b",   "mixtral-8x7b",
                                "vit-base",   "t5-small",    "phi-4-mini"};

// The generator has the model at all.
bool is_made(std::string_view generator, const std::string& model) {
  return refusal_of(std::string(generator) + ":" + model) == "no error";
}

TEST_CASE("a key that only some models have is told apart from one that there is not") {
  for (const ModelKey& row : model_keys()) {
    for (const std::string model : kModels) {
      if (!is_made(row.generator, model)) continue;
      for (const std::string_view key : words_of(row.keys)) {
        // No value is this word, so that a key that is read says so.
        const std::string text =
            std::string(row.generator) + ":" + model + "," + std::string(key) + "=?";
        INFO(text);
        const std::string said = refusal_of(text);
        if (!is_for_model(row, model)) {
          CHECK(mentions(said, "is not for this model"));
        } else if (row.wants.empty()) {
          CHECK(mentions(said, "bad value of key '" + std::string(key) + "'"));
        } else {
          CHECK(mentions(said, "needs " + std::string(row.wants)));
        }
      }
    }
  }
}

TEST_CASE("a key for other models names them, and one that wants another key names that") {
  const std::string compile = refusal_of("train:bert-base,compile=inductor");
  CHECK(mentions(compile, "unknown key 'compile', which is not for this model"));
  CHECK(mentions(compile, "begins with one of: gpt2, llama, qwen"));
  CHECK(mentions(refusal_of("train:gpt2-124m,quantize=nf4"), "llama, qwen, gemma, phi, mixtral"));
  CHECK(mentions(refusal_of("train:llama-3-8b,quantize=nf4"), "lora=16,quantize=nf4"));
  CHECK(mentions(refusal_of("train:llama-3-8b,no_such_key=1"), "unknown key"));
}

}  // namespace
