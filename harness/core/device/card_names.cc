// See card_names.h.
#include "harness/core/device/card_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/replay/kernel_source.h"

namespace allocmark {
namespace {

constexpr std::string_view kSimulated = "sim:";

// Words that say nothing about which card it is.
constexpr std::array<std::string_view, 10> kFillWords = {
    "nvidia",   "geforce", "tesla",       "quadro",     "gpu",
    "graphics", "card",    "corporation", "generation", "dgx"};
// How a card is mounted; a name that differs by nothing else means the same row.
constexpr std::array<std::string_view, 4> kMounts = {"sxm", "pcie", "pci", "hbm"};
// A card's nominal size and what its driver reports differ by less.
constexpr double kNominalTolerance = 0.12;

struct CardWords {
  std::set<std::string> words;
  std::optional<std::uint64_t> nominal_gb;  // "80GB" in the name
};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Runs of letters and runs of digits, in small letters: "RTX4090" is rtx and 4090.
std::vector<std::string> runs_of(std::string_view text) {
  std::vector<std::string> runs;
  char before = ' ';
  for (const char c : text) {
    const bool joins =
        (is_letter(c) && is_letter(before)) || (is_digit(c) && is_digit(before) && !runs.empty());
    if (is_letter(c) || is_digit(c)) {
      if (!joins) runs.emplace_back();
      runs.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    before = c;
  }
  return runs;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

CardWords words_of(std::string_view name, bool with_mounts) {
  CardWords result;
  const std::vector<std::string> runs = runs_of(name);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string& run = runs[i];
    const bool is_number = is_digit(run.front());
    const bool has_unit = i + 1 < runs.size() && (runs[i + 1] == "gb" || runs[i + 1] == "gib");
    if (is_number && has_unit && run.size() < 5) {
      result.nominal_gb = std::stoull(run);
      ++i;
      continue;
    }
    if (is_one_of(run, kFillWords)) continue;
    if (run == "spark") {  // a DGX Spark has a GB10
      result.words.insert({"gb", "10"});
      continue;
    }
    if (!with_mounts && is_one_of(run, kMounts)) {
      if (i + 1 < runs.size() && runs[i + 1].size() == 1 && is_digit(runs[i + 1].front())) ++i;
      continue;
    }
    result.words.insert(run);
  }
  return result;
}

bool has_size(const Card& card, const std::optional<std::uint64_t>& nominal_gb) {
  if (!nominal_gb || card.total_bytes == 0) return true;
  const double total_gib = static_cast<double>(card.total_bytes) / static_cast<double>(kGiB);
  const double nominal = static_cast<double>(*nominal_gb);
  return std::abs(nominal - total_gib) <= kNominalTolerance * nominal;
}

// Whether the name is the card's, but for words that say nothing. A card for PCIe is meant only
// where that is said.
bool is_named(const Card& card, std::string_view name, bool with_mounts) {
  constexpr const char* kSlot = "pcie";
  if (words_of(card.name, true).words.contains(kSlot) &&
      !words_of(name, true).words.contains(kSlot)) {
    return false;
  }
  const CardWords asked = words_of(name, with_mounts);
  const CardWords own = words_of(card.gpu_name, with_mounts);
  // "GH200 480GB" names the host's memory, as the driver does.
  const bool is_sized = own.nominal_gb == asked.nominal_gb || has_size(card, asked.nominal_gb);
  if (asked.words.empty() || !is_sized) return false;
  return own.words == asked.words || words_of(card.name, with_mounts).words == asked.words;
}

std::string ask_instead(std::uint64_t memory_gib) {
  const std::string size = memory_gib == 0 ? "SIZE" : std::to_string(memory_gib) + "GiB";
  return fmt::format("--device sim:h200,memory={}", size);
}

// Cards of other vendors as people name them, and the memory that one device of them has.
struct OtherCard {
  std::string_view name;  // the words that are looked for
  std::uint64_t memory_gib;
};
// AMD's product pages; an MI250 is two devices of 64 GB each.
constexpr std::array kAmdCards = {
    OtherCard{"mi 100", 32},      OtherCard{"mi 210", 64},      OtherCard{"mi 250", 64},
    OtherCard{"mi 300 a", 128},   OtherCard{"mi 300", 192},     OtherCard{"mi 308", 192},
    OtherCard{"mi 325", 256},     OtherCard{"mi 350", 288},     OtherCard{"mi 355", 288},
    OtherCard{"rx 6800", 16},     OtherCard{"rx 6900", 16},     OtherCard{"rx 7600 xt", 16},
    OtherCard{"rx 7600", 8},      OtherCard{"rx 7700", 12},     OtherCard{"rx 7800", 16},
    OtherCard{"rx 7900 xtx", 24}, OtherCard{"rx 7900 gre", 16}, OtherCard{"rx 7900 xt", 20},
    OtherCard{"rx 7900", 24},     OtherCard{"rx 9060", 16},     OtherCard{"rx 9070", 16},
    OtherCard{"w 6800", 32},      OtherCard{"w 7800", 32},      OtherCard{"w 7900", 48},
    OtherCard{"mi", 0},           OtherCard{"rx", 0},           OtherCard{"amd", 0},
    OtherCard{"radeon", 0},       OtherCard{"instinct", 0},     OtherCard{"rocm", 0},
    OtherCard{"hip", 0},          OtherCard{"gfx", 0}};
constexpr std::array kOtherCards = {
    OtherCard{"intel", 0}, OtherCard{"arc", 0},      OtherCard{"xpu", 0},
    OtherCard{"gaudi", 0}, OtherCard{"apple", 0},    OtherCard{"mps", 0},
    OtherCard{"metal", 0}, OtherCard{"tpu", 0},      OtherCard{"ascend", 0},
    OtherCard{"npu", 0},   OtherCard{"trainium", 0}, OtherCard{"inferentia", 0}};

// NVIDIA's chips whose memory is the host's, too, as sim:gb10's is. Sizes by NVIDIA's product
// pages.
constexpr std::array kSharedCards = {OtherCard{"thor", 128}, OtherCard{"orin", 64},
                                     OtherCard{"xavier", 32}, OtherCard{"jetson", 0}};

const OtherCard* find_other(std::span<const OtherCard> cards, std::string_view device) {
  const std::vector<std::string> runs = runs_of(device);
  const std::set<std::string> words(runs.begin(), runs.end());
  for (const OtherCard& card : cards) {
    const std::vector<std::string> wanted = runs_of(card.name);
    if (std::ranges::all_of(wanted, [&](const std::string& word) { return words.contains(word); }))
      return &card;
  }
  return nullptr;
}

// The workload as it runs on that device; empty where it is no server. `note` says why it runs as
// on another one.
std::string placed_definition(const std::string& workload, const std::string& device,
                              std::string_view gpu_name, std::string* note) {
  // Any other figures show whether it serves.
  constexpr ServingCard kOther{.tflops = 2, .gb_per_second = 2};
  if (define_workload_on_card(workload, kOther).empty()) return {};
  if (const std::optional<ServingCard> card = serving_card_of(device, gpu_name)) {
    return define_workload_on_card(workload, *card);
  }
  *note = fmt::format(
      "no row of cards.tsv says what {} computes: servers run as on an H200; "
      "give them tflops= and bandwidth=",
      gpu_name.empty() ? device : gpu_name);
  return {};
}

}  // namespace

const Card* card_of_gpu(const std::vector<Card>& cards, std::string_view gpu_name) {
  for (const bool with_mounts : {true, false}) {
    const Card* found = nullptr;
    std::size_t count = 0;
    for (const Card& card : cards) {
      if (!is_named(card, gpu_name, with_mounts)) continue;
      found = &card;
      ++count;
    }
    if (count == 1) return found;
    if (count > 1) return nullptr;
  }
  return nullptr;
}

std::vector<Card> cards_meant(const std::vector<Card>& cards, std::string_view name) {
  const CardWords asked = words_of(name, true);
  std::vector<Card> meant;
  if (asked.words.empty()) return meant;
  for (const Card& card : cards) {
    CardWords own = words_of(card.gpu_name, true);
    own.words.merge(words_of(card.name, true).words);
    const bool has_all = std::ranges::all_of(
        asked.words, [&](const std::string& word) { return own.words.contains(word); });
    if (has_size(card, asked.nominal_gb) && has_all) meant.push_back(card);
  }
  return meant;
}

std::string device_of_user(const std::string& text) {
  const bool is_prefixed = text.starts_with(kSimulated);
  if (!is_prefixed && text.find(' ') == std::string::npos) return text;
  std::string_view keys;
  const std::string name(
      without_keys(is_prefixed ? std::string_view(text).substr(kSimulated.size()) : text, &keys));
  if (name.find('/') != std::string::npos) return text;
  const std::vector<Card> cards = all_cards();
  const auto is_name = [&](const Card& card) { return card.name == name; };
  if (std::ranges::any_of(cards, is_name)) return text;
  const Card* const card = card_of_gpu(cards, name);
  return card == nullptr ? text : std::string(kSimulated) + card->name + std::string(keys);
}

std::optional<ServingCard> serving_card_of(std::string_view device, std::string_view gpu_name) {
  const std::vector<Card> cards = all_cards();
  std::string_view name = device;
  if (name.starts_with(kSimulated)) name.remove_prefix(kSimulated.size());
  name = without_keys(name);
  const auto row = std::ranges::find(cards, name, &Card::name);
  const Card* const card = row != cards.end() ? &*row : card_of_gpu(cards, gpu_name);
  if (card == nullptr || card->speed.tflops == 0) return std::nullopt;
  return ServingCard{.tflops = card->speed.tflops, .gb_per_second = card->speed.gb_per_second};
}

std::string place_servers(std::vector<CellKey>* cells, std::string_view gpu_name) {
  std::string note;
  // By workload and device: a run may have many cells of each, and scenarios are looked for in
  // folders.
  std::map<std::pair<std::string, std::string>, std::string> definitions;
  for (CellKey& cell : *cells) {
    const std::string workload = cell.workload_text();
    const auto [found, is_new] = definitions.try_emplace({workload, cell.device});
    if (is_new) found->second = placed_definition(workload, cell.device, gpu_name, &note);
    if (!found->second.empty()) cell.workload_definition = found->second;
  }
  return note;
}

// What no program gets of a simulated card: the context of the H200 that was measured, and the page
// that is free and never given.
constexpr std::uint64_t kKeptBytes = 150'109'880'320 - 71'313 * (2 * kMiB);

std::string nominal_capacity_note(std::string_view capacity, std::uint64_t device_bytes) {
  const std::optional<std::uint64_t> asked = parse_bytes(capacity);
  if (!asked || *asked < 4 * kGiB || device_bytes < *asked + *asked / 4) return {};
  const auto asked_gb = static_cast<double>(*asked) / static_cast<double>(kGiB);
  if (asked_gb != std::round(asked_gb) && *asked % 1'000'000'000 != 0) return {};
  std::vector<std::string> named;
  const std::vector<Card> cards = known_cards();
  for (auto card = cards.rbegin(); card != cards.rend() && named.size() < 3; ++card) {
    const bool is_nominal =
        card->total_bytes < *asked && has_size(*card, static_cast<std::uint64_t>(asked_gb + 0.5));
    // What a card leaves whose memory is the host's, the host decides.
    const bool is_shared = card->host && card->host->reserve_bytes > 0;
    if (!is_nominal || is_shared || card->name.ends_with("-laptop")) continue;
    named.push_back(fmt::format("-d sim:{} ({}, leaves {})", card->name,
                                format_bytes(card->total_bytes),
                                format_bytes(card->total_bytes - kKeptBytes)));
  }
  if (named.empty()) return {};
  return fmt::format(
      "a card sold with {} leaves a program less than --capacity {}: the driver keeps a part, and "
      "the program's context half a GiB. To ask about one, leave --capacity out: {}",
      capacity, capacity, fmt::join(named, ", "));
}

void refuse_other_vendors(std::string_view device) {
  if (const OtherCard* card = find_other(kAmdCards, device)) {
    throw UsageError(
        {.what = fmt::format("'{}': AMD's cards are not modelled", device),
         .where = "--device",
         .wanted = "a card of NVIDIA: allocmark list cards",
         .next = fmt::format(
             "ask about a card of that size: {}. PyTorch's own rules hold on HIP, too: sizes of "
             "blocks and segments, max_split_size_mb, garbage_collection_threshold, rounding. Not "
             "modelled there: times, what HIP's context takes, its virtual memory "
             "(expandable_segments) and its pools (backend:cudaMallocAsync)",
             ask_instead(card->memory_gib))});
  }
  if (const OtherCard* card = find_other(kSharedCards, device)) {
    throw UsageError(
        {.what = fmt::format("'{}': of chips that share the host's memory, only GB10 is modelled",
                             device),
         .where = "--device",
         .wanted = "a card of NVIDIA: allocmark list cards",
         .next = fmt::format(
             "ask about that chip with another size: --device sim:gb10,memory={}",
             card->memory_gib == 0 ? "SIZE" : std::to_string(card->memory_gib) + "GiB")});
  }
  if (find_other(kOtherCards, device) != nullptr) {
    throw UsageError({.what = fmt::format("'{}': only CUDA's cards are modelled", device),
                      .where = "--device",
                      .wanted = "a card of NVIDIA: allocmark list cards",
                      .next = fmt::format("a CUDA card of that size is {}; other backends of "
                                          "PyTorch have allocators of their own",
                                          ask_instead(0))});
  }
}

}  // namespace allocmark
