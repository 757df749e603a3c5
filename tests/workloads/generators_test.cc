// Generators: valid events, bounded batches, and the parameters and peaks of what they build.
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
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"
#include "workloads/trace/trace_hash.h"
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

TEST_CASE("every combination of options is a valid trace that gives everything back") {
  const std::string models[] = {"gpt2-124m,layers=2",
                                "bert-base,layers=2",
                                "t5-small,layers=2",
                                "mixtral-8x7b,layers=2,hidden=256,ffn=64",
                                "mixtral-8x7b,layers=2,hidden=256,ffn=64,experts=loop",
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
      "precision=fp32,steps=20,attention=eager";
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
  const std::uint64_t large = peak("batch=8,seq=2048,optimizer=sgd,attention=eager");
  CHECK(peak("batch=8,seq=2048,optimizer=sgd,attention=eager,checkpoint=full") < large / 2);
  CHECK(peak("batch=8,seq=2048,optimizer=sgd") ==
        peak("batch=8,seq=2048,optimizer=sgd,attention=fused"));
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

TEST_CASE("masks with padding and float16 go with every family that takes them") {
  for (const char* model :
       {"gpt2-124m", "bert-base", "llama-3-8b,kv_heads=2", "mixtral-8x7b,kv_heads=2", "t5-small"}) {
    for (const char* attention : {"eager", "fused"}) {
      for (const char* checkpoint : {"none", "full"}) {
        const std::string workload =
            std::string("train:") + model +
            ",layers=2,hidden=256,heads=4,ffn=512,vocabulary=1000," +
            "batch=3,seq=40,steps=2,eval_every=1,precision=fp16_autocast,attention_mask=padding," +
            "attention=" + attention + ",checkpoint=" + checkpoint;
        INFO(workload);
        CHECK(summarize(*open_workload(workload, 1)).leftover_count == 0);
      }
    }
  }
  // With padding, T5 adds a bias of every sequence, not one for the whole batch.
  const auto activations = [](const std::string& mask) {
    const std::string workload =
        "train:t5-small,batch=8,seq=256,target=32,steps=1,attention=fused,attention_mask=" + mask;
    return summarize(*open_workload(workload, 1))
        .tensor_bytes_peak[static_cast<std::size_t>(TensorKind::Activation)];
  };
  CHECK(activations("padding") > activations("ones") + (std::uint64_t{5} << 20));
  CHECK(activations("ones") - activations("none") < 100'000);
}

TEST_CASE("fused attention takes grouped heads in two bytes, not in four") {
  const auto largest = [](const char* extra) {
    return summarize(*open_workload(std::string("train:llama-3-8b,layers=2,hidden=512,heads=8,"
                                                "ffn=512,vocabulary=100,batch=2,seq=1024,steps=1,"
                                                "attention=fused,") +
                                        extra,
                                    1))
        .largest_bytes;
  };
  const std::uint64_t scores = 2ull * 8 * 1024 * 1024 * 4;
  CHECK(largest("kv_heads=2,precision=fp32") == scores);
  CHECK(largest("kv_heads=8,precision=fp32") <= scores / 2);           // cuBLAS takes 32 MiB
  CHECK(largest("kv_heads=2,precision=bf16") <= scores / 2);           // cuBLAS takes 32 MiB
  CHECK(largest("kv_heads=2,precision=bf16_autocast") <= scores / 2);  // cuBLAS takes 32 MiB
}

TEST_CASE("routing is drawn from the seed, and as uneven as asked") {
  // The rows that each expert gets, times their width in two bytes.
  const auto shares = [](const std::string& skew, std::uint64_t seed) {
    std::vector<std::uint64_t> counts;
    for (const Event& event : read_all(*open_workload(
             "train:mixtral-8x7b,layers=1,hidden=512,heads=8,ffn=768,batch=1,seq=800,steps=1,"
             "precision=bf16,optimizer=sgd,experts=loop,skew_percent=" +
                 skew,
             seed))) {
      // Gate and up of an expert's tokens: no other tensor's size is a multiple.
      const bool is_joint = event.size_bytes % (2 * 768 * 2) == 0 &&
                            event.size_bytes < 800 * 3072 && event.tensor == TensorKind::Activation;
      if (event.kind == EventKind::Alloc && is_joint) counts.push_back(event.size_bytes / 3072);
    }
    return counts;
  };
  const std::vector<std::uint64_t> even = shares("0", 1);
  REQUIRE(even.size() >= 8);
  CHECK(std::count(even.begin(), even.end(), 200) >= 8);
  const std::vector<std::uint64_t> uneven = shares("100", 1);
  CHECK(*std::max_element(uneven.begin(), uneven.end()) > 300);
  CHECK(*std::min_element(uneven.begin(), uneven.end()) < 100);
  CHECK(uneven == shares("100", 1));
  CHECK(uneven != shares("100", 2));
}

TEST_CASE("models have as many parameters as published") {
  const std::pair<const char*, double> models[] = {
      {"gpt3-175b", 174.6e9}, {"mixtral-8x7b", 46.7e9}, {"mixtral-8x22b", 140.6e9},
      {"vit-base", 86.57e6},  {"vit-large", 304.3e6},   {"vit-huge", 632.0e6},
      {"t5-small", 60.5e6},   {"t5-base", 222.9e6},     {"t5-large", 737.7e6},
      {"t5-3b", 2.85e9},      {"t5-11b", 11.31e9},      {"llama-3.1-405b", 405.9e9},
  };
  for (const auto& [model, count] : models) {
    INFO(model);
    std::uint64_t bytes = 0;
    const std::string workload = std::string("train:") + model + ",events=5000,steps=1";
    for (const Event& event : read_all(*open_workload(workload, 1))) {
      if (event.tensor == TensorKind::Parameter) bytes += event.size_bytes;
    }
    CHECK(static_cast<double>(bytes) / 4 == Approx(count).epsilon(0.005));
  }
}

TEST_CASE("prompts that are given may be longer than those that are drawn") {
  for (const char* text :
       {"gpt2-124m,layers=1,seq=1000,answers=25", "gpt2-124m,layers=1,seq=24,answers=1001",
        "llama-3-8b,layers=1,seq=40000,answers=2"}) {
    CHECK(open_workload(std::string("infer:") + text + ",requests=1,batch=1", 1) != nullptr);
  }
}

TEST_CASE("bad parameters name the key and what is allowed") {
  CHECK(mentions(refusal_of("train:gpt2-124m,bacth=8"), "did you mean 'batch'"));
  CHECK(mentions(refusal_of("train:gpt2-124m,batch=0"), "a whole number from 1 to 4096"));
  CHECK(
      mentions(refusal_of("train:gpt2-124m,seq=2048"), "whole numbers from 1 to 1024, joined by"));
  CHECK(mentions(refusal_of("train:gpt2-124m,precision=fp16"), "one of bf16_autocast, bf16, fp32"));
  CHECK(mentions(refusal_of("train:"), "no model given"));
  CHECK(mentions(refusal_of("train:gpt2-124m,seq=5/"), "joined by '/'"));
  CHECK(mentions(refusal_of("train:gpt2-124m,heads=7"), "a divisor of hidden = 768"));
  CHECK(mentions(refusal_of("train:llama-3-8b,kv_heads=5"), "a divisor of heads = 32"));
  CHECK(mentions(refusal_of("train:llama-3-8b,layers=0"), "a whole number from 1 to 1024"));
  CHECK(mentions(refusal_of("train:t5-small,lora=8"), "unknown key 'lora'"));
  CHECK(mentions(refusal_of("infer:bert-base,kv=concat"), "unknown key 'kv'"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,median=9"), "unknown key 'median'"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,context_max=1024,generated_max=1"),
                 "a whole number from 0 to 0"));
  CHECK(mentions(refusal_of("infer:gpt2-124m,seq=1000,answers=26"), "from 1 to 25, joined by"));
  CHECK(
      mentions(refusal_of("infer:gpt2-124m,seq=300,context_max=200"), "at most context_max = 200"));
  CHECK(mentions(refusal_of("churn:size_min=1MiB,size_max=1KiB"), "bad value of key 'size_max'"));
  CHECK(mentions(refusal_of("train:vit-base,patch=15"), "a divisor of image = 224"));
  CHECK(mentions(refusal_of("train:vit-base,seq=5"), "unknown key 'seq'"));
  CHECK(mentions(refusal_of("train:bert-base,target=5"), "unknown key 'target'"));
  CHECK(mentions(refusal_of("train:mixtral-8x7b,experts_per_token=9"), "at most expert_count = 8"));
  CHECK(mentions(refusal_of("train:mixtral-8x7b,skew_percent=9"), "unknown key 'skew_percent'"));
  CHECK(mentions(refusal_of("train:mixtral-8x7b,batch=1,seq=4,experts=loop,tokens_per_expert=4/5"),
                 "whole numbers from 0 to 4"));
  CHECK(mentions(
      refusal_of("train:mixtral-8x7b,batch=1,seq=4,experts=loop,tokens_per_expert=4/3/0/0/0/0/0/0"),
      "whose sum is batch x seq x experts_per_token = 8"));
  CHECK(mentions(refusal_of("churn:wild"), "churn has no variants"));
  CHECK(mentions(refusal_of("comb:count=0"), "bad value of key 'count'"));
  CHECK(mentions(refusal_of("comb:count=4294967295,size_bytes=1TiB"), "less than 2^61 bytes"));
  CHECK(mentions(refusal_of("sawtooth:peak_bytes=1GiB,floor_bytes=2GiB"), "'floor_bytes'"));
  CHECK(mentions(refusal_of("sawtooth:order=newset"), "did you mean 'newest'"));
  CHECK(mentions(refusal_of("growing:size_min=1GiB,size_max=1MiB"), "'size_max'"));
  CHECK(mentions(refusal_of("growing:count=10000000,size_max=4096TiB"), "less than 2^61 bytes"));
  CHECK(mentions(refusal_of("robson:live_bytes=64GiB,size_min=1"), "at most 16777216 blocks"));
  CHECK(
      mentions(refusal_of("slivers:sliver_bytes=8MiB,rounds=8"), "less than size_bytes / rounds"));
  CHECK(mentions(refusal_of("slivers:pin_bytes=5MiB"), "'pin_bytes'"));
  CHECK(mentions(refusal_of("boundaries:max_split_bytes=19MiB"), "'max_split_bytes'"));
  CHECK(mentions(refusal_of("producer:busy=1"), "only a sync ends busy readers"));
  CHECK(mentions(refusal_of("producer:fan_out=3"), "a whole number from 1 to 2"));
  CHECK(mentions(refusal_of("litter:keep_percent=100"), "a whole number from 0 to 99"));
  CHECK(mentions(refusal_of("litter:fill_bytes=1TiB,size_min=1"), "at most 16777216 blocks"));
  CHECK(mentions(refusal_of("oom_edge:swing_percent=0"), "'swing_percent'"));
  CHECK(mentions(refusal_of("oom_edge:level_bytes=99999999999GiB"), "'level_bytes'"));
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
