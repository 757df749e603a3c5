// See cards.h.
#include "harness/core/device/cards.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/number_text.h"
#include "harness/core/device/runtime_select.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCardsFile = "cards.tsv";
constexpr std::array<std::string_view, 3> kKeys = {",memory=", ",host=", ",cache="};
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
                              "where known, Tflop/s, GB/s and their source; then, where the host "
                              "shares the memory, what it holds, what it needs, and their source",
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
  *value = number_in_text<std::uint64_t>(text).value_or(0);
  return *value > 0;
}

// "7.1GiB", "7GiB" and a source, with a tab between.
bool read_host(std::string_view text, Card* card) {
  const auto own_bytes = parse_bytes(take_until(&text, '\t'));
  const auto reserve_bytes = parse_bytes(take_until(&text, '\t'));
  if (!own_bytes || !reserve_bytes || text.empty()) return false;
  card->host = CardHost{
      .own_bytes = *own_bytes, .reserve_bytes = *reserve_bytes, .source = std::string(text)};
  return *own_bytes + *reserve_bytes < card->total_bytes;
}

// "362", "864" and a source, with a tab between.
bool read_speed(std::string_view text, Card* card) {
  const bool reads = read_count(take_until(&text, '\t'), &card->speed.tflops) &&
                     read_count(take_until(&text, '\t'), &card->speed.gb_per_second);
  card->speed_source = take_until(&text, '\t');
  return reads && !card->speed_source.empty() && (text.empty() || read_host(text, card));
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

std::uint64_t parse_host_size(std::string_view size, std::string_view device) {
  const std::optional<std::uint64_t> bytes = parse_bytes(size);
  if (bytes && *bytes <= kTotalBytesMax) return *bytes;
  const std::string hint = explain_bytes(size);
  throw UsageError({.what = "the host's memory is not understood",
                    .where = "--device " + std::string(device),
                    .wanted = "host= and cache= a size, as host=8GiB",
                    .got = "\"" + std::string(size) + "\"",
                    .next = hint.empty() ? "write KiB, MiB or GiB" : hint});
}

void read_key(std::string_view device, std::string_view key, std::string_view size,
              SimulatedCard* card) {
  if (key == "memory") {
    card->total_bytes = parse_memory(size, device);
    return;
  }
  const bool knows = card->host && (key == "cache" || card->host->reserve_bytes > 0);
  if (!knows) {
    throw UsageError({.what = "this card shares no memory with its host",
                      .where = "--device " + std::string(device),
                      .wanted = "a card whose memory is the host's, as sim:gb10,host=8GiB; "
                                "sim:gh200 has cache= alone",
                      .got = std::string(key) + "=",
                      .next = "leave " + std::string(key) + "= away"});
  }
  (key == "host" ? card->host->own_bytes : card->cached_bytes) = parse_host_size(size, device);
}

void check_host(std::string_view device, const SimulatedCard& card) {
  if (!card.host) return;
  const std::uint64_t kept_bytes = card.host->own_bytes + card.host->reserve_bytes;
  if (kept_bytes + kTotalBytesMin <= card.total_bytes) return;
  throw UsageError({.what = "the host holds all of the device's memory",
                    .where = "--device " + std::string(device),
                    .wanted = fmt::format(
                        "at most {} for host=",
                        format_bytes(card.total_bytes - kTotalBytesMin - card.host->reserve_bytes)),
                    .got = format_bytes(card.host->own_bytes),
                    .next = "give the host less, or the device more with memory="});
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
  throw UsageError({.what = "a simulated device has no such key",
                    .where = "--device " + std::string(device),
                    .wanted = "memory= and a size; sim:gb10 has host= and cache=, too",
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
    card.total_bytes = is_measured ? 0 : total_bytes.value_or(0);
    const bool has_speed = !rest.empty();
    const bool is_speed = !has_speed || read_speed(rest, &card);
    if (!(is_measured || in_range(total_bytes)) || card.name.empty() || card.gpu_name.empty() ||
        card.source.empty() || !is_speed) {
      refuse_row(where, line, std::string(row));
    }
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

std::string_view without_keys(std::string_view device, std::string_view* keys) {
  std::string_view name = device;
  const auto ends_with_key = [&](std::size_t comma) {
    return std::ranges::any_of(
        kKeys, [&](std::string_view key) { return name.substr(comma).starts_with(key); });
  };
  for (std::size_t comma = name.rfind(','); comma != std::string_view::npos && ends_with_key(comma);
       comma = name.rfind(',')) {
    name = name.substr(0, comma);
  }
  if (keys != nullptr) *keys = device.substr(name.size());
  return name;
}

SimulatedCard parse_simulated_device(std::string_view device) {
  SimulatedCard result;
  std::string_view keys;
  const std::string_view text = without_keys(device.substr(device.find(':') + 1), &keys);
  result.profile = text;
  const std::vector<Card> cards = known_cards();
  refuse_other_key(device, text, cards);
  if (const Card* card = find_card(cards, result.profile)) {
    result.profile = kLender;
    result.gpu_name = card->gpu_name;
    result.total_bytes = card->total_bytes;
    result.host = card->host;
  }
  while (!keys.empty()) {
    keys.remove_prefix(1);
    const std::string_view key = take_until(&keys, '=');
    const std::string_view size = keys.substr(0, keys.find(','));
    keys.remove_prefix(size.size());
    read_key(device, key, size, &result);
  }
  check_host(device, result);
  return result;
}

}  // namespace allocmark
