// torch.compile of GPT-2 against its recording, and what it is refused with.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/references.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

// Sizes from the second step on: in the first, inductor times kernels as often as time allows.
std::vector<std::uint64_t> steady_sizes(const std::string& workload) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t marks = 0;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    marks += event.kind == EventKind::Mark;
    if (marks > 2 && event.kind == EventKind::Alloc) sizes.push_back(event.size_bytes);
  }
  return sizes;
}

std::int64_t count_of(const std::string& workload, std::uint64_t size_bytes) {
  const std::vector<Event> events = read_all(*open_workload(workload, 1));
  return std::count_if(events.begin(), events.end(), [&](const Event& event) {
    return event.kind == EventKind::Alloc && event.size_bytes == size_bytes;
  });
}

}  // namespace

TEST_CASE("compiled steps ask for what was recorded, in order") {
  const std::vector<std::uint64_t> recorded = steady_sizes("gpt2_compiled");
  CHECK(recorded.size() == 3 * 254);
  CHECK(steady_sizes(std::string(find_reference("gpt2_compiled").workload)) == recorded);
}

TEST_CASE("fewer tensors live under torch.compile than without") {
  const std::string program = "train:gpt2-124m,layers=3,batch=4,seq=256,steps=3,kv_cache=none";
  const auto peak_of = [](const std::string& workload) {
    return summarize(*open_workload(workload, 1)).requested_bytes_peak;
  };
  CHECK(peak_of(program + ",compile=inductor") < peak_of(program));
  CHECK(steady_sizes(program + ",compile=inductor").size() < steady_sizes(program).size());
}

TEST_CASE("a vocabulary of whole rows is not padded") {
  const std::string program =
      "train:gpt2-124m,layers=2,batch=2,seq=64,steps=2,kv_cache=none,compile=inductor,vocabulary=";
  // The padded head, forward and backward, of two steps, and what timing takes.
  CHECK(count_of(program + "999", 1000ull * 768 * 2) > 4);
  CHECK(count_of(program + "1000", 1000ull * 768 * 2) == 4);
}

TEST_CASE("torch.compile is refused where it was not recorded") {
  const std::string fits = "train:gpt2-124m,layers=2,seq=64,kv_cache=none,compile=inductor";
  CHECK_NOTHROW(open_workload(fits, 1));
  CHECK(mentions(refusal_of("train:gpt2-124m,compile=inductor"), "kv_cache=none"));
  CHECK(mentions(refusal_of(fits + ",attention=eager"), "attention=fused"));
  CHECK(mentions(refusal_of(fits + ",precision=fp32"), "precision=bf16_autocast"));
  CHECK(mentions(refusal_of(fits + ",checkpoint=full"), "checkpoint=none"));
  CHECK(mentions(refusal_of(fits + ",dp=2"), "one rank"));
  CHECK(mentions(refusal_of(fits + ",batch=1"), "a batch of at least 2"));
  CHECK(mentions(refusal_of("train:bert-base,compile=inductor"), "unknown key 'compile'"));
}
