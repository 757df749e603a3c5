// Goal: generation with guesses, beams and caches asks for what the recorded programs ask for, and
// impossible settings are refused.
#include <cmath>
#include <cstdint>
#include <string>

#include "harness/tools/fidelity/fidelity.h"
#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

TEST_CASE("assisted generation is the recorded one") {
  // 11 rounds of 5 guesses, none of which was right.
  const TraceShape recorded = measure_shape(*open_workload("llama_assisted", 1));
  const TraceShape generated = measure_shape(*open_workload(
      "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
      "requests=1,batch=1,seq=100,context_max=100,generated_max=48,lengths=lognormal,"
      "median=100000,sigma_percent=0,attention=fused,draft=llama-3-8b,draft_layers=2,"
      "draft_hidden=512,draft_heads=8,draft_kv_heads=4,draft_ffn=1408,accept_percent=0,"
      "events=30000",
      1));
  const FidelityReport report = compare_shapes(recorded, generated);
  CHECK(std::abs(report.peak_change) < 1e-5);
  CHECK(report.size_overlap > 0.999);
  CHECK(report.lifetime_overlap > 0.99);
  CHECK(report.curve_distance < 0.001);
}

TEST_CASE("guesses that are right make fewer rounds, and no answer is longer than it should be") {
  const auto rounds = [](const std::string& accept_percent) {
    std::uint64_t logits = 0;
    for (const Event& event : read_all(*open_workload(
             "infer:gpt2-124m,layers=1,requests=1,batch=1,seq=10,context_max=10,generated_max=20,"
             "lengths=lognormal,median=100000,sigma_percent=0,draft=gpt2-124m,draft_layers=1,"
             "draft_tokens=4,precision=fp32,accept_percent=" +
                 accept_percent,
             1))) {
      // The model's logits of five tokens, or of what is left.
      if (event.kind == EventKind::Alloc && event.size_bytes == 5 * 50257 * 4) ++logits;
    }
    return logits;
  };
  // Each round of five rows has its logits, and a copy of them, which have four bytes already.
  CHECK(rounds("100") == 2 * 4);
  CHECK(rounds("0") == 2 * 16);
}

TEST_CASE("generation gives everything back and asks for nothing of no size") {
  const std::string small = ",layers=1,vocabulary=500,requests=3,context_max=40,generated_max=9";
  for (const std::string options :
       {"infer:gpt2-124m,batch=2,kv=paged",
        "infer:gpt2-124m,batch=2,kv=preallocated,attention=fused",
        "infer:gpt2-124m,batch=2,beams=3",
        "infer:gpt2-124m,batch=2,sample=1,padding=1,attention=fused", "infer:t5-small,batch=2",
        "infer:gpt2-124m,batch=1,draft=gpt2-124m,draft_layers=1"}) {
    INFO(options);
    const TraceSummary summary = summarize(*open_workload(options + small, 1));
    CHECK(summary.leftover_count == 0);
    CHECK(summary.zero_size_count == 0);
  }
}

TEST_CASE("impossible generation is refused with key, value and rule") {
  CHECK(mentions(refusal_of("infer:gpt2-124m,beams=4,kv=paged"), "1 without kv=concat"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,beams=4,sample=1"), "0 with beams above 1"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,draft=gpt2-124m"), "batch=1, beams=1, sample=0"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,batch=1,draft=llama-3-8b"), "the same family"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,batch=1,draft=gpt2-124m,draft_heads=5"),
                 "a divisor of draft_hidden = 768"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,accept_percent=5"), "unknown key 'accept_percent'"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,batch=1,batches=3/1,draft=gpt2-124m,draft_layers=2"),
                 "quantize=none and no batches"));
  CHECK(mentions(refusal_of("infer:vit-base,seq=5"), "unknown key 'seq'"));
  CHECK(mentions(refusal_of("infer:t5-small,beams=2"), "1 for T5 models"));
  CHECK(mentions(refusal_of("infer:t5-small,kv=paged"), "concat for T5 models; got paged"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,embeddings=1"), "unknown key 'embeddings'"));
}
