// Generators: valid events, the same bytes for the same seed on every machine (golden hashes, which
// were also computed apart in Python from the written files), bounded batches, and the distance of
// train from recorded PyTorch runs.
#include "workloads/generators.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/trace_files.h"
#include "workloads/summary.h"
#include "workloads/trace_hash.h"
#include "workloads/trace_tools.h"

using namespace allocmark;

namespace {

// The example of a generator, ending after so many events.
std::string cut_example(const GeneratorEntry& generator, std::uint64_t event_count) {
  const std::string_view example = generator.example;
  return std::string(example.substr(0, example.find(",events="))) +
         ",events=" + std::to_string(event_count);
}

std::uint64_t hash_of(const std::string& workload, std::uint64_t seed) {
  return trace_hash(*open_workload(workload, seed));
}

}  // namespace

TEST_CASE("the same text and seed give the same bytes") {
  struct Golden {
    std::string workload;
    std::uint64_t hash, events, peak;
  };
  const Golden goldens[] = {
      {"train:gpt2-124m,batch=2,seq=128,steps=2", 0x0d8494a852efea7cu, 6806, 2556955652},
      {"train:gpt2-124m,batch=2,seq=128,steps=1,checkpoint=full,kernels=1", 0x2261a019f373c532u,
       5240, 2558004228},
      {"train:bert-base,batch=2,seq=64,steps=1,precision=fp32,optimizer=sgd", 0x12711c94ec1e7fd1u,
       2139, 1131808216},
      {"train:llama-2-7b,batch=1,seq=256,steps=1,precision=bf16,attention=fused",
       0xf28fcf7442e26227u, 9481, 67451267332},
      {"train:llama-3-8b,batch=1,seq=256,steps=1", 0x3e89ea9218597e69u, 11735, 160672336388},
      {"infer:gpt2-124m,requests=6,batch=2,generated_max=20", 0x54aa5329da5b0eeeu, 47285,
       369498664},
      {"infer:llama-3-8b,requests=4,batch=2,lengths=code,kv=preallocated,generated_max=8",
       0xf6a730a551020a4au, 56074, 54393953896},
      {"infer:bert-base,requests=20,batch=8,arrival=random,lengths=lognormal,precision=fp32",
       0x3b249a247cb4fa5fu, 2521, 584733376},
      {"infer:llama-2-7b,requests=2,kv=paged,attention=fused,generated_max=4,kernels=1",
       0x63d21d9d235feffeu, 14898, 82510540072},
      {"churn:events=20000", 0x8d0ab9090ad35085u, 20000, 4362055102},
      {"churn:events=20000,streams=3,record_percent=10,live_bytes=1GiB", 0x5eebfee04a03632eu, 20000,
       1140786337},
      {"comb:count=100,rounds=3", 0xe14a8a5cc32ea11bu, 609, 641728512},
      {"sawtooth:teeth=3,sync=1,order=oldest", 0xb0bfc42f9e15196eu, 454, 4294967296},
      {"growing:count=3,rounds=2,size_max=20MiB,growth_percent=5", 0x6f47649de3bdfa10u, 242,
       82837504},
      {"robson:live_bytes=64MiB,size_max=16MiB,rounds=2", 0x69c06a58a39fbf1du, 192, 67108864},
      {"slivers:count=10", 0xcfafe94d49be01cau, 354, 671088640},
      {"boundaries:rounds=3", 0x901fc9f9bce952e9u, 1353, 402654720},
      {"producer:items=1200,consumers=3,fan_out=2,busy=1,sync_every=7", 0x103e72ec383fc063u, 8574,
       201326592},
      {"litter:fill_bytes=100MiB,rounds=2", 0x698d5b8ba0b5dc5eu, 103, 104857600},
      {"oom_edge:level_bytes=1GiB,over_bytes=5MiB,turns=9", 0x193946690e19ee2cu, 178, 1078984704},
      {"litter:fill_bytes=10MiB then growing:count=2,size_max=9MiB", 0xfb69e5e2821986a3u, 91,
       27262976},
      {"producer:items=99 beside litter:fill_bytes=10MiB then comb:count=4 beside gpt2_train_amp",
       0x3600d38813a983acu, 14144, 21743215112},
  };
  for (const Golden& golden : goldens) {
    INFO(golden.workload);
    const std::unique_ptr<EventSource> source = open_workload(golden.workload, 1);
    const TraceSummary summary = summarize(*source);
    CHECK(summary.hash == golden.hash);
    CHECK(summary.event_count == golden.events);
    CHECK(summary.requested_bytes_peak == golden.peak);
    source->rewind();
    CHECK(trace_hash(*source) == golden.hash);
  }
}

TEST_CASE(
    "every generator yields the same bytes twice, from a new source and from the first event") {
  for (const GeneratorEntry& generator : generators()) {
    const std::string workload = cut_example(generator, 20'000);
    INFO(workload);
    const std::unique_ptr<EventSource> source = open_workload(workload, 7);
    const std::uint64_t hash = trace_hash(*source);
    CHECK(hash == hash_of(workload, 7));
    source->rewind();
    CHECK(hash == trace_hash(*source));
  }
}

TEST_CASE("other seeds give other bytes where chance plays a part") {
  CHECK(hash_of("churn:events=1000", 1) != hash_of("churn:events=1000", 2));
  CHECK(hash_of("infer:llama-3-8b,requests=4,events=3000", 1) !=
        hash_of("infer:llama-3-8b,requests=4,events=3000", 2));
  CHECK(hash_of("train:gpt2-124m,steps=1,events=3000", 1) ==
        hash_of("train:gpt2-124m,steps=1,events=3000", 2));
}

TEST_CASE("every example in the registry opens and yields valid events") {
  for (const GeneratorEntry& generator : generators()) {
    INFO(generator.example);
    const std::string text = std::string(generator.example);
    const TraceSummary summary = summarize(*open_workload(
        text + (text.find("events=") == std::string::npos ? ",events=50000" : ""), 1));
    CHECK(summary.event_count > 1000);
    CHECK(summary.header.generator.starts_with(text));
  }
}

TEST_CASE("events= bounds every generator exactly") {
  for (const GeneratorEntry& generator : generators()) {
    const std::string workload = cut_example(generator, 777);
    INFO(workload);
    const std::unique_ptr<EventSource> source = open_workload(workload, 1);
    CHECK(read_all(*source).size() == 777);
    source->rewind();
    CHECK(read_all(*source).size() == 777);
  }
}

TEST_CASE("batches and labels stay few however long the trace is") {
  std::vector<std::string> workloads = {"churn:events=3000000,streams=4,mark_every=1000",
                                        "train:gpt2-1.5b,steps=3",
                                        "comb:count=200000,rounds=2",
                                        "infer:llama-3.1-405b,events=1000000",
                                        "train:gpt2-124m,layers=1,batch=1,seq=1,steps=3000",
                                        "boundaries:rounds=3000 beside comb:count=2,rounds=3000"};
  for (const GeneratorEntry& generator : generators()) {
    workloads.push_back(cut_example(generator, 300'000));
  }
  for (const std::string& workload : workloads) {
    INFO(workload);
    const std::unique_ptr<EventSource> source = open_workload(workload, 1);
    std::size_t largest = 0;
    for (std::span<const Event> batch = source->next(); !batch.empty(); batch = source->next()) {
      largest = std::max(largest, batch.size());
    }
    CHECK(largest <= 8192);
    CHECK(source->labels().size() <= 2010);
  }
}

TEST_CASE("generated steps ask for what the recorded programs asked, row by row") {
  struct Pair {
    std::string generated, recorded;
    std::size_t row_count;    // compared from the start
    std::size_t missing_max;  // of the recorded rows
    bool with_frees;
  };
  const Pair pairs[] = {
      // The recorded GPT-2 programs divide each loss by 1: a tensor of 4 bytes forward and
      // backward.
      {"train:gpt2-124m,batch=8,seq=1024,steps=4", "gpt2_train_amp", 6803, 8, false},
      {"train:gpt2-124m,batch=8,seq=1024,steps=4,checkpoint=full", "gpt2_train_ckpt", 9092, 8,
       false},
      {"train:llama-2-7b,layers=8,hidden=1536,heads=16,ffn=4096,batch=2,steps=3,accumulate=4,"
       "seq=167/412/127/351/552/557/844/542/291/249,precision=bf16,checkpoint=full,lora=16",
       "llama_lora_varlen_accum", 29000, 0, true},
      {"infer:bert-base,precision=fp32,requests=33,batch=16,batches=8/1/8/16,seq=267/86/368/314",
       "bert_varlen_infer", 2200, 0, true},
      {"train:gpt2-355m,batch=4,seq=1024,steps=3", "gpt2_medium_amp", 10212, 0, false},
      {"train:gpt2-124m,batch=8,seq=512,steps=4,precision=bf16,optimizer=sgd,attention=fused",
       "gpt2_bf16_sgd", 7700, 0, true},
      {"train:gpt2-124m,batch=4,seq=256,steps=2,accumulate=3,precision=fp32,kv_cache=none",
       "gpt2_accum_fp32", 7091, 0, false},
      {"train:bert-base,batch=16,seq=128,steps=4,precision=fp32,attention_mask=ones",
       "bert_mlm_fp32", 10300, 0, true},
      {"train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
       "batch=4,seq=1024,steps=4,precision=bf16,optimizer=adamw_fused,attention=fused",
       "llama_bf16_fused", 8100, 0, true},
      {"train:llama-3-8b,layers=6,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,"
       "batch=4,seq=512,steps=3,kv_cache=none",
       "llama_eager_amp", 6200, 0, true},
      {"train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
       "batch=2,seq=2048,steps=3,checkpoint=full,attention=fused",
       "llama_ckpt_amp", 5110, 0, false},
      {"infer:gpt2-124m,requests=8,batch=8,batches=8,seq=64,context_max=64,generated_max=63,"
       "lengths=lognormal,median=100000,sigma_percent=0,attention=fused",
       "gpt2_generate", 29990, 0, true},
      {"infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
       "requests=4,batch=4,batches=4,seq=200,context_max=200,generated_max=127,"
       "lengths=lognormal,median=100000,sigma_percent=0,attention=fused",
       "llama_generate", 29990, 0, true},
  };
  for (const Pair& pair : pairs) {
    INFO(pair.generated);
    // Sizes in order, those of frees with a minus sign.
    const auto rows_of = [&](const std::string& workload) {
      std::vector<std::int64_t> rows;
      std::map<std::uint64_t, std::int64_t> sizes;
      for (const Event& event : read_all(*open_workload(workload, 1))) {
        if (event.kind == EventKind::Alloc) {
          rows.push_back(static_cast<std::int64_t>(event.size_bytes));
          sizes[event.id] = rows.back();
        } else if (event.kind == EventKind::Free && pair.with_frees) {
          rows.push_back(-sizes[event.id]);
        }
      }
      rows.resize(std::min(rows.size(), pair.row_count));
      return rows;
    };
    const std::vector<std::int64_t> generated = rows_of(pair.generated);
    const std::vector<std::int64_t> recorded = rows_of(pair.recorded);
    // Every generated row is there in the recording, in the same order.
    std::size_t next = 0;
    for (const std::int64_t row : recorded) {
      if (next < generated.size() && generated[next] == row) ++next;
    }
    CHECK(next >= generated.size() - pair.missing_max);
    CHECK(generated.size() + pair.missing_max >= recorded.size());
  }
}

TEST_CASE("generated peaks are the recorded ones to the byte") {
  struct Pair {
    std::string generated, recorded;
  };
  const Pair pairs[] = {
      {"train:gpt2-124m,batch=8,seq=1024,steps=4", "gpt2_train_amp"},
      {"train:gpt2-124m,batch=8,seq=1024,steps=4,checkpoint=full", "gpt2_train_ckpt"},
      {"train:llama-2-7b,layers=8,hidden=1536,heads=16,ffn=4096,batch=2,steps=2,accumulate=4,"
       "seq=167/412/127/351/552/557/844/542,precision=bf16,checkpoint=full,lora=16",
       "llama_lora_varlen_accum"},
  };
  for (const Pair& pair : pairs) {
    INFO(pair.generated);
    const TraceSummary generated = summarize(*open_workload(pair.generated, 1));
    const TraceSummary recorded = summarize(*open_workload(pair.recorded, 1));
    CHECK(generated.requested_bytes_peak == recorded.requested_bytes_peak);
    CHECK(generated.largest_bytes == recorded.largest_bytes);
  }
}

TEST_CASE("every combination of options is a valid trace that gives everything back") {
  const std::string models[] = {"gpt2-124m,layers=2", "bert-base,layers=2",
                                "llama-3-8b,layers=2,hidden=256,ffn=512",
                                "llama-3-8b,layers=2,hidden=256,ffn=512,lora=4"};
  for (const std::string& model : models) {
    for (const char* precision : {"bf16_autocast", "bf16", "fp32"}) {
      for (const char* checkpoint : {"none", "full"}) {
        for (const char* attention : {"eager", "fused"}) {
          for (const char* lengths : {"batch=1,seq=1", "batch=3,seq=5/70", "batch=40,seq=100"}) {
            const std::string workload = "train:" + model + ",vocabulary=1000,steps=2," +
                                         "accumulate=2,precision=" + precision +
                                         ",checkpoint=" + checkpoint + ",attention=" + attention +
                                         "," + lengths;
            INFO(workload);
            const TraceSummary summary = summarize(*open_workload(workload, 1));
            CHECK(summary.leftover_count == 0);
            CHECK(summary.kind_counts[static_cast<std::size_t>(EventKind::Alloc)] > 200);
          }
        }
      }
    }
  }
}

TEST_CASE("drawn lengths follow the seed and stay below seq") {
  const std::string workload =
      "train:bert-base,layers=1,vocabulary=100,batch=1,seq=300,lengths=lognormal,median=200,"
      "precision=fp32,steps=20";
  CHECK(hash_of(workload, 1) == hash_of(workload, 1));
  CHECK(hash_of(workload, 1) != hash_of(workload, 2));
  // The longest drawn length is cut at 300: the largest activation is its scores.
  std::uint64_t largest_bytes = 0;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    if (event.tensor == TensorKind::Activation)
      largest_bytes = std::max(largest_bytes, event.size_bytes);
  }
  CHECK(largest_bytes == 12ull * 300 * 300 * 4);
}

TEST_CASE("train has the parameters that the recorded model has") {
  std::map<std::uint64_t, int> generated, recorded;
  for (const Event& event : read_all(*open_workload("train:gpt2-124m,steps=1", 1))) {
    if (event.tensor == TensorKind::Parameter) ++generated[event.size_bytes];
  }
  const std::vector<Event> events = read_all(*open_workload("gpt2_train_amp", 1));
  for (std::size_t i = 1; events[i].kind != EventKind::Mark; ++i) ++recorded[events[i].size_bytes];
  CHECK(generated == recorded);
}

TEST_CASE("checkpointing and fused attention lower the peak, sgd drops the optimizer's state") {
  const auto peak = [](const std::string& extra) {
    const std::string workload = "train:llama-2-7b,steps=1,precision=bf16," + extra;
    return summarize(*open_workload(workload, 1)).requested_bytes_peak;
  };
  const std::uint64_t large = peak("batch=8,seq=2048,optimizer=sgd");
  CHECK(peak("batch=8,seq=2048,optimizer=sgd,checkpoint=full") < large / 2);
  CHECK(peak("batch=8,seq=2048,optimizer=sgd,attention=fused") < large / 2);
  // Parameters and gradients stay; two states and the denominators, each as large, go.
  CHECK(peak("batch=1,seq=64,optimizer=sgd") < peak("batch=1,seq=64") / 2);
}

TEST_CASE("comb leaves no room of one piece but enough bytes") {
  const std::vector<Event> events =
      read_all(*open_workload("comb:size_bytes=10,count=4,ask_bytes=20", 1));
  const std::vector<Event> expected = {
      {.kind = EventKind::Mark},
      {.id = 1, .size_bytes = 10, .kind = EventKind::Alloc},
      {.id = 2, .size_bytes = 10, .kind = EventKind::Alloc},
      {.id = 3, .size_bytes = 10, .kind = EventKind::Alloc},
      {.id = 4, .size_bytes = 10, .kind = EventKind::Alloc},
      {.id = 1, .kind = EventKind::Free},
      {.id = 3, .kind = EventKind::Free},
      {.id = 5, .size_bytes = 20, .kind = EventKind::Alloc},
      {.id = 5, .kind = EventKind::Free},
      {.id = 2, .kind = EventKind::Free},
      {.id = 4, .kind = EventKind::Free},
  };
  CHECK(events == expected);
}

TEST_CASE("a kv cache that is concatenated grows by one token per step") {
  std::vector<std::uint64_t> sizes;
  for (const Event& event : read_all(
           *open_workload("infer:gpt2-124m,requests=1,batch=1,context_max=1,generated_max=3", 1))) {
    if (event.tensor == TensorKind::KvCache) sizes.push_back(event.size_bytes);
  }
  REQUIRE(sizes.size() == 12 * 2 * 4);  // layers, key and value, prompt and three tokens
  CHECK(sizes.front() == 768 * 2);
  CHECK(sizes.back() == 4 * 768 * 2);
}

TEST_CASE("bad parameters name the key and what is allowed") {
  const auto error_of = [](const char* workload) {
    return usage_error_of([&] { static_cast<void>(open_workload(workload, 1)); });
  };
  CHECK(mentions(error_of("train:gpt2-124m,bacth=8"), "did you mean 'batch'"));
  CHECK(mentions(error_of("train:gpt2-124m,batch=0"), "a whole number from 1 to 4096"));
  CHECK(mentions(error_of("train:gpt2-124m,seq=2048"), "whole numbers from 1 to 1024 joined by"));
  CHECK(mentions(error_of("train:gpt2-124m,precision=fp16"), "one of bf16_autocast, bf16, fp32"));
  CHECK(mentions(error_of("train:"), "no model given"));
  CHECK(mentions(error_of("train:gpt2-124m,seq=5/"), "joined by '/'"));
  CHECK(mentions(error_of("train:gpt2-124m,heads=7"), "a divisor of hidden = 768"));
  CHECK(mentions(error_of("train:llama-3-8b,kv_heads=5"), "a divisor of heads = 32"));
  CHECK(mentions(error_of("train:llama-3-8b,layers=0"), "a whole number from 1 to 1024"));
  CHECK(mentions(error_of("train:gpt2-124m,lora=8"), "unknown key 'lora'"));
  CHECK(mentions(error_of("infer:bert-base,kv=concat"), "unknown key 'kv'"));
  CHECK(mentions(error_of("infer:gpt2-124m,median=9"), "unknown key 'median'"));
  CHECK(mentions(error_of("infer:gpt2-124m,context_max=1024,generated_max=1"),
                 "a whole number from 0 to 0"));
  CHECK(mentions(error_of("churn:size_min=1MiB,size_max=1KiB"), "bad value of key 'size_max'"));
  CHECK(mentions(error_of("churn:wild"), "churn has no variants"));
  CHECK(mentions(error_of("comb:count=0"), "bad value of key 'count'"));
  CHECK(mentions(error_of("comb:count=4294967295,size_bytes=1TiB"), "less than 2^61 bytes"));
  CHECK(mentions(error_of("sawtooth:peak_bytes=1GiB,floor_bytes=2GiB"), "'floor_bytes'"));
  CHECK(mentions(error_of("sawtooth:order=newset"), "did you mean 'newest'"));
  CHECK(mentions(error_of("growing:size_min=1GiB,size_max=1MiB"), "'size_max'"));
  CHECK(mentions(error_of("growing:count=10000000,size_max=4096TiB"), "less than 2^61 bytes"));
  CHECK(mentions(error_of("robson:live_bytes=64GiB,size_min=1"), "at most 16777216 blocks"));
  CHECK(mentions(error_of("slivers:sliver_bytes=8MiB,rounds=8"), "less than size_bytes / rounds"));
  CHECK(mentions(error_of("slivers:pin_bytes=5MiB"), "'pin_bytes'"));
  CHECK(mentions(error_of("boundaries:max_split_bytes=19MiB"), "'max_split_bytes'"));
  CHECK(mentions(error_of("producer:busy=1"), "only a sync ends busy readers"));
  CHECK(mentions(error_of("producer:fan_out=3"), "a whole number from 1 to 2"));
  CHECK(mentions(error_of("litter:keep_percent=100"), "a whole number from 0 to 99"));
  CHECK(mentions(error_of("litter:fill_bytes=1TiB,size_min=1"), "at most 16777216 blocks"));
  CHECK(mentions(error_of("oom_edge:swing_percent=0"), "'swing_percent'"));
  CHECK(mentions(error_of("oom_edge:level_bytes=99999999999GiB"), "'level_bytes'"));
}

TEST_CASE("a generated workload written to a file reads back equal") {
  const TemporaryFolder folder;
  const std::string path = folder.file("w.ops.csv.zst");
  std::FILE* sink = std::fopen("/dev/null", "w");
  REQUIRE(sink != nullptr);
  CHECK(trace_convert("infer:gpt2-124m,requests=2,events=20000", path, 5, sink) == 0);
  CHECK(trace_validate(path, sink) == 0);
  CHECK(trace_summary(path, 0, sink) == 0);
  std::fclose(sink);
  const std::unique_ptr<EventSource> copy = open_path_or_workload(path, 0);
  CHECK(copy->header().generator == "infer:gpt2-124m,requests=2,events=20000");
  CHECK(copy->header().seed == 5);
  CHECK(trace_hash(*copy) == hash_of("infer:gpt2-124m,requests=2,events=20000", 5));
}
