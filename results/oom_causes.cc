#include "results/oom_causes.h"

#include <array>

namespace allocmark {
namespace {

struct CauseRow {
  OomCause cause;
  std::string_view name;
  std::string_view words;
  std::string_view reason;
};

constexpr std::array<CauseRow, kOomCauseCount> kCauses{{
    {OomCause::Capacity, "capacity", "capacity", "its own live memory fills the capacity"},
    {OomCause::Rounding, "rounding", "rounding", "rounding fills the capacity"},
    {OomCause::Stranded, "stranded", "kept for other streams",
     "free memory is kept for other streams or pools"},
    {OomCause::Fragmentation, "fragmentation", "fragmentation", "free memory is fragmented"},
    {OomCause::Unknown, "unknown", "unknown", "cause not known"},
    {OomCause::Pending, "pending", "waits for events",
     "free memory waits for events; the same request right after it is served"},
    {OomCause::Limit, "limit", "limit of the process",
     "its own live memory fills the limit of the process"},
    {OomCause::OtherProcess, "other_process", "another process's cache",
     "free memory is in another process's cache"},
    {OomCause::Refused, "refused", "the allocator refused",
     "the allocator refused without asking the driver for memory"},
    {OomCause::HostLost, "host_lost", "the host hangs",
     "the card's memory is the host's, which hangs before a request fails"},
}};

constexpr bool rows_follow_the_enum() {
  for (std::size_t index = 0; index < kCauses.size(); ++index) {
    if (static_cast<std::size_t>(kCauses[index].cause) != index) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

}  // namespace

std::string_view to_string(OomCause cause) {
  return kCauses.at(static_cast<std::size_t>(cause)).name;
}

std::optional<OomCause> parse_oom_cause(std::string_view text) {
  for (const CauseRow& row : kCauses) {
    if (row.name == text) return row.cause;
  }
  return std::nullopt;
}

std::string_view short_words(OomCause cause) {
  return kCauses.at(static_cast<std::size_t>(cause)).words;
}

std::string_view reason_words(OomCause cause) {
  return kCauses.at(static_cast<std::size_t>(cause)).reason;
}

}  // namespace allocmark
