// Simulated GPUs that no profile was measured on: a profile's device with another total
// ("sim:h200,memory=24GiB"), or a card by name ("sim:a100-80"). Their memory is their own; the
// times of their driver are borrowed from the profile. Text flows in; what simcuda is told flows
// out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// What a card computes and moves at best, as its vendor states it.
struct CardSpeed {
  std::uint64_t tflops = 0;         // dense bf16 products; 0: not stated
  std::uint64_t gb_per_second = 0;  // of its memory, decimal
};

// A row of a profile folder's cards.tsv.
struct Card {
  std::string name;               // "a100-80"
  std::string gpu_name;           // "NVIDIA A100-SXM4-80GB"
  std::uint64_t total_bytes = 0;  // as cudaMemGetInfo says; 0: the profile NAME.json says it
  std::string source;             // where that is stated
  CardSpeed speed = {};
  std::string speed_source = {};  // where the speed is stated
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
  std::string profile;            // NAME or path of the profile that lends times
  std::string gpu_name = {};      // empty: the profile's own
  std::uint64_t total_bytes = 0;  // 0: the profile's own

  // Whether the device is another than the profile was measured on.
  [[nodiscard]] bool borrows_times() const { return total_bytes != 0; }
};

// `device` begins with "sim:". Throws UsageError on a bad memory=SIZE; whether the profile exists
// is not looked at.
[[nodiscard]] SimulatedCard parse_simulated_device(std::string_view device);

}  // namespace allocmark
