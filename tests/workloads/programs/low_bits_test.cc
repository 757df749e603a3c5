// Products with fewer than sixteen bits: integers that are made whole for inference, and float8.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/workloads/kind_peak.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

std::int64_t count_of_size(const std::string& workload, std::uint64_t size_bytes) {
  const std::vector<std::uint64_t> sizes = sizes_of(workload);
  return std::count(sizes.begin(), sizes.end(), size_bytes);
}

}  // namespace

TEST_CASE("integer weights take their bits and a scale of two bytes per group of 128") {
  const std::string model = "infer:llama-3-8b,layers=2,requests=1,batch=1,seq=9,answers=1";
  const std::uint64_t matrices =
      2ull * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14'336);  // elements of two blocks
  const std::uint64_t whole = kind_peak(model, TensorKind::Parameter);
  const auto saved_by = [&](const std::string& bits) {
    return whole - kind_peak(model + ",quantize=" + bits, TensorKind::Parameter);
  };
  CHECK(saved_by("int8") == matrices - matrices / 128 * 2);
  CHECK(saved_by("int4") == matrices / 2 * 3 - matrices / 128 * 2);
}

TEST_CASE("integer weights are made whole for every product, of a single token too") {
  const std::string model =
      "infer:llama-3-8b,layers=1,requests=1,batch=1,seq=9,answers=3,vocabulary=999,quantize=";
  // Three matrices of the MLP, three forwards: the prompt's and two tokens'.
  const std::uint64_t elements = 4096ull * 14'336;
  CHECK(count_of_size(model + "int8", elements * 2) == 3 * 3 * 2);  // cast, scaled
  CHECK(count_of_size(model + "int4", elements * 2) == 3 * 3 * 3);  // cast, centred, scaled
  CHECK(count_of_size(model + "int4", elements) == 3 * 3);          // two values out of each byte
  // bitsandbytes multiplies a single row by the packed weight.
  CHECK(count_of_size(model + "nf4", elements * 2) == 3 + 3);  // once to be quantised, once whole
}

TEST_CASE("integer weights belong to a model in two bytes, and to inference") {
  CHECK(mentions(refusal_of("infer:llama-3-8b,quantize=int8,precision=fp32"), "int8"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,quantize=int8"), "unknown key 'quantize'"));
  CHECK(mentions(refusal_of("train:llama-3-8b,lora=8,precision=bf16,quantize=int4"), "none, nf4"));
}

TEST_CASE("a product in float8 saves one byte per element and casts anew in the backward") {
  const std::string model =
      "train:llama-3-8b,layers=1,batch=1,seq=4096,steps=1,precision=bf16,kv_cache=none,"
      "optimizer=sgd,vocabulary=999,";
  const std::uint64_t weight = 4096ull * 14'336;
  // As many elements have the three weights of the MLP, the results of two products and the input
  // of the third. In one byte: weights and input, cast forward; two gradients, cast backward and
  // turned; weights and input, turned.
  CHECK(count_of_size(model + "products=own", weight) == 0);
  CHECK(count_of_size(model + "products=fp8", weight) == 3 + 1 + 2 + 2 + 3 + 1);
  CHECK(kind_peak(model + "products=fp8", TensorKind::Parameter) ==
        kind_peak(model + "products=own", TensorKind::Parameter));
}

TEST_CASE("float8 is refused where its products cannot be") {
  const std::string fits = "train:llama-3-8b,layers=1,batch=1,seq=64,steps=1,products=fp8";
  CHECK(mentions(refusal_of(fits), "precision is not bf16"));
  CHECK_NOTHROW(open_workload(fits + ",precision=bf16", 1));
  CHECK(mentions(refusal_of("train:llama-3-8b,seq=65,batch=1,precision=bf16,products=fp8"),
                 "multiples of 16"));
  CHECK(mentions(refusal_of(fits + ",precision=bf16,tp=2"), "tp or pp"));
  CHECK(mentions(refusal_of(fits + ",precision=bf16,lora=4"), "where lora is given"));
  CHECK(mentions(refusal_of("train:qwen2.5-0.5b,precision=bf16,products=fp8"), "biases"));
  CHECK(mentions(refusal_of("train:gpt2-124m,products=fp8"), "unknown key 'products'"));
}

TEST_CASE("programs of few bits ask for as much as PyTorch does") {
  // scripts/record/references/low_bits.py on PyTorch 2.11 and transformers 5.17, as
  // results/published/history/generators.md says.
  const std::string model = "llama-3-8b,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,";
  const auto asks = [&](const std::string& workload, std::uint64_t allocs, std::uint64_t peak) {
    INFO(workload);
    const std::string text = workload.substr(0, 6) + model + workload.substr(6);
    CHECK(sizes_of(text).size() == allocs);
    CHECK(summarize(*open_workload(text, 1)).requested_bytes_peak == peak);
  };
  asks(
      "train:layers=6,batch=2,seq=1024,steps=3,precision=bf16,kv_cache=none,"
      "optimizer=adamw_fused,products=fp8",
      6195, 4'634'203'036);
  asks("infer:layers=8,requests=4,batch=4,seq=200,answers=24,quantize=int8", 12'135, 743'912'760);
}
