// Single operators of the generators against what recordings of PyTorch hold.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

TEST_CASE("Qwen models have as many parameters as were published") {
  const auto parameters_of = [](const std::string& model) {
    const TraceSummary summary =
        summarize(*open_workload("infer:" + model + ",requests=1,seq=1,answers=1", 1));
    return summary.tensor_bytes_peak[static_cast<std::size_t>(TensorKind::Parameter)] / 2;
  };
  CHECK(parameters_of("qwen2.5-0.5b") == 494'032'768);
  CHECK(parameters_of("qwen2.5-7b") == 7'615'616'512);
  CHECK(parameters_of("qwen3-0.6b") == 596'049'920);
  CHECK(parameters_of("qwen3-8b") == 8'190'735'360);
  // A server keeps the same weights, joined.
  const TraceSummary server =
      summarize(*open_workload("serve:qwen3-0.6b,requests=1,kv=concat,generated_max=2", 1));
  CHECK(server.tensor_bytes_peak[static_cast<std::size_t>(TensorKind::Parameter)] / 2 ==
        596'049'920);
}

TEST_CASE("image models have as many parameters as were published") {
  const auto parameters_of = [](const std::string& model) {
    const TraceSummary summary =
        summarize(*open_workload("train:" + model + ",batch=1,steps=1,precision=fp32", 1));
    return summary.tensor_bytes_peak[static_cast<std::size_t>(TensorKind::Parameter)] / 4;
  };
  CHECK(parameters_of("dit-xl") == 675'129'632);
  CHECK(parameters_of("vit-base") == 86'567'656);
  CHECK(parameters_of("vit-base,implementation=timm") == 86'567'656);
}

TEST_CASE("a diffusion transformer's blocks are modulated by rows of their own") {
  const std::vector<std::uint64_t> sizes =
      sizes_of("train:dit-s,layers=2,batch=5,steps=1,precision=bf16,optimizer=sgd");
  const auto count_of = [&sizes](std::uint64_t size_bytes) {
    return std::count(sizes.begin(), sizes.end(), size_bytes);
  };
  // Six rows of 384 per image and block, and their gradient.
  CHECK(count_of(5 * 6 * 384 * 2) == 2 * 2);
  // One projection to query, key and value: forward, stacked and copied back.
  CHECK(count_of(5 * 256 * 3 * 384 * 2) == 2 * 3);
}

TEST_CASE("timm's ViT projects to query, key and value at once") {
  const auto steps_of = [](const std::string& keys) {
    return sizes_of("train:vit-base,layers=1,batch=2,steps=1,optimizer=sgd,precision=bf16" + keys);
  };
  // Forward; backward a stack and its copy.
  const std::vector<std::uint64_t> whole = steps_of(""), joint = steps_of(",implementation=timm");
  CHECK(std::count(joint.begin(), joint.end(), 2 * 197 * 3 * 768 * 2) == 3);
  CHECK(std::count(whole.begin(), whole.end(), 2 * 197 * 3 * 768 * 2) == 0);
  CHECK(joint.size() < whole.size());
}

// The last number of rows is what PyTorch 2.11's own code did on a simulated H200.
TEST_CASE("a small table's gradient is added at once up to PyTorch's number of rows") {
  // Pieces: one in ten of the tokens, and one a row.
  const auto has_sums = [](const std::string& model, std::uint64_t tokens, std::uint64_t rows,
                           std::uint64_t width) {
    const std::vector<std::uint64_t> sizes =
        sizes_of("train:" + model + ",layers=1,steps=1,precision=bf16,seq=1024,batch=" +
                 std::to_string(tokens / 1024) + ",vocabulary=" + std::to_string(rows));
    return std::count(sizes.begin(), sizes.end(), (tokens / 10 + rows) * width * 4) > 0;
  };
  CHECK_FALSE(has_sums("qwen2.5-0.5b", 4096, 136, 896));
  CHECK(has_sums("qwen2.5-0.5b", 4096, 137, 896));
  CHECK_FALSE(has_sums("qwen2.5-0.5b", 16384, 527, 896));
  CHECK(has_sums("qwen2.5-0.5b", 16384, 528, 896));
  CHECK_FALSE(has_sums("qwen3-8b", 16384, 109, 4096));
  CHECK(has_sums("qwen3-8b", 16384, 110, 4096));
  CHECK_FALSE(has_sums("qwen3-8b", 61440, 131, 4096));
  CHECK(has_sums("qwen3-8b", 61440, 132, 4096));
}

TEST_CASE("answers are as long as they were given, batch by batch") {
  // Each new token makes a longer cache of keys and values per layer; the prompt's pass the first.
  const auto caches_of = [](const std::string& keys) {
    std::size_t caches = 0;
    for (const Event& event : read_all(*open_workload("infer:" + keys, 1))) {
      caches += event.kind == EventKind::Alloc && event.tensor == TensorKind::KvCache ? 1 : 0;
    }
    return caches;
  };
  const std::string model = "gpt2-124m,layers=3,batch=2,requests=6,seq=20/30/10,";
  CHECK(caches_of(model + "answers=5") == 3 * 5 * 3 * 2);
  CHECK(caches_of(model + "answers=7/1") == (7 + 1 + 7) * 3 * 2);
  CHECK(caches_of("t5-small,layers=3,batch=2,requests=4,seq=20,answers=4/6") == (10 + 2) * 3 * 2);
}

TEST_CASE("T5's targets vary from step to step") {
  // Logits of the decoder's tokens: 2 sequences of each length, 1000 words.
  const std::vector<std::uint64_t> sizes = sizes_of(
      "train:t5-small,layers=1,vocabulary=1000,batch=2,seq=50,target=30/70/40,steps=4,"
      "precision=bf16,kv_cache=none");
  const auto logits_of = [&sizes](std::uint64_t tokens) {
    return std::count(sizes.begin(), sizes.end(), 2 * tokens * 1000 * 2);
  };
  CHECK(logits_of(30) == 2 * logits_of(70));
  CHECK(logits_of(70) > 2);
}

TEST_CASE("a batch that nobody keeps goes before the next one comes") {
  const auto live_at_step = [](const std::string& keys) {
    std::map<std::uint64_t, std::uint64_t> live;
    std::uint64_t bytes = 0, marks = 0;
    for (const Event& event :
         read_all(*open_workload("train:vit-base,layers=1,batch=2," + keys, 1))) {
      if (event.kind == EventKind::Mark && ++marks == 3) break;
      if (event.kind == EventKind::Alloc) bytes += live[event.id] = event.size_bytes;
      if (event.kind == EventKind::Free) bytes -= live[event.id];
    }
    return bytes;
  };
  // Two images of 3 x 224 x 224 in four bytes, and two labels.
  CHECK(live_at_step("steps=2") == live_at_step("steps=2,keep_batch=0") + 2 * 602'112 + 16);
}

TEST_CASE("the memory-efficient kernel gives gradients in the order of tokens") {
  // A cache copies keys and values, and nothing copies their gradients: two blocks a step.
  const std::string model =
      "train:gpt2-124m,layers=1,batch=2,seq=64,steps=1,precision=fp32,attention=fused";
  const auto hidden_of = [](const std::string& workload) {
    const std::vector<std::uint64_t> sizes = sizes_of(workload);
    return std::count(sizes.begin(), sizes.end(), 2 * 64 * 768 * 4);
  };
  CHECK(hidden_of(model) == hidden_of(model + ",kv_cache=none") + 2);
}

TEST_CASE("rows are sorted by as many bits as their numbers have") {
  const auto scratch_of = [](const std::string& lengths) {
    const std::vector<std::uint64_t> sizes = sizes_of(
        "train:mixtral-8x7b,layers=1,hidden=64,heads=4,kv_heads=2,ffn=96,vocabulary=1000,steps=1,"
        "attention=fused," +
        lengths);
    return std::count(sizes.begin(), sizes.end(), 71'167);
  };
  // 4,096 pairs of 2,048 tokens, recorded: two passes of eight bits.
  CHECK(scratch_of("batch=2,seq=1024") == 3);
  CHECK(scratch_of("batch=2,seq=512") == 0);
}
