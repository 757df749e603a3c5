// The one verdict of 'advise': a line to paste, or leave it unset, or no setting can help. Facts of
// settings and what the finalists cost flow in; the verdict and its reasons flow out. It claims
// nothing that the facts do not hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/search/search.h"

namespace allocmark {

// What a finalist costs: measured, or as searched. In the order of their rank.
struct FinalistCost {
  std::string conf;
  bool served = false;
  double value_ns = 0;
  std::optional<double> difference_ns = std::nullopt;  // to unset
  bool may_be_noise = false;                           // that difference
};

struct VerdictInput {
  std::span<const SettingFacts> settings;  // of all variants of the job, the worst of each
  std::span<const FinalistCost> costs;
  std::uint64_t needed_bytes = 0, capacity_bytes = 0;
  std::string_view per = "per step";  // what the costs are of
  // Unset takes a share of the card beforehand, which says nothing of what the job needs.
  bool takes_beforehand = false;
};

enum class VerdictKind : std::uint8_t { Paste, LeaveUnset, NoSetting };

struct SettingVerdict {
  VerdictKind kind = VerdictKind::NoSetting;
  std::string conf{};  // of Paste
  std::string why{};   // a sentence
};

[[nodiscard]] SettingVerdict decide(const VerdictInput& input);

// The costs of settings as the search models them, the cheapest first; for where nothing is
// measured.
[[nodiscard]] std::vector<FinalistCost> searched_costs(std::span<const SettingFacts> settings,
                                                       std::uint64_t capacity_bytes);

}  // namespace allocmark
