// The generators against every recording that ships: row by row, and by their peaks.
#include "workloads/references.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"
#include "workloads/trace_tools.h"

using namespace allocmark;

namespace {

// What cuDNN takes for a convolution, and other large scratch.
bool is_large_scratch(const Event& event) {
  return event.tensor == TensorKind::Workspace &&
         (event.size_bytes >= 256 << 10 || event.size_bytes == 400 || event.size_bytes == 272);
}

// An alloc as its size and stream, a free as the size or the number of its alloc with a minus sign.
std::vector<std::int64_t> rows_of(std::string_view workload, const Reference& reference) {
  std::vector<std::int64_t> rows;
  std::map<std::uint64_t, std::int64_t> names;
  std::int64_t alloc_count = 0;
  const bool compares_frees =
      reference.frees == FreeRows::Sizes || reference.frees == FreeRows::Blocks;
  for (const Event& event : read_all(*open_workload(std::string(workload), 1))) {
    if (reference.frees == FreeRows::NoWorkspaces && is_large_scratch(event)) continue;
    if (event.kind == EventKind::Alloc) {
      rows.push_back(static_cast<std::int64_t>(event.size_bytes * 8 + event.stream));
      names[event.id] = reference.frees == FreeRows::Sizes ? rows.back() : ++alloc_count;
    } else if (event.kind == EventKind::Free && compares_frees) {
      rows.push_back(-names[event.id]);
    }
  }
  rows.resize(std::min(rows.size(), reference.row_count));
  return rows;
}

}  // namespace

TEST_CASE("generated steps ask for what the recorded programs asked, row by row") {
  for (const Reference& reference : references()) {
    INFO(reference.recording << " and " << reference.workload);
    const std::vector<std::int64_t> generated = rows_of(reference.workload, reference);
    const std::vector<std::int64_t> recorded = rows_of(reference.recording, reference);
    CHECK(recorded.size() == reference.row_count);
    // Every generated row is there in the recording, in the same order.
    std::size_t next = 0;
    for (const std::int64_t row : recorded) {
      if (next < generated.size() && generated[next] == row) ++next;
    }
    CHECK(next + reference.missing_max >= generated.size());
    CHECK(generated.size() + reference.missing_max >= recorded.size());
  }
}

TEST_CASE("generated peaks are the recorded ones to the byte, but for a loss of four") {
  for (const Reference& reference : references()) {
    INFO(reference.recording << " and " << reference.workload);
    if (reference.recording.starts_with("llama_lora") ||
        reference.recording == "bert_varlen_infer") {
      continue;  // the recording is longer than the generated trace, or shorter
    }
    const TraceSummary generated = summarize(*open_workload(std::string(reference.workload), 1));
    const TraceSummary recorded = summarize(*open_workload(std::string(reference.recording), 1));
    const std::int64_t difference = static_cast<std::int64_t>(generated.requested_bytes_peak) -
                                    static_cast<std::int64_t>(recorded.requested_bytes_peak);
    // The scripts of padded batches keep labels, too, and assisted generation some tokens.
    const bool has_own_workspaces = reference.frees == FreeRows::NoWorkspaces;
    const bool is_near = has_own_workspaces ||
                         reference.workload.find("padding=1") != std::string_view::npos ||
                         reference.workload.find("draft=") != std::string_view::npos;
    CHECK(std::abs(difference) <= (is_near ? 4096 : 4));
    const double share = has_own_workspaces ? 1e-5 : 0;
    CHECK(generated.largest_bytes == Approx(recorded.largest_bytes).epsilon(share));
  }
}

TEST_CASE("of the requests of recorded UNets 1 % or less have another size, workspaces included") {
  const auto sizes = [](std::string_view workload) {
    std::vector<std::uint64_t> result;
    for (const Event& event : read_all(*open_workload(std::string(workload), 1))) {
      if (event.kind == EventKind::Alloc) result.push_back(event.size_bytes);
    }
    std::sort(result.begin(), result.end());
    return result;
  };
  for (const Reference& reference : references()) {
    if (reference.frees != FreeRows::NoWorkspaces) continue;
    INFO(reference.recording);
    const std::vector<std::uint64_t> recorded = sizes(reference.recording);
    const std::vector<std::uint64_t> generated = sizes(reference.workload);
    std::vector<std::uint64_t> missing;
    std::set_difference(recorded.begin(), recorded.end(), generated.begin(), generated.end(),
                        std::back_inserter(missing));
    CHECK(missing.size() * 100 <= recorded.size());
    CHECK(generated.size() * 1000 <= recorded.size() * 1001);
  }
}

TEST_CASE("every recording that ships says what it is, and all but random ones have their like") {
  for (const WorkloadListing& listing : list_workloads()) {
    if (listing.kind != "recorded") continue;
    INFO(listing.name);
    CHECK(listing.summary != "a recorded trace");
    CHECK(listing.summary.size() > 20);
    if (!listing.name.starts_with("fuzz")) {
      CHECK(find_reference(listing.name).recording == listing.name);
    }
  }
}

TEST_CASE("an unknown recording is answered with near ones") {
  CHECK(find_reference("vit_amp").workload.starts_with("train:vit-base"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(find_reference("vit_ampp")); }),
                 "did you mean 'vit_amp'"));
}
