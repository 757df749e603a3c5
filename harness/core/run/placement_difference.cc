#include "harness/core/run/placement_difference.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include "base/bytes.h"
#include "base/input_file.h"
#include "harness/core/check/placement_recorder.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

struct PlacementAnswer {
  bool ended = false, failed = false;
  std::optional<std::uint64_t> address = {};  // relative to the first one; wraps around below it
  std::string place = {};                     // "segment 3 + 0x200"; empty where not told

  friend bool operator==(const PlacementAnswer& a, const PlacementAnswer& b) {
    return a.ended == b.ended && a.failed == b.failed && a.address == b.address;
  }
};

std::uint64_t take_number(std::string_view& line, int base) {
  while (line.starts_with(' ')) line.remove_prefix(1);
  std::uint64_t value = 0;
  const auto end = std::from_chars(line.data(), line.data() + line.size(), value, base);
  line.remove_prefix(static_cast<std::size_t>(end.ptr - line.data()));
  return value;
}

// The answers of a file of placements, one at a time.
class PlacementAnswers {
 public:
  explicit PlacementAnswers(std::string_view text) : text_(text) {}

  PlacementAnswer next() {
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      const std::string_view line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      if (line.starts_with("g ")) add_segment(line.substr(2));
      if (line.starts_with("a ")) return answer_of(line.substr(2));
    }
    return {.ended = true};
  }

 private:
  struct Segment {
    std::uint64_t address = 0, size_bytes = 0;
  };

  void add_segment(std::string_view line) {
    const std::uint64_t ordinal = take_number(line, 10);
    const std::uint64_t address = take_number(line, 16);
    segments_[ordinal] = {.address = address, .size_bytes = take_number(line, 10)};
  }

  PlacementAnswer answer_of(std::string_view line) {
    if (line == "oom") return {.failed = true};
    if (line == "ok") return {};
    const std::uint64_t ordinal = take_number(line, 10);
    const std::uint64_t offset = take_number(line, 16);
    const Segment& segment = segments_[ordinal];
    const std::uint64_t address = segment.address + offset;
    if (!first_address_) first_address_ = address;
    PlacementAnswer answer{.address = address - *first_address_};
    if (segment.size_bytes != kPlacementRegionBytes) {
      answer.place = fmt::format("segment {} + 0x{:x}", ordinal, offset);
    }
    return answer;
  }

  std::string_view text_;
  std::map<std::uint64_t, Segment> segments_;
  std::optional<std::uint64_t> first_address_;
};

// "segment 3 + 0x200", and how far from the first block where that alone does not tell two apart.
std::string in_words(const PlacementAnswer& answer, const PlacementAnswer& other) {
  if (answer.ended) return "no such request";
  if (answer.failed) return "out of memory";
  if (!answer.address) return "served";
  if (!answer.place.empty() && answer.place != other.place) return answer.place;
  const auto offset = static_cast<std::int64_t>(*answer.address);
  const std::string distance =
      fmt::format("{}0x{:x} from the first block", offset < 0 ? '-' : '+',
                  offset < 0 ? std::uint64_t{0} - *answer.address : *answer.address);
  return answer.place.empty() ? distance : answer.place + ", " + distance;
}

// "caching" of "caching@2.13".
std::string_view allocator_family(const CellKey& key) {
  return std::string_view(key.allocator).substr(0, key.allocator.find('@'));
}

// The request itself, from the workload: "2.00 MiB on stream 0, event 830".
std::string request_text(const CellKey& key, std::uint64_t allocation_index) {
  const std::unique_ptr<EventSource> source = open_workload(key.workload, key.seed);
  std::uint64_t event_index = 0;
  std::uint64_t left = allocation_index;
  for (std::span<const Event> events = source->next(); !events.empty(); events = source->next()) {
    for (const Event& event : events) {
      if (event.kind == EventKind::Alloc && left-- == 0) {
        return fmt::format("{} on stream {}, event {}", format_bytes(event.size_bytes),
                           event.stream, event_index);
      }
      ++event_index;
    }
  }
  return "beyond the trace's end";
}

}  // namespace

std::optional<PlacementDifference> first_difference(std::string_view base, std::string_view now) {
  PlacementAnswers base_answers(base);
  PlacementAnswers now_answers(now);
  for (std::uint64_t index = 0;; ++index) {
    const PlacementAnswer base_answer = base_answers.next();
    const PlacementAnswer now_answer = now_answers.next();
    if (!(base_answer == now_answer)) {
      return PlacementDifference{.allocation_index = index,
                                 .base = in_words(base_answer, now_answer),
                                 .now = in_words(now_answer, base_answer)};
    }
    if (base_answer.ended) return std::nullopt;
  }
}

PlacementDifferences::PlacementDifferences(const InterleavedPlan& plan, const std::string& folder)
    : plan_(plan), folder_((fs::path(folder) / "placements").string()) {
  fs::create_directories(folder_);
}

PlacementDifferences::~PlacementDifferences() {
  std::error_code error;  // what stays behind harms nobody
  fs::remove_all(folder_, error);
}

std::string PlacementDifferences::path(std::size_t cell_index, std::size_t side) const {
  const InterleavedCell& cell = plan_.cells.at(cell_index);
  if (allocator_family(cell.base) != allocator_family(cell.now)) return {};
  return (fs::path(folder_) / fmt::format("{}-{}", cell_index, side)).string();
}

void PlacementDifferences::note_ended(std::size_t cell_index, bool measured) {
  if (!measured || ++measured_counts_[cell_index] < kSideCount) return;
  std::array<std::string, kSideCount> texts;
  for (std::size_t side = 0; side < kSideCount; ++side) {
    const std::string written = path(cell_index, side);
    std::error_code error;
    if (written.empty() || !fs::exists(written, error)) return;
    texts.at(side) = read_file(written, kGoldenInput);
    fs::remove(written, error);
  }
  std::optional<PlacementDifference> difference = first_difference(texts[0], texts[1]);
  if (difference) found_.emplace(cell_index, std::move(*difference));
}

std::map<std::size_t, std::string> PlacementDifferences::texts() const {
  std::map<std::size_t, std::string> texts;
  for (const auto& [index, found] : found_) {
    const CellKey& key = plan_.cells.at(index).base;
    texts[index] = fmt::format("first at request {} ({}): {} {}, {} {}", found.allocation_index + 1,
                               request_text(key, found.allocation_index), plan_.sides[0].label,
                               found.base, plan_.sides[1].label, found.now);
  }
  return texts;
}

}  // namespace allocmark
