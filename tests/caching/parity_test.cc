// Every golden there is: the caching allocator must answer each request of seven recorded programs
// as PyTorch's own allocator did on an NVIDIA H200, under 16 config strings and up to four memory
// limits.
#include "allocators/caching/parity.h"

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/caching/golden_files.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

constexpr const char* kPrograms[] = {
    "bert_varlen_infer",      "fuzz_1", "fuzz_r1", "fuzz_s1", "gpt2_train_amp", "gpt2_train_ckpt",
    "llama_lora_varlen_accum"};

std::vector<ParityOperation> read_trace(const std::string& program) {
  return parse_trace(read_gzip("workloads/recorded/" + program + ".ops.csv.gz"));
}

std::map<std::string, std::string> read_goldens(const std::string& program) {
  return read_tar_xz("tests/golden/caching/" + program + ".tar.xz");
}

}  // namespace

TEST_CASE("every golden is answered as PyTorch answered") {
  std::uint64_t cells = 0;
  ParityReport sum;
  for (const std::string program : kPrograms) {
    const std::vector<ParityOperation> trace = read_trace(program);
    for (const auto& [path, text] : read_goldens(program)) {
      const Golden golden = parse_golden(text, path);
      const std::string name = path.substr(path.rfind('/') + 1);
      const ParityReport report = compare_with_golden(trace, golden, golden_conf(name).value());
      ++cells;
      sum.decision_count += report.decision_count;
      sum.placement_count += report.placement_count;
      sum.failure_count += report.failure_count;
      sum.counter_count += report.counter_count;
      sum.mismatch_count += report.mismatch_count;
      INFO(path << "\n" << describe(report));
      CHECK(report.mismatch_count == 0);
    }
  }
  CHECK(cells == 328);
  CHECK(sum.placement_count == 4224089);
  CHECK(sum.failure_count == 6747);
  std::cout << "parity: " << cells << " cells, " << sum.decision_count << " decisions ("
            << sum.placement_count << " placements, " << sum.counter_count << " counters), "
            << sum.mismatch_count << " mismatches\n";
}
