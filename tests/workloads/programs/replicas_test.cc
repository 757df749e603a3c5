// Goal: hybrid sharding (train's replicate) asks for what PyTorch asks for, meets the ranks that it
// has to, and refuses what it cannot share. Method: peaks and fingerprints of recordings, and
// events that are counted by hand.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/workloads/sizes.h"
#include "workloads/open_workload.h"
#include "workloads/trace/request_marks.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

const std::string kModel =
    "train:llama-3-8b,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,kv_cache=none,"
    "initialize=whole,steps=3,";
const std::string kNarrow = "precision=fp32,gathered=bf16,layers=4,batch=2,seq=512,";
const std::string kDeep =
    "precision=fp32,gathered=bf16,layers=12,batch=1,seq=64,accumulate=2,optimizer=adamw_fused,";

std::uint64_t requested_peak_of(const std::string& workload) {
  return summarize(*open_workload(workload, 1)).requested_bytes_peak;
}

// Who meets, by the meeting's name, over all ranks.
std::map<std::string, std::set<int>> members_of(const std::string& job, int rank_count) {
  std::map<std::string, std::set<int>> members;
  for (int rank = 0; rank < rank_count; ++rank) {
    const std::unique_ptr<EventSource> source =
        open_workload(job + ",collectives=1,rank=" + std::to_string(rank), 1);
    while (!source->next().empty()) {
    }
    for (const std::string& label : source->labels()) {
      if (is_meeting(mark_class_of(label))) members[std::string(meeting_name(label))].insert(rank);
    }
  }
  return members;
}

}  // namespace

// PyTorch 2.11 and transformers 5.17 on simcuda, 2026-11-27: scripts/record/record_without_gpu.py
// with rank 0 of scripts/record/references/lone_rank.py and a mesh of replicas by shards. Each
// script trains this Llama with fully_shard, or FullyShardedDataParallel and HYBRID_SHARD.
// Sizes are those of the three steps, without what is below 1 KiB: the scripts divide no loss. What
// PyTorch 2.11's allocator reserves is equal in all seven; of the one in two bytes where its script
// makes the model so.
TEST_CASE("replicas of shards ask for the recorded sizes in the recorded order, and peak there") {
  struct Recorded {
    std::string workload;
    std::uint64_t count, fingerprint, peak_bytes;
  };
  const Recorded recorded[] = {
      {kModel + kNarrow + "dp=4,fsdp=2,replicate=2", 1979, 0xd185e6b367194720u, 1466933576},
      {kModel + kNarrow + "dp=4,fsdp=2,replicate=2,accumulate=2", 3761, 0x39b199295af9fc6fu,
       1688201544},
      {kModel + kNarrow +
           "dp=16,fsdp=2,replicate=4,accumulate=3,checkpoint=full,optimizer="
           "adamw_fused",
       6758, 0x28a70850e6f8061du, 1073408420},
      {kModel + "precision=bf16,layers=4,batch=2,seq=512,dp=16,fsdp=2,replicate=2,accumulate=2",
       3662, 0xb7908c01cd3a82cbu, 913763528},
      {kModel + kDeep + "dp=4,fsdp=2,replicate=2", 8912, 0x3b3d06ea6854075cu, 2403073220},
      {kModel + kNarrow + "dp=4,fsdp=1,replicate=2", 1677, 0xba862d0c2f61f544u, 1466933448},
      {kModel + kNarrow + "dp=8,fsdp=1,replicate=2,accumulate=2", 3182, 0x2bc48c6dcf018540u,
       1245665480},
  };
  for (const Recorded& each : recorded) {
    INFO(each.workload);
    CHECK(fingerprint(last_large(sizes_of(each.workload), each.count)) == each.fingerprint);
    // FSDP 1's script has a table of rotations in two bytes, 128 bytes less.
    const std::uint64_t peak_bytes = requested_peak_of(each.workload);
    CHECK(peak_bytes >= each.peak_bytes);
    CHECK(peak_bytes <= each.peak_bytes + 128);
  }
}

TEST_CASE("sums over replicas keep a later micro batch's gradients until the backward's end") {
  // PyTorch without replicas on as many shards: recorded as above.
  CHECK(requested_peak_of(kModel + kDeep + "dp=2,fsdp=2") == 2132491460);
  // 12 blocks of 11,274,240 elements, half of each in four bytes.
  const std::uint64_t shards = 12ull * 11'274'240 / 2 * 4;
  CHECK(requested_peak_of(kModel + kDeep + "dp=4,fsdp=2,replicate=2") - 2132491460 == shards);
  const std::string whole = kModel + "precision=fp32,layers=2,batch=1,seq=64,accumulate=2,";
  CHECK(requested_peak_of(whole + "dp=4,fsdp=1,replicate=2") ==
        requested_peak_of(whole + "dp=2,fsdp=1"));
}

TEST_CASE("ranks meet those of their replica, and those with their shard") {
  const std::string job = "train:gpt2-124m,layers=2,batch=1,seq=32,steps=1,dp=4,fsdp=2,replicate=2";
  using Members = std::map<std::string, std::set<int>>;
  CHECK(
      members_of(job, 4) ==
      Members{{"data0", {0, 1}}, {"data1", {2, 3}}, {"replicas0", {0, 2}}, {"replicas1", {1, 3}}});
  const Members shared = members_of(
      "train:llama-3-8b,layers=2,batch=1,seq=64,steps=1,precision=bf16,kv_cache=none,dp=2,cp=2,"
      "fsdp=2,replicate=2",
      4);
  CHECK(shared.at("data0") == std::set<int>{0, 1});
  CHECK(shared.at("data1") == std::set<int>{2, 3});
  CHECK(shared.at("replicas1") == std::set<int>{1, 3});
  CHECK(members_of("train:gpt2-124m,layers=2,batch=1,seq=32,steps=1,dp=4,fsdp=2", 4) ==
        Members{{"data0", {0, 1, 2, 3}}});
}

TEST_CASE("a sum over replicas is a kernel on a stream of its own") {
  const auto kernels_of = [](const std::string& keys) {
    const std::string job = "train:gpt2-124m,layers=2,batch=1,seq=32,steps=2,kernels=1,dp=4,";
    std::vector<std::uint64_t> kernels(5);
    for (const Event& event : read_all(*open_workload(job + keys, 1))) {
      if (event.kind == EventKind::Kernel) ++kernels.at(event.stream);
    }
    return kernels;
  };
  // Three units, two steps.
  CHECK(kernels_of("fsdp=2,replicate=2")[4] == 6);
  CHECK(kernels_of("fsdp=1,replicate=2")[4] == 6);
  CHECK(kernels_of("fsdp=2")[4] == 0);
  CHECK(open_workload("train:gpt2-124m,dp=4,fsdp=2", 1)->header().stream_count == 4);
  CHECK(open_workload("train:gpt2-124m,dp=4,fsdp=2,replicate=2", 1)->header().stream_count == 5);
}

TEST_CASE("replicas that cannot be are refused") {
  const auto refused = [](const std::string& keys, const char* wanted) {
    INFO(keys);
    CHECK(mentions(refusal_of("train:gpt2-124m," + keys), wanted));
  };
  refused("dp=4,replicate=2", "1, or fsdp=1 or 2");
  refused("dp=4,zero=3,precision=bf16,replicate=2", "1, or fsdp=1 or 2");
  refused("dp=4,fsdp=2,replicate=3", "a divisor of dp = 4");
  refused("dp=4,fsdp=2,replicate=4", "below dp = 4");
  refused("dp=4,implementation=megatron,replicate=2", "1, or fsdp=1 or 2");
}

// PyTorch 2.11 and transformers 5.17 on simcuda, 2026-11-28 (scripts/record/described_job.py); an
// H200 took the first to the byte.
TEST_CASE("fully_shard shares rows out whole, of experts their number and of T5 its widths") {
  const std::string mixtral =
      "train:mixtral-8x7b,layers=2,hidden=128,heads=2,ffn=512,kv_heads=1,head_size=64,tied=1,"
      "vocabulary=5003,batch=4,seq=128,steps=3,attention=fused,kv_cache=none,fsdp=2,";
  CHECK(requested_peak_of(mixtral + "expert_count=8,experts_per_token=1,optimizer=sgd_momentum,"
                                    "dp=3,rank=2,precision=bf16_autocast,initialize=whole") ==
        133'205'272);
  // A rank without experts has room for one, from the beginning.
  const std::string without = mixtral +
                              "expert_count=4,experts_per_token=2,dp=16,rank=9,"
                              "precision=fp32,gathered=bf16";
  CHECK(requested_peak_of(without) == 120'657'960);
  CHECK(fingerprint(last_large(sizes_of(without), 1346)) == 0xdd3a9f603554c756u);
  CHECK(requested_peak_of(mixtral + "expert_count=4,experts_per_token=2,dp=16,rank=1,"
                                    "precision=bf16") == 121'167'288);
  CHECK(requested_peak_of("train:t5-small,layers=2,hidden=512,heads=8,ffn=2048,vocabulary=32000,"
                          "batch=2,seq=64,target=40,steps=3,optimizer=sgd_momentum,kv_cache=none,"
                          "dp=3,fsdp=2,precision=bf16_autocast,initialize=whole") == 410'011'212);
}
