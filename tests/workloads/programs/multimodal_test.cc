// LLaVA: a ViT and a projector in front of a Llama.
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

const std::string kText =
    "train:llama-3-8b,layers=2,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,batch=2,"
    "seq=300,steps=2,precision=fp32,kv_cache=none";
constexpr std::uint64_t kProjector = 768ull * 1024 + 1024 + 1024 * 1024 + 1024;

}  // namespace

TEST_CASE("a model that sees images has a ViT, its pooler and a projector besides") {
  // vit-base with its classes is 86,567,656; a pooler of 768 x 768 stands where 1000 classes did.
  const std::uint64_t tower = 86'567'656 - 1000 * 769 + 768 * 769;
  CHECK(kind_peak(kText + ",vision=vit-base", TensorKind::Parameter) -
            kind_peak(kText, TensorKind::Parameter) ==
        4 * (tower + kProjector));
}

TEST_CASE("what the loss does not depend on has no optimizer state") {
  const auto states = [](const std::string& keys) {
    return kind_peak(kText + keys, TensorKind::OptimizerState);
  };
  // Two states of four bytes. AdamW counts steps on the host.
  CHECK(states(",vision=vit-base") - states("") == 8 * kProjector);
  // Not the ViT's last block (7,087,872), its norm and its pooler.
  const std::uint64_t trained = 86'567'656 - 1000 * 769 - 7'087'872 - 2 * 768;
  CHECK(states(",vision=vit-base,vision_frozen=0") - states("") == 8 * (kProjector + trained));
}

TEST_CASE("a ViT that is trained keeps its activations, a frozen one does not") {
  const auto activations = [](const std::string& keys) {
    return kind_peak(kText + keys, TensorKind::Activation);
  };
  const std::uint64_t frozen = activations(",vision=vit-base");
  const std::uint64_t trained = activations(",vision=vit-base,vision_frozen=0");
  // Of each of eleven blocks at least two inner layers of 3072.
  CHECK(trained - frozen > 11ull * 2 * 2 * 197 * 3072 * 4);
  CHECK(frozen - activations("") < 8ull << 20);
}

TEST_CASE("the patches of a single image are not copied for the projector") {
  // 196 rows of 768 in four bytes, without the class token.
  const auto copies = [](std::uint64_t batch) {
    const std::string text =
        "train:llama-3-8b,layers=1,hidden=1024,heads=16,ffn=2816,kv_heads=4,seq=300,steps=1,"
        "precision=fp32,vision=vit-base,batch=";
    const std::vector<Event> events = read_all(*open_workload(text + std::to_string(batch), 1));
    return std::count_if(events.begin(), events.end(), [&](const Event& event) {
      return event.kind == EventKind::Alloc && event.size_bytes == batch * 196 * 768 * 4;
    });
  };
  CHECK(copies(2) == copies(1) + 1);
}

TEST_CASE("images are refused where no text has room for them") {
  CHECK_NOTHROW(open_workload(kText + ",vision=vit-huge", 1));
  CHECK(mentions(refusal_of("train:llama-3-8b,seq=196,vision=vit-base"), "patches = 196"));
  CHECK(mentions(refusal_of(kText + ",vision=vit-base,checkpoint=full"), "checkpoint"));
  CHECK(mentions(refusal_of(kText + ",vision=vit-base,dp=2"), "dp is above 1"));
  CHECK(mentions(refusal_of("train:gpt2-124m,vision=vit-base"), "unknown key 'vision'"));
  CHECK(mentions(refusal_of(kText + ",vision_frozen=1"), "vision_frozen"));
}

TEST_CASE("LLaVA's training has PyTorch's peak") {
  // scripts/record/references/multimodal.py on PyTorch 2.11 and transformers 5.17, as
  // results/published/history/generators.md says.
  const auto peak = [](const std::string& workload) {
    return summarize(*open_workload(workload, 1)).requested_bytes_peak;
  };
  const std::string model =
      "train:llama-3-8b,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,steps=3,"
      "kv_cache=none,vision=vit-base,";
  CHECK(peak(model + "layers=6,batch=4,seq=512,precision=bf16,optimizer=adamw_fused") ==
        2'401'990'108);
  CHECK(peak(model + "layers=4,batch=2,seq=400,vision_frozen=0") == 3'923'694'084);
}

TEST_CASE("an image in a prompt is seen once") {
  // llava_generate, with the workspaces of two convolutions.
  const std::string model =
      "infer:llama-3-8b,layers=6,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,"
      "requests=8,batch=4,seq=300/240,answers=16";
  const std::vector<Event> events = read_all(*open_workload(model + ",vision=vit-base", 1));
  const auto count = [&](std::uint64_t size_bytes) {
    return std::count_if(events.begin(), events.end(), [&](const Event& event) {
      return event.kind == EventKind::Alloc && (size_bytes == 0 || event.size_bytes == size_bytes);
    });
  };
  CHECK(count(0) == 10'513);
  CHECK(count(7'561'232) == 2);
  // Two batches of four images of 3 x 224 x 224, and the patches that the tower makes of them.
  CHECK(count(4ull * 3 * 224 * 224 * 2) == 2 * 3);
  CHECK(summarize(*open_workload(model + ",vision=vit-base", 1)).requested_bytes_peak ==
        518'055'784);
  CHECK(mentions(refusal_of(model + ",vision=vit-base,beams=2"), "beams=1"));
  CHECK(mentions(refusal_of(model + ",vision=vit-base,quantize=int8"), "quantize=none"));
  CHECK(mentions(refusal_of("infer:llama-3-8b,vision=vit-base"), "patches = 196"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,vision=vit-base"), "unknown key 'vision'"));
}
