// See cards.h.
#include "harness/core/device/cards.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/device/runtime_select.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCardsFile = "cards.tsv";
constexpr std::string_view kMemory = ",memory=";
// In the place of a total: a profile of the card's name holds it.
constexpr std::string_view kMeasured = "measured";
// Cards without a profile of their own borrow the times of this one.
constexpr std::string_view kLender = "h200";
// A context takes half a GiB; addresses of simulated memory must fit into a process.
constexpr std::uint64_t kTotalBytesMin = kGiB;
constexpr std::uint64_t kTotalBytesMax = kTiB;

[[noreturn]] void refuse_row(const std::string& where, std::size_t line, std::string got) {
  throw UsageError({.what = "this row is no card",
                    .where = fmt::format("{}:{}", where, line),
                    .wanted = "name, GPU, total as 79.25GiB, and source, with a tab between; then, "
                              "where known, Tflop/s, GB/s and their source",
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

// A positive number alone.
bool read_count(std::string_view text, std::uint64_t* value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && stop == text.data() + text.size() && *value > 0;
}

// "362", "864" and a source, with a tab between.
bool read_speed(std::string_view text, Card* card) {
  const bool reads = read_count(take_until(&text, '\t'), &card->speed.tflops) &&
                     read_count(take_until(&text, '\t'), &card->speed.gb_per_second);
  card->speed_source = text;
  return reads && !card->speed_source.empty();
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

// "h200,mem=24GiB" names its memory by another word, or by none. Paths may hold commas.
void refuse_other_key(std::string_view device, std::string_view text,
                      const std::vector<Card>& cards) {
  if (text.find('/') != std::string_view::npos || text.ends_with(".json")) return;
  const std::size_t end = text.find_first_of(",:@");
  if (end == std::string_view::npos) return;
  const std::string name(text.substr(0, end));
  const std::vector<std::string> measured = simulated_devices();
  const bool is_card = std::ranges::find(cards, name, &Card::name) != cards.end() ||
                       std::ranges::find(measured, "sim:" + name) != measured.end();
  if (!is_card) return;
  const std::string_view rest = text.substr(end + 1);
  const std::size_t equals = std::min(rest.find('=') + 1, rest.size());
  const bool is_size = parse_bytes(rest.substr(equals)).has_value();
  throw UsageError({.what = "a simulated device has one key, its memory",
                    .where = "--device " + std::string(device),
                    .wanted = "memory= and a size",
                    .got = "\"" + std::string(rest) + "\"",
                    .next = fmt::format("did you mean sim:{},memory={}?", name,
                                        is_size ? rest.substr(equals) : "24GiB")});
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
    const std::string_view total = take_until(&rest, '\t');
    const bool is_measured = total == kMeasured;
    const auto total_bytes = parse_bytes(total);
    card.source = take_until(&rest, '\t');
    const bool has_speed = !rest.empty();
    const bool is_speed = !has_speed || read_speed(rest, &card);
    if (!(is_measured || in_range(total_bytes)) || card.name.empty() || card.gpu_name.empty() ||
        card.source.empty() || !is_speed) {
      refuse_row(where, line, std::string(row));
    }
    card.total_bytes = is_measured ? 0 : *total_bytes;
    cards.push_back(std::move(card));
  }
  return cards;
}

std::vector<Card> all_cards() {
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

std::vector<Card> known_cards() {
  std::vector<Card> cards = all_cards();
  std::erase_if(cards, [](const Card& card) { return card.total_bytes == 0; });
  return cards;
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
  refuse_other_key(device, text, cards);
  if (const Card* card = find_card(cards, result.profile)) {
    result.profile = kLender;
    result.gpu_name = card->gpu_name;
    if (result.total_bytes == 0) result.total_bytes = card->total_bytes;
  }
  return result;
}

}  // namespace allocmark
