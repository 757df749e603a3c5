// Goal: generator offload pins what the programs that it stands for pin. Method: models of a layer
// and a few elements, so that all requests can be written down.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

// Sizes of the requests for pinned memory between two marks.
std::vector<std::uint64_t> pinned_between(const std::string& workload, const std::string& from,
                                          const std::string& to) {
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  std::vector<std::uint64_t> sizes;
  bool is_within = false;
  for (const Event& event : read_all(*source)) {
    if (event.kind == EventKind::Mark) {
      if (source->labels()[event.id] == from) is_within = true;
      if (source->labels()[event.id] == to) is_within = false;
    }
    if (is_within && event.kind == EventKind::HostAlloc) sizes.push_back(event.size_bytes);
  }
  return sizes;
}

TraceSummary summary_of(const std::string& workload) {
  return summarize(*open_workload(workload, 1));
}

// Parameters of Llama 3.2 1B with one layer, in its order: table of words, layer, norm. The head is
// the table.
constexpr std::uint64_t kWords = 128'256 * 2048, kSquare = 2048 * 2048, kNarrow = 2048 * 512;
constexpr std::uint64_t kWide = 2048 * 8192, kNorm = 2048;
const std::vector<std::uint64_t> kElements = {kWords, kSquare, kNarrow, kNarrow, kSquare, kWide,
                                              kWide,  kWide,   kNorm,   kNorm,   kNorm};

std::vector<std::uint64_t> times(std::uint64_t factor, std::vector<std::uint64_t> values) {
  for (std::uint64_t& value : values) value *= factor;
  return values;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& values) {
  std::uint64_t sum = 0;
  for (const std::uint64_t value : values) sum += value;
  return sum;
}

}  // namespace

TEST_CASE("FSDP pins each parameter once and its gradient in each step") {
  const std::string workload = "offload:optimizer,library=fsdp,layers=1,steps=2";
  CHECK(pinned_between(workload, "setup", "step0") == times(4, kElements));
  std::vector<std::uint64_t> backwards;
  backwards.push_back(4 * kNorm);
  backwards.insert(backwards.end(), {4 * kSquare, 4 * kNarrow, 4 * kNarrow, 4 * kSquare, 4 * kWide,
                                     4 * kWide, 4 * kWide, 4 * kNorm, 4 * kNorm, 4 * kWords});
  CHECK(pinned_between(workload, "step0", "step1") == backwards);
  CHECK(pinned_between(workload, "step1", "end") == backwards);
  CHECK(summary_of(workload).host_bytes_peak == 2 * 4 * sum_of(kElements));
  // Ranks share each tensor, rounded up.
  CHECK(pinned_between("offload:optimizer,library=fsdp,layers=1,ranks=3", "setup", "step0")[1] ==
        4 * ((kSquare + 2) / 3));
}

TEST_CASE(
    "CPUOffloadOptimizer pins parameters and gradients once; ZeRO-Offload four flat buffers") {
  const std::string torchao = "offload:optimizer,library=torchao,layers=1,steps=2";
  CHECK(pinned_between(torchao, "step0", "end").empty());
  CHECK(sum_of(pinned_between(torchao, "setup", "step0")) == 2 * 2 * sum_of(kElements));
  const std::string deepspeed = "offload:optimizer,library=deepspeed,layers=1,steps=2";
  const std::uint64_t vectors = 3 * kNorm, matrices = sum_of(kElements) - vectors;
  CHECK(pinned_between(deepspeed, "setup", "step0") ==
        std::vector<std::uint64_t>{4 * matrices, 4 * matrices, 4 * vectors, 4 * vectors});
  CHECK(pinned_between(deepspeed, "step0", "end").empty());
  // Copies of each step: eight gradients of matrices, three of vectors, and the weights.
  std::unordered_map<std::uint64_t, std::uint64_t> sizes, copies;
  for (const Event& event : read_all(*open_workload(deepspeed, 1))) {
    if (event.kind == EventKind::HostAlloc) sizes[event.id] = event.size_bytes;
    if (event.kind == EventKind::HostRecord) ++copies[sizes.at(event.id)];
  }
  CHECK(copies[4 * matrices] == 2 * (8 + 1));
  CHECK(copies[4 * vectors] == 2 * 3);
}

TEST_CASE("a checkpoint's copies are kept, made anew, or go through buffers") {
  const std::string base = "offload:checkpoint,layers=1,saves=2,";
  const std::uint64_t all = 3 * 4 * sum_of(kElements);
  CHECK(sum_of(pinned_between(base + "staging=kept", "save0", "save1")) == all);
  CHECK(pinned_between(base + "staging=kept", "save1", "end").empty());
  CHECK(sum_of(pinned_between(base + "staging=fresh", "save1", "end")) == all);
  CHECK(summary_of(base + "staging=fresh").host_bytes_peak == all);
  CHECK(pinned_between(base + "staging=buffers,buffers=3,buffer_bytes=5MiB", "setup", "end") ==
        std::vector<std::uint64_t>{5 << 20, 5 << 20, 5 << 20});
}

TEST_CASE("a loader pins as many batches as wait, one more, and the one in use") {
  const TraceSummary summary = summary_of(
      "offload:loader,batch=10,item_bytes=100,label_bytes=8,workers=2,prefetch=3,batches=20");
  // Six wait; the loop takes one, the next is pinned, and then the last one goes.
  CHECK(summary.host_bytes_peak == 8 * (10 * 100 + 10 * 8));
  CHECK(summary.kind_counts[static_cast<std::size_t>(EventKind::HostAlloc)] == 40);
}

TEST_CASE("chunks of a cache stay within their budget, and whole buffers are asked for once") {
  const std::string base =
      "offload:kv_cache,layout=chunks,chunk_tokens=16,token_bytes=1024,budget_bytes=1MiB,"
      "requests=100,tokens_max=200,";
  const TraceSummary summary = summary_of(base + "rest=1");
  CHECK(summary.host_bytes_peak <= 1 << 20);
  CHECK(summary.host_bytes_peak > (1 << 20) - 16 * 1024);
  for (const std::uint64_t size : pinned_between(base + "rest=0", "setup", "end"))
    CHECK(size == 16 * 1024);
  CHECK(pinned_between("offload:kv_cache,buffers=2,buffer_bytes=3MiB", "setup", "end") ==
        std::vector<std::uint64_t>{3 << 20, 3 << 20});
}

TEST_CASE("streamed weights are pinned once, and two layers are on the device at most") {
  const std::string workload = "offload:weights,layers=3,tensor_mib=4/1,tensor_count=2/1,passes=2";
  CHECK(pinned_between(workload, "setup", "pass0").size() == 9);
  const TraceSummary summary = summary_of(workload);
  CHECK(summary.host_bytes_peak == std::uint64_t{27} << 20);
  CHECK(summary.requested_bytes_peak == std::uint64_t{18} << 20);
  CHECK(summary.kind_counts[static_cast<std::size_t>(EventKind::HostRecord)] == 18);
}

TEST_CASE("every kind gives everything back, and slips are named") {
  for (const std::string text :
       {"optimizer,library=fsdp,layers=1", "optimizer,library=torchao,layers=1",
        "optimizer,library=deepspeed,layers=1", "checkpoint,layers=1", "loader", "loader,sync=0",
        "checkpoint,layers=1,staging=fresh", "checkpoint,layers=1,staging=buffers", "kv_cache",
        "kv_cache,layout=chunks", "weights,layers=2"}) {
    INFO(text);
    const TraceSummary summary = summary_of("offload:" + text);
    CHECK(summary.leftover_count == 0);
    CHECK(summary.host_leftover_count == 0);
    CHECK(summary.host_bytes_peak > 0);
  }
  CHECK_THROWS(open_workload("offload", 1));
  CHECK_THROWS(open_workload("offload:weights,tensor_mib=4/1,tensor_count=2", 1));
  CHECK_THROWS(open_workload("offload:optimizer,library=deepspeed,element_bytes=4", 1));
  CHECK_THROWS(open_workload("offload:kv_cache,chunk_tokens=4", 1));
}
