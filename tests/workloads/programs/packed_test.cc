// Goal: batches of packed texts ask for what transformers' do. Method: peaks of recordings, and
// what is refused.
#include <cstdint>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

std::uint64_t most_requested(const std::string& workload) {
  return summarize(*open_workload(workload, 1)).requested_bytes_peak;
}

}  // namespace

TEST_CASE("texts packed into a sequence are kept apart by a mask of all pairs") {
  // Peaks of PyTorch 2.11 with transformers 5.17 on simcuda, which ran the same steps with
  // positions that begin anew. Of Llama 128 bytes less: a copy of its frequencies.
  const std::string sizes = ",layers=4,steps=3,kv_cache=none,optimizer=adamw,packed=1,batch=";
  const std::string llama =
      "train:llama-3-8b,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000";
  const std::string gpt2 = "train:gpt2-124m";
  CHECK(most_requested(llama + sizes + "1,seq=2048,precision=bf16") == 1'954'724'040);
  CHECK(most_requested(llama + sizes + "3,seq=1024,precision=bf16") == 2'541'463'752);
  CHECK(most_requested(llama + sizes + "1,seq=2048,precision=bf16,checkpoint=full") ==
        1'555'675'272);
  CHECK(most_requested(llama + sizes + "1,seq=2048,precision=bf16_autocast") == 2'862'846'280);
  CHECK(most_requested(llama + sizes + "1,seq=512,precision=bf16,attention=eager") ==
        1'173'461'124);
  CHECK(most_requested(gpt2 + sizes + "2,seq=512,precision=bf16") == 1'283'010'120);
  // With a cache transformers does not look for packed texts: positions and labels alone.
  const std::string cached = llama + ",layers=4,steps=3,batch=1,seq=2048,precision=bf16";
  const std::uint64_t more_bytes = most_requested(cached + ",packed=1") - most_requested(cached);
  CHECK(more_bytes < 100'000);
}

TEST_CASE("packed texts are refused where no mask would keep them apart") {
  const auto refuses = [](const std::string& keys, const std::string& rule) {
    const std::string refusal = refusal_of("train:llama-3-8b,packed=1," + keys);
    INFO(refusal);
    CHECK(refusal.find(rule) != std::string::npos);
  };
  refuses("attention_mask=ones", "attention_mask=none");
  refuses("cp=2", "pp or cp");
  refuses("pp=2", "pp or cp");
  refuses("window=64", "window=0");
  refuses("vision=vit-base,seq=400", "vision=none");
  refuses("kv_cache=none,compile=inductor", "packed=0");
}

TEST_CASE("repeated heads are held while autocast reads its casts of them") {
  // The peak of PyTorch 2.11 with transformers 5.17 on simcuda, which evaluated the same batches;
  // its program kept the last one's loss.
  CHECK(most_requested("train:llama-3-8b,layers=1,hidden=1024,heads=16,kv_heads=4,ffn=64,"
                       "vocabulary=64,batch=2,seq=1024,steps=0,eval_every=1,kv_cache=none,"
                       "precision=bf16_autocast,attention_mask=padding") == 108'859'924 - 4);
}
