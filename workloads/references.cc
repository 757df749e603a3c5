#include "workloads/references.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/number_text.h"
#include "workloads/reference_rows.h"
#include "workloads/trace/model_keys.h"

namespace allocmark {
namespace {

// By FreeRows.
constexpr std::array<std::string_view, 4> kFreeWords = {"none", "no_workspaces", "sizes", "blocks"};

Reference reference_of(std::string_view row) {
  const std::vector<std::string_view> fields = words_of(row, '\t');
  ALLOCMARK_ASSERT(fields.size() == 6);
  const auto* frees = std::ranges::find(kFreeWords, fields[3]);
  ALLOCMARK_ASSERT(frees != kFreeWords.end());
  return {.recording = fields[0],
          .workload = fields[4],
          .row_count = number_in_text<std::size_t>(fields[1]).value(),
          .missing_max = number_in_text<std::size_t>(fields[2]).value(),
          .frees = static_cast<FreeRows>(frees - kFreeWords.begin()),
          .summary = fields[5]};
}

}  // namespace

std::span<const Reference> references() {
  static const std::vector<Reference> all = [] {
    std::vector<Reference> rows;
    for (const std::string_view row : words_of(kReferenceRows, '\n')) {
      if (!row.empty() && !row.starts_with('#')) rows.push_back(reference_of(row));
    }
    return rows;
  }();
  return all;
}

const Reference& find_reference(std::string_view recording) {
  std::vector<std::string> names;
  for (const Reference& reference : references()) {
    if (reference.recording == recording) return reference;
    names.emplace_back(reference.recording);
  }
  throw UsageError({
      .what = "no workload is known for this recording",
      .wanted = "a recording that a generator has a like of",
      .got = std::string(recording),
      .next = nearest_names(recording, names).empty() ? "give its workload with --workload"
                                                      : suggest(recording, names),
  });
}

}  // namespace allocmark
