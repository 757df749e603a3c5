// The table of releases; see release.h.
#include "allocators/caching/release.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/assert.h"
#include "base/error.h"

namespace allocmark::caching {
namespace {

constexpr std::string_view kOldPage =
    "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables";
constexpr std::string_view kPage =
    "https://docs.pytorch.org/docs/stable/notes/"
    "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf";
constexpr std::string_view kCudaVariable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr std::string_view kVariable = "PYTORCH_ALLOC_CONF";

constexpr Rules release_9() {
  return {.minor = 9,
          .reader = ConfigReader::Cuda,
          .places = {.folder = "/pytorch", .backend_line = 288},
          .advice_variable = kCudaVariable,
          .advice_page = kOldPage,
          .resets_non_split_rounding = false,
          .keeps_whole_limit = true,
          .cuts_pool_text = true};
}

constexpr Rules release_10() {
  Rules rules = release_9();
  rules.minor = 10;
  rules.reader = ConfigReader::Accelerator;
  rules.places = {.folder = "/pytorch",
                  .token_line = 126,
                  .list_line = 57,
                  .bracket_line = 117,
                  .backend_line = 44};
  rules.advice_variable = kVariable;
  rules.keeps_whole_limit = false;
  rules.cuts_pool_text = false;
  return rules;
}

constexpr Rules release_11() {
  Rules rules = release_10();
  rules.minor = 11;
  rules.places.token_line = 124;
  rules.places.list_line = 55;
  rules.places.bracket_line = 115;
  rules.advice_variable = kCudaVariable;
  rules.advice_page = kPage;
  rules.resets_non_split_rounding = true;
  return rules;
}

constexpr Rules release_12() {
  Rules rules = release_11();
  rules.minor = 12;
  rules.tie_break = TieBreak::BlockOrder;
  rules.counts_rejections = true;
  return rules;
}

constexpr Rules release_13() {
  Rules rules = release_12();
  rules.minor = 13;
  rules.tie_break = TieBreak::SegmentOrder;
  rules.places.folder = "/__w/pytorch/pytorch";
  return rules;
}

constexpr Rules release_14() {
  Rules rules = release_13();
  rules.minor = 14;
  rules.pool_retries = true;
  rules.expandable_advice = ExpandableAdvice::None;
  return rules;
}

constexpr Rules release_15() {
  Rules rules = release_14();
  rules.minor = 15;
  rules.places.token_line = 123;
  rules.places.list_line = 54;
  rules.places.bracket_line = 114;
  rules.places.backend_line = 64;
  rules.expandable_advice = ExpandableAdvice::AddressSpace;
  return rules;
}

constexpr std::array kRules = {release_9(),  release_10(), release_11(), release_12(),
                               release_13(), release_14(), release_15()};

const Rules& rules_of(int minor) {
  const auto* found = std::ranges::find(kRules, minor, &Rules::minor);
  ALLOCMARK_ASSERT(found != kRules.end());
  return *found;
}

}  // namespace

std::span<const Rules> all_rules() { return kRules; }

const Rules& newest_rules() { return rules_of(kNewestMinor); }

const Rules& recorded_rules() { return rules_of(kRecordedMinor); }

const Rules* find_rules(std::string_view release) {
  if (!release.starts_with("2.")) return nullptr;
  int minor = 0;
  const char* const end = release.data() + release.size();
  const auto [stop, error] = std::from_chars(release.data() + 2, end, minor);
  if (error != std::errc()) return nullptr;
  int patch = 0;
  const bool has_patch = stop != end;
  if (has_patch && *stop != '.') return nullptr;
  if (has_patch && std::from_chars(stop + 1, end, patch).ptr != end) return nullptr;
  if (has_patch && stop + 1 == end) return nullptr;
  const auto* found = std::ranges::find(kRules, minor, &Rules::minor);
  return found == kRules.end() ? nullptr : found;
}

const Rules& require_rules(std::string_view release, const std::string& where) {
  if (const Rules* const rules = find_rules(release); rules != nullptr) return *rules;
  std::string known;
  for (const Rules& rules : kRules) known += (known.empty() ? "" : ", ") + rules.name();
  throw UsageError({.what = "there are no rules for that release of PyTorch",
                    .where = where,
                    .wanted = known,
                    .got = "'" + std::string(release) + "'",
                    .next = "a release between two of these has the rules of the older one"});
}

}  // namespace allocmark::caching
