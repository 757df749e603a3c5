// Simulated GPUs that no profile was measured on: a profile's device with another total
// ("sim:h200,memory=24GiB"), or a card by name ("sim:a100-80"). Their memory is their own; the
// times of their driver are borrowed from the profile. Text flows in; what simcuda is told flows
// out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// What a card computes and moves at best, as its vendor states it.
struct CardSpeed {
  std::uint64_t tflops = 0;         // dense bf16 products; 0: not stated
  std::uint64_t gb_per_second = 0;  // of its memory, decimal
};

// Memory that a card shares with its host, modelled from public reports.
struct CardHost {
  std::uint64_t own_bytes = 0;      // of the host's other programs; out of the card's total
  std::uint64_t reserve_bytes = 0;  // with less available the host hangs; 0: it has other memory
  std::string source = {};          // where that is stated
};

// A row of a profile folder's cards.tsv.
struct Card {
  std::string name;               // "a100-80"
  std::string gpu_name;           // "NVIDIA A100-SXM4-80GB"
  std::uint64_t total_bytes = 0;  // as cudaMemGetInfo says; 0: the profile NAME.json says it
  std::string source;             // where that is stated
  CardSpeed speed = {};
  std::string speed_source = {};                // where the speed is stated
  std::optional<CardHost> host = std::nullopt;  // nothing: the memory is the card's alone
};

// The rows of all profile folders, those of one's own first. Throws FileError or UsageError with
// the line that is wrong.
[[nodiscard]] std::vector<Card> all_cards();

// Those without a profile of their own, whose times are borrowed.
[[nodiscard]] std::vector<Card> known_cards();

// Rows of cards.tsv; `where` is named in errors.
[[nodiscard]] std::vector<Card> parse_cards(std::string_view text, const std::string& where);

// What "sim:..." means.
struct SimulatedCard {
  std::string profile;                          // NAME or path of the profile that lends times
  std::string gpu_name = {};                    // empty: the profile's own
  std::uint64_t total_bytes = 0;                // 0: the profile's own
  std::optional<CardHost> host = std::nullopt;  // as Card::host
  std::uint64_t cached_bytes = 0;               // page cache in the card's memory

  // Whether the device is another than the profile was measured on.
  [[nodiscard]] bool borrows_times() const { return total_bytes != 0; }
};

// `device` begins with "sim:". Behind the name it may have memory=SIZE and, where the card shares
// its memory with the host, host=SIZE (of other programs there) and cache=SIZE (page cache). Throws
// UsageError on a bad one; whether the profile exists is not looked at.
[[nodiscard]] SimulatedCard parse_simulated_device(std::string_view device);

// The name without these keys, which `keys`, where given, gets with their commas.
[[nodiscard]] std::string_view without_keys(std::string_view device,
                                            std::string_view* keys = nullptr);

}  // namespace allocmark
