// The table of keys that only some models have, against the generators themselves: each model is
// asked with each key.
#include "workloads/trace/model_keys.h"

#include <string>
#include <string_view>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/model/shapes.h"

using namespace allocmark;

namespace {

// The generator has the model at all.
bool is_made(std::string_view generator, const std::string& model) {
  return refusal_of(std::string(generator) + ":" + model) == "no error";
}

TEST_CASE("a key that only some models have is told apart from one that there is not") {
  for (const ModelKey& row : model_keys()) {
    for (const ModelShape& shape : model_shapes()) {
      const std::string model(shape.name);
      if (!is_made(row.generator, model)) continue;
      for (const std::string_view key : words_of(row.keys)) {
        // No value is this word, so that a key that is read says so.
        const std::string text =
            std::string(row.generator) + ":" + model + "," + std::string(key) + "=?";
        INFO(text);
        const std::string said = refusal_of(text);
        if (!is_for_model(row, shape.kind())) {
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
  CHECK(mentions(compile, "one of these kinds: gpt, llama, qwen; got 'bert-base', of kind bert"));
  CHECK(mentions(refusal_of("train:gpt2-124m,quantize=nf4"), "llama, qwen, gemma, phi, mixtral"));
  CHECK(mentions(refusal_of("train:llama-3-8b,quantize=nf4"), "lora=16,quantize=nf4"));
  CHECK(mentions(refusal_of("train:llama-3-8b,no_such_key=1"), "unknown key"));
  // A name says nothing of the kind: this Qwen is a mixture.
  CHECK(mentions(refusal_of("train:qwen3-30b-a3b,compile=inductor"), "is not for this model"));
}

}  // namespace
