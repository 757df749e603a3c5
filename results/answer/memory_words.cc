// Waste, headroom and growth in words.
#include "results/answer/answer_parts.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// A setting that reserves less than this share of what another does cures it.
constexpr double kCureShare = 0.9;
constexpr double kMiBBytes = static_cast<double>(kMiB);
// Slower growth than this fills 24 GiB in 24,000 steps.
constexpr double kGrowthToldBytesMin = kMiBBytes;
// Of cells whose growth is told; the file has all.
constexpr std::size_t kGrowthListedMax = 4;

std::string growth_text(const CellResult& cell, const TextStyle& style) {
  const MemoryGrowth& growth = *cell.growth;
  const bool shrinks = growth.bytes_per_step_high < -kGrowthToldBytesMin;
  const std::string name = setting_name(cell.key, style);
  const std::string interval =
      fmt::format("{:.1f} to {:.1f} MiB", growth.bytes_per_step_low / kMiBBytes,
                  growth.bytes_per_step_high / kMiBBytes);
  if (grows(cell) || shrinks) {
    return name +
           style.plain(fmt::format(" {} {:.1f} MiB a step ({})", shrinks ? "changes by" : "grows",
                                   growth.bytes_per_step / kMiBBytes, interval));
  }
  // A wider interval leaves room for growth that fills a card.
  const bool is_flat = growth.bytes_per_step_low >= -kGrowthToldBytesMin &&
                       growth.bytes_per_step_high <= kGrowthToldBytesMin;
  return name + style.plain(fmt::format(" {} over {} steps ({} a step)",
                                        is_flat ? "is flat" : "is not known to be flat",
                                        growth.step_count, interval));
}

// The baseline and the settings in the order of their rank.
std::vector<const CellResult*> served_cells(const Answer& answer) {
  std::vector<const CellResult*> cells;
  if (answer.baseline != nullptr) cells.push_back(answer.baseline);
  for (const RankedCell& one : answer.settable) cells.push_back(one.cell);
  return cells;
}

constexpr std::size_t kPoolCellsMax = 3;  // that are told; the file has all
constexpr std::string_view kStrandedOfPool = "private_pools.stranded_bytes_of_pool";

std::optional<std::uint64_t> pool_counter(const CellResult& cell, std::string_view name) {
  const auto value = counter_of(cell, fmt::format("private_pools.{}", name));
  return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

// "1.64 GiB are stranded in 51 of them (64.0 MiB in pool 3)"
std::string stranded_text(const CellResult& cell) {
  const std::uint64_t stranded_bytes = pool_counter(cell, "stranded_bytes_peak").value_or(0);
  if (stranded_bytes == 0) return "nothing is stranded";
  std::pair<std::uint64_t, std::string_view> most;  // bytes, and of which pool
  std::uint64_t count = 0;
  for (const auto& [key, value] : cell.counters) {
    if (!key.starts_with(kStrandedOfPool) || value == 0) continue;
    ++count;
    const auto bytes = static_cast<std::uint64_t>(value);
    if (bytes > most.first) most = {bytes, std::string_view(key).substr(kStrandedOfPool.size())};
  }
  if (count == 1)
    return fmt::format("{} are stranded in pool {}", format_bytes(stranded_bytes), most.second);
  return fmt::format("{} are stranded in {} of them ({} in pool {})", format_bytes(stranded_bytes),
                     count, format_bytes(most.first), most.second);
}

std::string pool_text(const CellResult& cell) {
  std::string text =
      fmt::format(" hold {} at most, and {}",
                  format_bytes(*pool_counter(cell, "reserved_bytes_peak")), stranded_text(cell));
  if (const auto back_bytes = pool_counter(cell, "given_back_bytes_max")) {
    const std::uint64_t kept_bytes = pool_counter(cell, "kept_bytes").value_or(0);
    text += fmt::format("; empty_cache gave back {} of {} at most", format_bytes(*back_bytes),
                        format_bytes(*back_bytes + kept_bytes));
  }
  const std::uint64_t failed_count = pool_counter(cell, "capture_failed_count").value_or(0);
  if (failed_count == 0) return text;
  return text + fmt::format("; in {} of {} captures a request failed", failed_count,
                            pool_counter(cell, "capture_count").value_or(0));
}

}  // namespace

std::string pool_words(std::span<const CellResult* const> cells, const TextStyle& style) {
  std::string text;
  std::size_t count = 0;
  for (const CellResult* cell : cells) {
    if (!pool_counter(*cell, "reserved_bytes_peak") || ++count > kPoolCellsMax) continue;
    text +=
        " Private pools of " + setting_name(cell->key, style) + style.plain(pool_text(*cell) + ".");
  }
  return text;
}

std::string waste_line(const Answer& answer, const TextStyle& style) {
  const CellResult& cell = *answer.wasteful;
  std::string text = setting_name(cell.key, style) +
                     style.plain(fmt::format(" reserves {} at its peak for {} requested",
                                             format_bytes(*cell.reserved_bytes_peak),
                                             format_bytes(cell.requested_bytes_peak)));
  const CellResult* cure = answer.leanest;
  const bool cures =
      cure != nullptr && static_cast<double>(*cure->reserved_bytes_peak) <=
                             kCureShare * static_cast<double>(*cell.reserved_bytes_peak);
  if (!cures) return text + "; no setting measured reserves less.";
  return text + "; " + setting_name(cure->key, style) +
         style.plain(" reserves " + format_bytes(*cure->reserved_bytes_peak)) + ".";
}

std::optional<std::string> headroom_line(const Answer& answer, const TextStyle& style) {
  const CellResult* cell = answer.baseline;
  if (cell == nullptr || outcome_of(*cell) != Outcome::Ok || !cell->reserved_bytes_peak) {
    return std::nullopt;
  }
  const std::uint64_t reserved_bytes = *cell->reserved_bytes_peak;
  if (cell->capacity_bytes < reserved_bytes) return std::nullopt;
  if (cell->key.capacity == "unlimited") {
    return "Headroom: " + setting_name(cell->key, style) +
           style.plain(fmt::format(" reserves {} of {} that the card leaves; {} are left",
                                   format_bytes(reserved_bytes), format_bytes(cell->capacity_bytes),
                                   format_bytes(cell->capacity_bytes - reserved_bytes))) +
           ".";
  }
  return "Headroom: " + setting_name(cell->key, style) +
         style.plain(fmt::format(" reserves {} of {}; {} are left", format_bytes(reserved_bytes),
                                 format_bytes(cell->capacity_bytes),
                                 format_bytes(cell->capacity_bytes - reserved_bytes))) +
         ".";
}

bool grows(const CellResult& cell) {
  return cell.growth && cell.growth->bytes_per_step_low > 0 &&
         cell.growth->bytes_per_step >= kGrowthToldBytesMin;
}

std::optional<std::string> growth_line(const Answer& answer, const TextStyle& style) {
  std::vector<std::string> parts;
  for (const CellResult* cell : served_cells(answer)) {
    if (cell->growth && parts.size() < kGrowthListedMax) parts.push_back(growth_text(*cell, style));
  }
  if (parts.empty()) return std::nullopt;
  return fmt::format("Reserved less live memory over steps: {}.", fmt::join(parts, "; "));
}

}  // namespace allocmark
