// Every golden there is: the caching allocator must answer each request of seven recorded programs
// as PyTorch's own allocator did on an NVIDIA H200, under 16 config strings and up to four memory
// limits.
#include "harness/parity/parity.h"

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/allocators/caching/golden_files.h"
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

TEST_CASE("goldens and traces that are cut short or mixed up are named as such") {
  const std::vector<ParityOperation> trace = read_trace("gpt2_train_amp");
  const std::string text = read_goldens("gpt2_train_amp").at("gpt2_train_amp/C00_all.txt");
  const auto message = [&](const std::string& golden,
                           const std::vector<ParityOperation>& operations,
                           std::string_view conf) -> std::string {
    try {
      static_cast<void>(compare_with_golden(operations, parse_golden(golden, "g.txt"), conf));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto contains = [](const std::string& whole, std::string_view part) {
    INFO(whole);
    CHECK(whole.find(part) != std::string::npos);
  };
  CHECK(message(text, trace, "") == "accepted");
  contains(message("", trace, ""), "the golden is empty");
  contains(message(text.substr(0, text.size() / 2), trace, ""), "cut short");
  contains(message(text.substr(0, text.size() - 1), trace, ""), "cut short");
  contains(message("op,id,size,stream\n", trace, ""), "this is no golden");
  contains(message(text.substr(0, text.find('\n') + 1) + "z 1\n", trace, ""), "another version");
  contains(message(text.substr(0, text.find('\n') + 1) + "a 77 0\n", trace, ""),
           "a segment named in a 'g' line");
  contains(message(text.substr(0, text.find('\n') + 1) + "g x 0 1 1 1\n", trace, ""),
           "cannot be read");
  contains(message(text, {trace.begin(), trace.end() - 1}, ""), "cut short, or belongs to another");
  contains(message(text, trace, "backend:cudaMallocAsync"), "cannot be the one");
}

TEST_CASE("a wrong answer is reported with the request, both answers and the state") {
  const std::vector<ParityOperation> trace = read_trace("gpt2_train_amp");
  const Golden golden =
      parse_golden(read_goldens("gpt2_train_amp").at("gpt2_train_amp/C00_all.txt"), "g.txt");
  Golden wrong_place = golden;
  wrong_place.answers[100].address += 512;
  const ParityReport moved = compare_with_golden(trace, wrong_place, "");
  REQUIRE(moved.first.has_value());
  CHECK(moved.first->what == "placement");
  CHECK(moved.first->request.starts_with("alloc "));
  CHECK(moved.first->golden.starts_with("address 0x"));
  CHECK(moved.first->ours.starts_with("address 0x"));
  CHECK(moved.first->state.find("segment 0x") != std::string::npos);
  CHECK(compare_with_golden(trace, golden, "max_split_size_mb:32").mismatch_count > 0);

  Golden wrong_counter = golden;
  wrong_counter.counters.back().entries.front().values[1] += 1;
  const ParityReport report = compare_with_golden(trace, wrong_counter, "");
  CHECK(report.mismatch_count == 1);
  CHECK(report.first->what == "counter allocation.all");
}
