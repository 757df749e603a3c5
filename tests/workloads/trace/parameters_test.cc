// The grammar of workload texts: what is misspelled or out of range is named, with what is allowed.
#include "workloads/trace/parameters.h"
#include "workloads/trace/other_words.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"

using namespace allocmark;

TEST_CASE("a workload text falls into name, variant and values") {
  Parameters parameters("train:gpt2-124m,batch=8,size=1MiB,mode=fast");
  CHECK(parameters.name() == "train");
  CHECK(parameters.variant() == "gpt2-124m");
  CHECK(parameters.number("batch", 1, {1, 64}) == 8);
  CHECK(parameters.number("steps", 3, {}) == 3);
  CHECK(parameters.size_bytes("size", 0, {}) == 1'048'576);
  CHECK(parameters.choice("mode", {"slow", "fast"}) == 1);
  CHECK(parameters.choice("colour", {"red", "blue"}) == 0);
  parameters.finish();
}

TEST_CASE("a variant is optional") {
  CHECK(Parameters("churn").variant().empty());
  CHECK(Parameters("churn:").variant().empty());
  Parameters parameters("churn:events=5");
  CHECK(parameters.variant().empty());
  CHECK(parameters.number("events", 1, {}) == 5);
}

TEST_CASE("texts that break the grammar are refused") {
  for (const char* text : {"a:b,c", "a:b,=3", "a:b,c=", "a:b,,c=1", "a:x=1,b"}) {
    INFO(text);
    CHECK(mentions(usage_error_of([&] { Parameters parameters(text); }), "not a parameter"));
  }
  CHECK(mentions(usage_error_of([] { Parameters parameters("a:b,c=1,c=2"); }),
                 "bad value of key 'c'"));
}

TEST_CASE("values out of range name the key and the range") {
  const auto error_of = [](const char* text) {
    return usage_error_of([&] {
      Parameters parameters(text);
      static_cast<void>(parameters.number("batch", 1, {1, 64}));
      static_cast<void>(parameters.size_bytes("size", 0, {512, 1 << 20}));
    });
  };
  for (const char* text :
       {"g:batch=0", "g:batch=65", "g:batch=-1", "g:batch=8x", "g:batch=99999999999999999999"}) {
    INFO(text);
    CHECK(mentions(error_of(text), "bad value of key 'batch'; wanted a whole number from 1 to 64"));
  }
  for (const char* text : {"g:size=1", "g:size=2MiB", "g:size=-5", "g:size=big"}) {
    INFO(text);
    CHECK(
        mentions(error_of(text), "bad value of key 'size'; wanted a size from 512 B to 1.00 MiB"));
  }
}

TEST_CASE("a key that nobody asked for is refused with the nearest one") {
  Parameters parameters("g:bacth=8");
  static_cast<void>(parameters.number("batch", 1, {}));
  const std::string error = usage_error_of([&] { parameters.finish(); });
  CHECK(mentions(error, "unknown key 'bacth'"));
  CHECK(mentions(error, "did you mean 'batch'?"));
}

TEST_CASE("a word of another tool is answered with ours, and the keys are listed once") {
  Parameters parameters("g:dtype=8");
  static_cast<void>(parameters.number("batch", 1, {}));
  static_cast<void>(parameters.choice("precision", {"bf16", "fp32"}));
  const std::string error = usage_error_of([&] { parameters.finish(); });
  CHECK(mentions(error, "here that is 'precision'"));
  CHECK_FALSE(mentions(error, "known:"));

  Parameters value("g:precision=bfloat16");
  CHECK(mentions(usage_error_of([&] {
                   static_cast<void>(value.choice("precision", {"bf16", "fp32"}));
                 }),
                 "here that is 'bf16'"));
}

TEST_CASE("a word that two keys share means the one that the workload has") {
  CHECK(other_word("max_length", {"batch", "seq"}) == "seq");
  CHECK(other_word("max_length", {"batch", "context_max"}) == "context_max");
  CHECK(other_word("Batch-Size", {"batch"}) == "batch");
  CHECK(other_word("batch_size", {"seq"}).empty());
  CHECK(other_word("gpt2-medium", {"gpt2-124m", "gpt2-355m"}) == "gpt2-355m");
}

TEST_CASE("a model's name on Hugging Face is one of ours") {
  const std::vector<std::string> known = {"gpt2-124m",  "gpt2-355m",   "llama-2-7b", "llama-3-8b",
                                          "bert-large", "qwen2.5-7b",  "qwen3-8b",   "vit-base",
                                          "t5-base",    "mixtral-8x7b"};
  for (const auto& [theirs, ours] : std::vector<std::pair<std::string, std::string>>{
           {"openai-community/gpt2", "gpt2-124m"},
           {"gpt2-medium", "gpt2-355m"},
           {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
           {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
           {"meta-llama/Llama-3.1-8B-Instruct", "llama-3-8b"},
           {"llama3-8b", "llama-3-8b"},
           {"google-bert/bert-large-uncased", "bert-large"},
           {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
           {"Qwen/Qwen3-8B-Base", "qwen3-8b"},
           {"google/vit-base-patch16-224", "vit-base"},
           {"google-t5/t5-base", "t5-base"},
           {"google/flan-t5-base", "t5-base"},
           {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
           {"mistralai/Mistral-7B-v0.1", ""},
           {"qwen2.5-14b", ""}}) {
    INFO(theirs);
    CHECK(model_word(theirs, known) == ours);
  }
}
