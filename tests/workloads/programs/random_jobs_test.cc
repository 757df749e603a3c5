// Goal: `train` and `infer` ask for what PyTorch asks for, whatever their keys. Method: jobs that
// were drawn at random and run in PyTorch 2.11 with transformers 5.17 on simcuda
// (scripts/record/random_jobs.py). Sizes of all requests are the same in order, of DeepSpeed's
// those of 8 KiB or more; peaks may differ where a variable of the program lives a little longer.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

namespace allocmark {
namespace {

constexpr double kPeakTolerance = 5e-5;

struct Requests {
  std::uint64_t count = 0;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a of sizes, eight bytes each

  void add(std::uint64_t size_bytes) {
    ++count;
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ (size_bytes >> shift & 0xff)) * 0x100000001b3;
    }
  }
};

struct Job {
  Requests before;  // the first step or batch
  Requests from_there;
};

bool is_deepspeed(const std::string& text) {
  return text.find(",zero=") != std::string::npos && text.find(",sharder=") == std::string::npos;
}

// DeepSpeed's norms and counts are smaller, and are not generated.
std::uint64_t least_bytes(const std::string& text) { return is_deepspeed(text) ? 8192 : 1; }

// A rank that is alone cannot compare its parameters' shapes with others', which takes five
// tensors.
std::size_t unasked_count(const std::string& text) {
  if (is_deepspeed(text)) return 0;
  const bool is_replica = text.find(",dp=") != std::string::npos;
  const bool shares_sequences = text.find(",cp=") != std::string::npos;
  return is_replica && !shares_sequences && text.find(",fsdp=") == std::string::npos ? 5 : 0;
}

Job requests_of(EventSource& source, std::size_t unasked, std::uint64_t least) {
  Job out;
  bool has_begun = false;
  for (const Event& event : read_all(source)) {
    if (event.kind == EventKind::Mark) {
      const std::string& label = source.labels()[event.id];
      has_begun = has_begun || label == "step0" || label == "batch0";
    }
    if (event.kind != EventKind::Alloc) continue;
    if (unasked > 0 && event.tensor == TensorKind::Communication) {
      --unasked;
      continue;
    }
    if (event.size_bytes < least) continue;
    (has_begun ? out.from_there : out.before).add(event.size_bytes);
  }
  return out;
}

TEST_CASE("jobs drawn at random ask for what PyTorch asks for", "[workload]") {
  std::ifstream file("tests/golden/workloads/random_jobs.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  REQUIRE(line == "text;requests;hash_before;hash;peak_bytes");
  int job_count = 0;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    std::string text, count, before, hash, peak;
    std::getline(row, text, ';');
    std::getline(row, count, ';');
    std::getline(row, before, ';');
    std::getline(row, hash, ';');
    std::getline(row, peak, ';');
    INFO(text);
    const std::unique_ptr<EventSource> source = open_workload(text, 1);
    const Job job = requests_of(*source, unasked_count(text), least_bytes(text));
    if (before != "-") CHECK(std::to_string(job.before.hash) == before);
    CHECK(std::to_string(job.from_there.count) == count);
    CHECK(std::to_string(job.from_there.hash) == hash);
    source->rewind();
    const auto generated = static_cast<double>(summarize(*source).requested_bytes_peak);
    CHECK(std::abs(generated / std::stod(peak) - 1) < kPeakTolerance);
    ++job_count;
  }
  CHECK(job_count == 1257);
}

}  // namespace
}  // namespace allocmark
