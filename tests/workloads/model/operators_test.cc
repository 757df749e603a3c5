// Single operators of the generators against what recordings of PyTorch hold.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace_tools.h"

using namespace allocmark;

namespace {

std::vector<std::uint64_t> sizes_of(const std::string& workload) {
  std::vector<std::uint64_t> sizes;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    if (event.kind == EventKind::Alloc) sizes.push_back(event.size_bytes);
  }
  return sizes;
}

}  // namespace

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
