// See cards.h.
#include "harness/run/cards.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "harness/run/run_folder.h"
#include "harness/run/runtime_select.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCardsFile = "cards.tsv";
constexpr std::string_view kMemory = ",memory=";
// Cards without a profile of their own borrow the times of this one.
constexpr std::string_view kLender = "h200";
// A context takes half a GiB; addresses of simulated memory must fit into a process.
constexpr std::uint64_t kTotalBytesMin = kGiB;
constexpr std::uint64_t kTotalBytesMax = kTiB;

[[noreturn]] void refuse_row(const std::string& where, std::size_t line, std::string got) {
  throw UsageError({.what = "this row is no card",
                    .where = fmt::format("{}:{}", where, line),
                    .wanted = "name, GPU, total as 79.25GiB, and source, with a tab between",
                    .got = std::move(got),
                    .next = "mend the row, or begin it with #"});
}

// What stands before the next `separator`, which is taken away with it.
std::string_view take_until(std::string_view* text, char separator) {
  const std::size_t end = std::min(text->find(separator), text->size());
  const std::string_view head = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return head;
}

bool in_range(const std::optional<std::uint64_t>& total_bytes) {
  return total_bytes && *total_bytes >= kTotalBytesMin && *total_bytes <= kTotalBytesMax;
}

std::uint64_t parse_memory(std::string_view size, std::string_view device) {
  const std::optional<std::uint64_t> total_bytes = parse_bytes(size);
  if (in_range(total_bytes)) return *total_bytes;
  const std::string hint = explain_bytes(size);
  throw UsageError(
      {.what = "the device's memory is not understood",
       .where = "--device " + std::string(device),
       .wanted = fmt::format("memory= a size from {} to {}, as memory=24GiB",
                             format_bytes(kTotalBytesMin), format_bytes(kTotalBytesMax)),
       .got = "\"" + std::string(size) + "\"",
       .next = hint.empty() ? "cards by name: allocmark list cards" : hint});
}

// A measured profile is worth more than a row that borrows times.
const Card* find_card(const std::vector<Card>& cards, const std::string& name) {
  for (const std::string& folder : profile_folders()) {
    if (fs::is_regular_file(fs::path(folder) / (name + ".json"))) return nullptr;
  }
  const auto found = std::ranges::find(cards, name, &Card::name);
  return found == cards.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Card> parse_cards(std::string_view text, const std::string& where) {
  std::vector<Card> cards;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view row = take_until(&text, '\n');
    if (row.empty() || row.front() == '#') continue;
    std::string_view rest = row;
    Card card;
    card.name = take_until(&rest, '\t');
    card.gpu_name = take_until(&rest, '\t');
    const auto total_bytes = parse_bytes(take_until(&rest, '\t'));
    card.source = rest;
    if (!in_range(total_bytes) || card.name.empty() || card.gpu_name.empty() ||
        card.source.empty()) {
      refuse_row(where, line, std::string(row));
    }
    card.total_bytes = *total_bytes;
    cards.push_back(std::move(card));
  }
  return cards;
}

std::vector<Card> known_cards() {
  std::vector<Card> all;
  for (const std::string& folder : profile_folders()) {
    const std::string path = (fs::path(folder) / kCardsFile).string();
    if (!fs::is_regular_file(path)) continue;
    for (Card& card : parse_cards(read_file(path, kSettingsInput), path)) {
      if (std::ranges::find(all, card.name, &Card::name) == all.end()) {
        all.push_back(std::move(card));
      }
    }
  }
  return all;
}

SimulatedCard parse_simulated_device(std::string_view device) {
  SimulatedCard result;
  std::string_view text = device.substr(device.find(':') + 1);
  const std::size_t comma = text.rfind(kMemory);
  if (comma != std::string_view::npos) {
    result.total_bytes = parse_memory(text.substr(comma + kMemory.size()), device);
    text = text.substr(0, comma);
  }
  result.profile = text;
  const std::vector<Card> cards = known_cards();
  if (const Card* card = find_card(cards, result.profile)) {
    result.profile = kLender;
    result.gpu_name = card->gpu_name;
    if (result.total_bytes == 0) result.total_bytes = card->total_bytes;
  }
  return result;
}

}  // namespace allocmark
