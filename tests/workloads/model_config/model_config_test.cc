// A Hugging Face config.json as keys of a generator. The configs are the models' own, shortened to
// what is read.
#include "workloads/model_config/model_config.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

constexpr const char* kLlama32 = R"({"model_type": "llama", "hidden_size": 3072,
  "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
  "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": true})";

std::string head_of(const std::string& json) { return read_model_config(json, "config.json").head; }

std::string refusal_of_config(const std::string& json) {
  return usage_error_of([&] { (void)read_model_config(json, "config.json"); });
}

}  // namespace

TEST_CASE("a Llama's config gives every key of its generator") {
  CHECK(head_of(kLlama32) ==
        "llama-3-8b,layers=28,hidden=3072,heads=24,kv_heads=8,ffn=8192,vocabulary=128256,tied=1,"
        "head_size=128");
}

TEST_CASE("what a config leaves out is what the model's class presets") {
  // Llama 2 has as many key heads as heads, and says no size of a head.
  CHECK(head_of(R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})") ==
        "llama-3-8b,layers=32,hidden=4096,heads=32,kv_heads=32,ffn=11008,vocabulary=32000,tied=0,"
        "head_size=128");
  CHECK(head_of(R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
    "vocab_size": 50257, "n_positions": 1024})") ==
        "gpt2-124m,layers=12,hidden=768,heads=12,ffn=3072,vocabulary=50257,positions=1024");
}

TEST_CASE("a field of another kind is refused, and no preset takes its place") {
  const std::string config(kLlama32);
  const auto with = [&](const std::string& field, const std::string& value) {
    return config.substr(0, config.size() - 1) + ", \"" + field + "\": " + value + "}";
  };
  const auto without = [&](std::string text, const std::string& part) {
    return text.erase(text.find(part), part.size());
  };
  for (const char* value : {"-1", "0.5", "2.0", "\"8\"", "true", "[]", "1e300"}) {
    INFO(value);
    const std::string heads =
        without(with("num_key_value_heads", value), "\"num_key_value_heads\": 8, ");
    CHECK(refusal_of_config(heads).find("'num_key_value_heads' cannot be used") !=
          std::string::npos);
    const std::string size = without(with("head_dim", value), "\"head_dim\": 128,");
    CHECK(refusal_of_config(size).find("'head_dim' cannot be used") != std::string::npos);
  }
  for (const char* value : {"1", "\"true\"", "[]"}) {
    const std::string tied =
        without(with("tie_word_embeddings", value), ", \"tie_word_embeddings\": true");
    CHECK(refusal_of_config(tied).find("'tie_word_embeddings' cannot be used") !=
          std::string::npos);
  }
  // What is null is left to the class.
  CHECK(head_of(without(with("num_key_value_heads", "null"), "\"num_key_value_heads\": 8, "))
            .find("kv_heads=24") != std::string::npos);
}

TEST_CASE("a config of the model that a generator names gives that model's trace") {
  const auto summary_of = [](const std::string& model) {
    const auto source = open_workload("train:" + model + ",layers=2,batch=1,seq=64,steps=1", 1);
    return summarize(*source).hash;
  };
  const auto config_hash = [&](std::string head) {
    head.replace(head.find("layers="), head.find(',', head.find("layers=")) - head.find("layers="),
                 "layers=2");
    const auto source = open_workload("train:" + head + ",batch=1,seq=64,steps=1", 1);
    return summarize(*source).hash;
  };
  CHECK(config_hash(head_of(kLlama32)) == summary_of("llama-3.2-3b"));
  CHECK(config_hash(head_of(R"({"model_type": "qwen2", "hidden_size": 1536,
    "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    "intermediate_size": 8960, "vocab_size": 151936, "tie_word_embeddings": true})")) ==
        summary_of("qwen2.5-1.5b"));
  CHECK(config_hash(head_of(R"({"model_type": "qwen3", "hidden_size": 4096,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 12288, "vocab_size": 151936})")) == summary_of("qwen3-8b"));
}

TEST_CASE("a family that no generator has is named with what is missing") {
  const std::string gemma = refusal_of_config(R"({"model_type": "gemma2"})");
  CHECK(mentions(gemma, "four norms a block"));
  CHECK(mentions(gemma, "record_without_gpu"));
  CHECK(mentions(refusal_of_config(R"({"model_type": "deepseek_v2"})"), "latent attention"));
  CHECK(mentions(refusal_of_config(R"({"model_type": "nobody_knows"})"), "llama"));
}

TEST_CASE("what is no config says so, and so does a number that is missing") {
  CHECK(mentions(refusal_of_config("{}"), "model_type"));
  CHECK(mentions(refusal_of_config("not json"), "no config of a Hugging Face model"));
  CHECK(mentions(refusal_of_config(R"({"model_type": "llama", "hidden_size": 64})"),
                 "num_hidden_layers"));
}

TEST_CASE("a sliding window is a key, in the rule by which blocks have it") {
  const auto model_of = [](const std::string& type, const std::string& more) {
    return read_model_config(R"({"model_type": ")" + type + R"(", "hidden_size": 4096,
      "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 32000)" +
                                 more + "}",
                             "config.json");
  };
  const auto keys_of = [&](const std::string& type, const std::string& more) {
    const ModelConfig model = model_of(type, more);
    CHECK(model.notes.empty());
    const std::size_t at = model.head.find(",window=");
    return at == std::string::npos ? "" : model.head.substr(at);
  };
  CHECK(keys_of("mistral", R"(, "sliding_window": 4096)") == ",window=4096,window_every=0");
  // The class presets it; null is none.
  CHECK(keys_of("mistral", "") == ",window=4096,window_every=0");
  CHECK(keys_of("mistral", R"(, "sliding_window": null)").empty());
  CHECK(keys_of("qwen2", R"(, "sliding_window": 512)").empty());
  const std::string asked = R"(, "sliding_window": 512, "use_sliding_window": true)";
  CHECK(keys_of("qwen2", asked + R"(, "max_window_layers": 4)").empty());
  CHECK(keys_of("qwen2", asked + R"(, "max_window_layers": 0)") == ",window=512,window_every=0");
  CHECK(keys_of("qwen3", asked + R"(, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention"])") == ",window=512,window_every=2");
  // Blocks in no such rule.
  for (const std::string more : {R"(, "max_window_layers": 2)", R"(, "layer_types":
      ["full_attention", "sliding_attention", "full_attention", "full_attention"])"}) {
    const ModelConfig qwen = model_of("qwen2", asked + more);
    REQUIRE(qwen.notes.size() == 1);
    CHECK(mentions(qwen.notes.front(), "sliding_window=512 is left out"));
  }
}

TEST_CASE("a Gemma 3 that sees images is taken by its text, and the tower counted") {
  // What google/gemma-3-4b-pt says, and the class presets the rest.
  const ModelConfig gemma = read_model_config(
      R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560,
      "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
      "sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "image_size": 896,
      "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16,
      "num_hidden_layers": 27, "patch_size": 14}})",
      "config.json");
  CHECK(gemma.head ==
        "gemma-3-1b,layers=34,hidden=2560,heads=8,kv_heads=4,ffn=10240,vocabulary=262208,"
        "head_size=256,tied=1,window=1024,window_every=6");
  REQUIRE(gemma.notes.size() == 1);
  // 4,300,079,472 published parameters less the text's 3,880,263,168.
  CHECK(mentions(gemma.notes.front(), "419816304 parameters"));
  CHECK(head_of(R"({"model_type": "gemma3_text", "sliding_window": null})").ends_with("window=0"));
}

TEST_CASE("a DeepSeek-V3's config gives its latent ranks, experts and first blocks") {
  const std::string config = R"({"model_type": "deepseek_v3", "first_k_dense_replace": 3,
      "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
      "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
      "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
      "num_nextn_predict_layers": 1, "quantization_config": {"quant_method": "fp8"}})";
  const ModelConfig model = read_model_config(config, "config.json");
  CHECK(model.head ==
        "deepseek-v3,layers=61,hidden=7168,heads=128,kv_heads=128,ffn=2048,vocabulary=129280,"
        "expert_count=256,experts_per_token=8,key_rank=512,rope_size=64,value_size=128,"
        "dense_layers=3,dense_ffn=18432,tied=0,head_size=192,query_rank=1536,shared_ffn=2048");
  REQUIRE(model.notes.size() == 2);
  CHECK(mentions(model.notes.at(0), "(fp8) is left out: weights are taken whole"));
  CHECK(mentions(model.notes.at(1), "num_nextn_predict_layers=1"));
}

TEST_CASE("windows are left out of workloads that keep a cache, and said to be") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("config.json", R"({"model_type": "mistral", "hidden_size": 4096,
      "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 32000, "sliding_window": 4096})");
  const DescribedWorkload trained = with_configs("train:" + path);
  CHECK(mentions(trained.text, "window=4096,window_every=0"));
  CHECK(trained.notes.empty());
  CHECK(!mentions(with_configs("serve:" + path).text, "window"));
  const std::vector<std::string> notes = left_out_of_workload("serve:" + path + ",requests=4");
  REQUIRE(notes.size() == 1);
  CHECK(mentions(notes.front(), "window=4096 is left out"));
}

TEST_CASE("what no key says is named with what it amounts to") {
  const auto notes_of = [](const std::string& more) {
    std::string json = kLlama32;
    json.insert(json.rfind('}'), more);
    return read_model_config(json, "config.json").notes;
  };
  CHECK(notes_of("").empty());
  CHECK(notes_of(R"(, "attention_dropout": 0.0, "sliding_window": null)").empty());
  // 28 blocks: 24 + 2 x 8 heads of 128, and 3,072 of the output; 2 x 8,192 and 3,072 of the MLP.
  CHECK(
      mentions(notes_of(R"(, "attention_bias": true)").at(0), "229376 parameters more, 0.44 MiB"));
  CHECK(mentions(notes_of(R"(, "mlp_bias": true)").at(0), "544768 parameters more, 1.04 MiB"));
  CHECK(mentions(notes_of(R"(, "attention_dropout": 0.1)").at(0), "batch x 24 x seq x seq x 3"));
  // 28 x (2 x 3,072 x 32 x 128 + 3 x 3,072 x 8,192) weights, 1.5 bytes less each.
  CHECK(mentions(notes_of(R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})").at(0),
                 "(gptq) is left out: weights are taken whole, 3.94 GiB more"));
  CHECK(mentions(notes_of(R"(, "quantization_config": {"quant_method": "other"})").at(0),
                 "(other) is left out: weights are taken whole"));
}

TEST_CASE("blocks of a mixture without experts are counted") {
  const auto notes_of = [](const std::string& more) {
    return read_model_config(R"({"model_type": "qwen3_moe", "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936)" +
                                 more + "}",
                             "config.json")
        .notes;
  };
  CHECK(notes_of(R"(, "decoder_sparse_step": 1, "mlp_only_layers": [])").empty());
  CHECK(mentions(notes_of(R"(, "mlp_only_layers": [0, 1])").at(0),
                 "2 blocks without experts are taken for blocks with them: 1208483840 parameters "
                 "where the model has 75497472"));
  CHECK(mentions(notes_of(R"(, "decoder_sparse_step": 2)").at(0), "24 blocks"));
}

TEST_CASE("a Phi 3 has its own blocks, and says what part of a head turns") {
  const auto phi_with = [](const std::string& more) {
    return read_model_config(
        R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192,
        "vocab_size": 32064, "tie_word_embeddings": false)" +
            more + "}",
        "config.json");
  };
  const std::string head =
      "phi-3-mini,layers=32,hidden=3072,heads=32,kv_heads=32,ffn=8192,"
      "vocabulary=32064,tied=0,head_size=96";
  for (const char* more : {"", R"(, "partial_rotary_factor": 1.0, "rope_scaling": null)"}) {
    const ModelConfig phi = phi_with(more);
    CHECK(phi.head == head);
    CHECK(phi.notes.empty());
  }
  for (const char* more : {R"(, "partial_rotary_factor": 0.75)",
                           R"(, "rope_parameters": {"partial_rotary_factor": 0.75})"}) {
    CHECK(phi_with(more).head == head + ",rope_size=72");
  }
  const ModelConfig dropping = phi_with(R"(, "resid_pdrop": 0.1, "embd_pdrop": 0.0)");
  REQUIRE(dropping.notes.size() == 1);
  CHECK(mentions(dropping.notes.front(), "resid_pdrop=0.1 is left out"));
}

TEST_CASE("a workload's text takes the config's keys, and its own win") {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", kLlama32);
  const DescribedWorkload described = with_configs("train:" + path + ",layers=2,seq=64");
  CHECK(described.text ==
        "train:llama-3-8b,hidden=3072,heads=24,kv_heads=8,ffn=8192,vocabulary=128256,tied=1,"
        "head_size=128,layers=2,seq=64");
  CHECK(described.notes.empty());
  CHECK(with_configs("train:gpt2-124m").text == "train:gpt2-124m");
  CHECK(with_configs("file:" + path).text == "file:" + path);
}

TEST_CASE("a config is a workload wherever one is opened, alone and beside another") {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", kLlama32);
  const std::string small = ",layers=1,batch=1,seq=64,steps=1";
  const std::string said =
      "train:llama-3-8b,hidden=3072,heads=24,kv_heads=8,ffn=8192,"
      "vocabulary=128256,tied=1,head_size=128" +
      small;
  const std::string typed = "train:" + path + small;
  const auto peak = [](const std::string& text) {
    return summarize(*open_workload(text, 1)).requested_bytes_peak;
  };
  CHECK(peak(typed) == peak(said));
  CHECK(define_workload(typed) == said);
  CHECK(define_workload(typed + " beside " + typed) == said + " beside " + said);
  CHECK(define_workload(said).empty());
  CHECK(mentions(deciding_presets(typed), "precision="));
  CHECK_THROWS_AS(open_workload("train:/no/config.json", 1), FileError);
}
