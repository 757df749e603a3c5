// The ranks of a job (ranks.h).
#include "harness/tools/ranks/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/number_text.h"
#include "harness/core/replay/kernel_source.h"
#include "workloads/trace/parameters.h"

namespace allocmark {
namespace {

std::uint64_t number_of(const Parameters& parts, std::string_view key) {
  const std::string* text = parts.given(key);
  std::uint64_t number = 1;
  // What is no number is refused by the generator, which says more about it.
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), number);
  return std::clamp<std::uint64_t>(number, 1, 1 << 20);
}

[[noreturn]] void refuse_job(const std::string& text, const std::string& got) {
  throw UsageError({.what = "this workload does not say what its ranks are",
                    .where = text,
                    .wanted =
                        "a train workload with dp, tp, cp or pp above 1, or an infer workload with "
                        "tp above 1, without rank",
                    .got = got,
                    .next = "give a workload for each rank, or a job, as: "
                            "train:gpt2-124m,batch=4,dp=4,fsdp=2"});
}

std::vector<RankSpec> ranks_of_job(const std::string& text, const JobWords& words) {
  const std::string definition = define_workload_with_kernels(text);
  const std::string& defined = definition.empty() ? text : definition;
  const bool has_ranks = defined.starts_with("train:") || defined.starts_with("infer:");
  if (!has_ranks || defined.find(' ') != std::string::npos) {
    (void)open_workload_with_kernels(text, 1);  // says more where there is no such workload
    refuse_job(text, "another workload");
  }
  // An ending as "+kernels:off" stays at the end.
  const std::size_t plus = std::min(defined.find('+'), defined.size());
  const Parameters parts(std::string_view(defined).substr(0, plus));
  if (parts.given("rank") != nullptr) refuse_job(text, "rank=" + *parts.given("rank"));
  std::uint64_t world = 1;
  for (const char* const key : {"tp", "ep", "cp", "dp", "pp"}) world *= number_of(parts, key);
  if (world == 1) refuse_job(text, "one rank");
  std::vector<std::uint32_t> chosen = words.chosen;
  for (std::uint32_t i = 0; chosen.size() < world && words.chosen.empty(); ++i) chosen.push_back(i);
  std::vector<RankSpec> ranks;
  for (const std::uint32_t number : chosen) {
    if (number >= world) {
      throw UsageError({.what = "the job has no such rank",
                        .where = "--ranks",
                        .wanted = fmt::format("0 to {}", world - 1),
                        .got = std::to_string(number)});
    }
    std::string workload = fmt::format("{},rank={}", parts.text(), number);
    // Meetings, and time to compute in: without it only calls of the driver would take time.
    for (const char* const key : {"collectives", "kernels"}) {
      if (parts.given(key) == nullptr) workload += fmt::format(",{}=1", key);
    }
    ranks.push_back({.number = number, .workload = workload + defined.substr(plus)});
  }
  return ranks;
}

// "2=TEXT" into the rank of that number, among those that there are.
RankSpec& rank_named(std::vector<RankSpec>& ranks, const std::string& word, const char* option) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const auto number = number_in_text<std::uint32_t>(std::string_view(word).substr(0, equals));
  const auto found = std::ranges::find(ranks, number, &RankSpec::number);
  if (equals + 1 < word.size() && found != ranks.end()) return *found;
  std::vector<std::uint32_t> numbers;
  for (const RankSpec& rank : ranks) numbers.push_back(rank.number);
  throw UsageError({.what = "this names no rank and what it has",
                    .where = option,
                    .wanted = fmt::format("R=TEXT with R of {}", fmt::join(numbers, ", ")),
                    .got = word});
}

void check_count(const std::vector<RankSpec>& ranks) {
  if (ranks.size() >= 2 && ranks.size() <= kRankCountMax) return;
  throw UsageError({.what = "a job has several ranks, and each has a device",
                    .wanted = fmt::format("2 to {} ranks", kRankCountMax),
                    .got = std::to_string(ranks.size()),
                    .next = "choose some of them, as: --ranks 0,1,8,9"});
}

void check_once(const std::vector<RankSpec>& ranks) {
  std::vector<std::uint32_t> numbers;
  for (const RankSpec& rank : ranks) numbers.push_back(rank.number);
  std::ranges::sort(numbers);
  const auto twice = std::ranges::adjacent_find(numbers);
  if (twice == numbers.end()) return;
  throw UsageError({.what = "a rank is named twice",
                    .where = "--ranks",
                    .wanted = "each number once",
                    .got = std::to_string(*twice)});
}

}  // namespace

std::vector<RankSpec> ranks_of(const JobWords& words) {
  std::vector<RankSpec> ranks;
  if (words.workloads.size() == 1) {
    ranks = ranks_of_job(words.workloads.front(), words);
  } else {
    if (!words.chosen.empty()) {
      throw UsageError({.what = "ranks are chosen from a job, not from a list of workloads",
                        .where = "--ranks",
                        .wanted = "one workload",
                        .got = std::to_string(words.workloads.size()),
                        .next = "name only the workloads that should run"});
    }
    for (std::uint32_t i = 0; i < words.workloads.size(); ++i) {
      ranks.push_back({.number = i, .workload = words.workloads[i]});
    }
  }
  check_once(ranks);
  check_count(ranks);
  for (RankSpec& rank : ranks) rank.capacity = words.capacity;
  for (const std::string& word : words.rank_capacities) {
    rank_named(ranks, word, "--rank-capacity").capacity = word.substr(word.find('=') + 1);
  }
  for (const std::string& word : words.rank_workloads) {
    rank_named(ranks, word, "--rank-workload").workload = word.substr(word.find('=') + 1);
  }
  return ranks;
}

}  // namespace allocmark
