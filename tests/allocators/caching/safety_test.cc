// What is said of a setting outside the allocator.
#include "allocators/caching/safety.h"

#include <string>

#include "allocators/caching/explain.h"
#include "allocators/caching/release.h"
#include "tests/catch.h"

namespace allocmark::caching {
namespace {

TEST_CASE("what a setting breaks is named, with its sources in the whole text") {
  CHECK(safety_sentence("expandable_segments:True") ==
        "not with sleep mode, RDMA registration, NCCL registration; with conditions: CUDA IPC, "
        "Windows, WSL");
  CHECK(safety_sentence("max_split_size_mb:64,roundup_power2_divisions:8") ==
        "as safe as unset: segments come from cudaMalloc as before");
  CHECK(safety_sentence("").empty());
  CHECK(safety_sentence("expandable_segments:False").empty());
  CHECK(safety_sentence("no_such_key:1").empty());
  const std::string text = explain_conf("backend:cudaMallocAsync");
  CHECK(text.find("is it safe?\n  backend, CUDA IPC: no; tensors cannot be shared") != text.npos);
  for (const SafetyNote* note : safety_of("expandable_segments:True,large_segment_size_mb:64")) {
    CHECK_FALSE(note->sources.empty());
    CHECK_FALSE(note->words.empty());
  }
}

TEST_CASE("only 2.9 warns of the variable's name, and it is set all the same") {
  for (const Rules& rules : all_rules()) {
    INFO(rules.name());
    CHECK(rules.variable_note.empty() == (rules.minor != 9));
  }
  const std::string text = explain_conf("max_split_size_mb:64", require_rules("2.9", "test"));
  CHECK(text.find("does not read PYTORCH_ALLOC_CONF (pytorch issue 183387)") != text.npos);
}

}  // namespace
}  // namespace allocmark::caching
