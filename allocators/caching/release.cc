// The table of releases; see release.h.
#include "allocators/caching/release.h"

#include <algorithm>
#include <array>
#include <cctype>
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

// By the texts in the wheels' libraries: 2.10 and later have no such warning, read both names, and
// take the old one first.
constexpr std::string_view kOldNameNote =
    "PyTorch 2.9 warns that PYTORCH_CUDA_ALLOC_CONF is deprecated; set it all the same, because "
    "its CUDA part does not read PYTORCH_ALLOC_CONF (pytorch issue 183387)";

constexpr Rules release_9() {
  return {.minor = 9,
          .reader = ConfigReader::Cuda,
          .places = {.folder = "/pytorch", .backend_line = 288},
          .advice_variable = kCudaVariable,
          .variable_note = kOldNameNote,
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
  rules.variable_note = {};
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
  rules.frees_at_pool_end = true;
  return rules;
}

constexpr Rules release_13() {
  Rules rules = release_12();
  rules.minor = 13;
  rules.tie_break = TieBreak::SegmentOrder;
  rules.places.folder = "/__w/pytorch/pytorch";
  rules.overflows_pinned = true;
  rules.pools_capture = false;
  rules.counts_private_pools = true;
  return rules;
}

constexpr Rules release_14() {
  Rules rules = release_13();
  rules.minor = 14;
  rules.overflows_pinned = false;
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

// Keys that releases before the oldest row do not know. Where they came from: PyTorch's pull
// request 158352, and AllocatorConfig of 2.0 to 2.8.
struct LaterKey {
  int since_minor;
  std::string_view name;
};
constexpr std::array kLaterKeys = {LaterKey{9, "graph_capture_record_stream_reuse"},
                                   LaterKey{6, "max_non_split_rounding_mb"},
                                   LaterKey{6, "pinned_use_background_threads"}};
// Of releases before it too much differs for the oldest row to answer.
constexpr int kOldestAnswered = 4;

// What is written around a release's number.
struct WrittenRelease {
  int minor = 0;
  std::string number;      // "2.11.0"
  bool is_before = false;  // a nightly, an alpha or a candidate of that release
};

// Takes `word` from the front, whatever its capitals.
bool take_word(std::string_view* text, std::string_view word) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (text->size() < word.size() || !std::equal(word.begin(), word.end(), text->begin(),
                                                [&](char b, char a) { return same(a, b); })) {
    return false;
  }
  text->remove_prefix(word.size());
  return true;
}

// Digits at the front.
std::optional<int> take_digits(std::string_view* text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(stop - text->data()));
  return value;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::optional<WrittenRelease> take_apart(std::string_view text) {
  if (!take_word(&text, "pytorch")) take_word(&text, "torch");
  text.remove_prefix(std::min(text.find_first_not_of(" =@-_~"), text.size()));
  take_word(&text, "v");
  const std::string_view from = text;
  const std::optional<int> major = take_digits(&text);
  if (major != 2 || !take_word(&text, ".")) return std::nullopt;
  const std::optional<int> minor = take_digits(&text);
  if (!minor) return std::nullopt;
  if (text.size() > 1 && text[0] == '.' && is_digit(text[1])) {
    text.remove_prefix(1);
    static_cast<void>(take_digits(&text));
  }
  WrittenRelease written{.minor = *minor,
                         .number = std::string(from.substr(0, from.size() - text.size()))};
  for (const std::string_view early : {".dev", "dev", "a", "b", "rc", "-rc", "-nightly"}) {
    if (!take_word(&text, early)) continue;
    written.is_before = true;
    text.remove_prefix(std::min(text.find_first_not_of("0123456789."), text.size()));
    break;
  }
  const bool is_read = text.empty() || text[0] == '+' || take_word(&text, ".post") ||
                       take_word(&text, "-cu") || take_word(&text, "-rocm");
  return is_read ? std::optional(written) : std::nullopt;
}

std::string keys_missing_in(int minor) {
  std::string names;
  for (const LaterKey& key : kLaterKeys) {
    if (minor < key.since_minor) names += (names.empty() ? "" : ", ") + std::string(key.name);
  }
  return names;
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

std::optional<ReadRelease> read_release(std::string_view text) {
  if (find_rules(text) != nullptr) return ReadRelease{.number = std::string(text), .note = {}};
  for (const std::string_view newest : {"nightly", "main", "latest"}) {
    if (text != newest) continue;
    return ReadRelease{.number = newest_rules().name(),
                       .note = "PyTorch " + newest_rules().name() +
                               ", the newest that is modelled, answers for " + std::string(text) +
                               "; what changed since is not known here"};
  }
  const std::optional<WrittenRelease> written = take_apart(text);
  if (!written) return std::nullopt;
  const std::string named = "2." + std::to_string(written->minor);
  if (find_rules(written->number) != nullptr) {
    const bool may_be_older = written->is_before && written->minor > kRules.front().minor;
    const std::string older = "2." + std::to_string(written->minor - 1);
    return ReadRelease{.number = written->number,
                       .note = may_be_older ? std::string(text) + " was built before " + named +
                                                  " was released; it is answered by " + named +
                                                  "'s rules and may still have those of " + older
                                            : ""};
  }
  if (written->minor < kOldestAnswered) return std::nullopt;
  const bool is_old = written->minor < kRules.front().minor;
  const Rules& nearest = is_old ? kRules.front() : kRules.back();
  std::string note = "PyTorch " + named + " is not modelled; " + nearest.name() +
                     ", the nearest, answers for it. ";
  if (is_old) {
    note += "Known to differ: " + named + " refuses " + keys_missing_in(written->minor) +
            ". Its placements were not compared with a recording";
  } else {
    note += "What changed since " + nearest.name() + " is not known here";
  }
  return ReadRelease{.number = nearest.name(), .note = std::move(note)};
}

const Rules& require_rules(std::string_view release, const std::string& where) {
  if (const Rules* const rules = find_rules(release); rules != nullptr) return *rules;
  std::string known;
  for (const Rules& rules : kRules) known += (known.empty() ? "" : ", ") + rules.name();
  throw UsageError({.what = "there are no rules for that release of PyTorch",
                    .where = where,
                    .wanted = known,
                    .got = "'" + std::string(release) + "'",
                    .next = "name the one that is nearest to yours"});
}

}  // namespace allocmark::caching
