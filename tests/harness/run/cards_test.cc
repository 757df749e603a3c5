// Simulated GPUs that borrow the times of a measured one.
#include "harness/run/cards.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "harness/run/runtime_select.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::string refusal_of(const std::string& device) {
  try {
    check_device(device);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string change_of(const std::string& device, const std::string& variable) {
  for (const auto& [name, value] : runtime_environment(device)) {
    if (name == variable) return value;
  }
  return {};
}

std::string row_refusal(const std::string& rows) {
  try {
    (void)parse_cards(rows, "cards.tsv");
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("a profile alone borrows nothing") {
  const SimulatedCard card = parse_simulated_device("sim:h200");
  CHECK(card.profile == "h200");
  CHECK_FALSE(card.borrows_times());
  CHECK(change_of("sim:h200", "SIMCUDA_TOTAL_BYTES").empty());
}

TEST_CASE("a card that was measured has its own memory and times") {
  const SimulatedCard card = parse_simulated_device("sim:h100");
  CHECK(card.profile == "h100");
  CHECK_FALSE(card.borrows_times());
  CHECK(change_of("sim:h100", "SIMCUDA_PROFILE").ends_with("/h100.json"));
  const std::vector<Card> borrowing = known_cards();
  CHECK(std::ranges::find(borrowing, "h100", &Card::name) == borrowing.end());
}

TEST_CASE("memory= is the device's total, of a name and of a path") {
  const SimulatedCard card = parse_simulated_device("sim:h200,memory=24GiB");
  CHECK(card.profile == "h200");
  CHECK(card.total_bytes == 24 * kGiB);
  CHECK(card.borrows_times());
  CHECK(parse_simulated_device("sim:/a,b/c.json,memory=8GiB").profile == "/a,b/c.json");
  CHECK(change_of("sim:h200,memory=24GiB", "SIMCUDA_TOTAL_BYTES") == "25769803776");
  CHECK(change_of("sim:h200,memory=24GiB", "SIMCUDA_PROFILE").ends_with("/h200.json"));
}

TEST_CASE("a memory that no card has is refused with its unit explained") {
  CHECK(refusal_of("sim:h200,memory=24").find("24GiB") != std::string::npos);
  CHECK_FALSE(refusal_of("sim:h200,memory=1023MiB").empty());
  CHECK(refusal_of("sim:h200,memory=1GiB").empty());
  CHECK_FALSE(refusal_of("sim:h200,memory=2TiB").empty());
  CHECK_FALSE(refusal_of("sim:h200,memory=").empty());
}

TEST_CASE("the cards that ship have names, totals and sources of their own") {
  const std::vector<Card> cards = known_cards();
  REQUIRE(cards.size() >= 10);
  std::set<std::string> names;
  for (const Card& card : cards) {
    CHECK(names.insert(card.name).second);
    CHECK(card.source.find("http") != std::string::npos);
    CHECK(refusal_of("sim:" + card.name).empty());
  }
  const auto found = std::ranges::find(cards, "a100-80", &Card::name);
  REQUIRE(found != cards.end());
  CHECK(format_bytes(found->total_bytes) == "79.2 GiB");
  CHECK(change_of("sim:a100-80", "SIMCUDA_NAME") == "NVIDIA A100-SXM4-80GB");
  CHECK(change_of("sim:a100-80,memory=10GiB", "SIMCUDA_TOTAL_BYTES") == "10737418240");
}

TEST_CASE("a name of two cards is refused with both") {
  const std::string text = refusal_of("sim:a100");
  CHECK(text.find("sim:a100-40") != std::string::npos);
  CHECK(text.find("sim:a100-80") != std::string::npos);
}

TEST_CASE("a row that is no card is named by its line") {
  CHECK(parse_cards("# a\tb\n\nx\tGPU X\t10.5GiB\thttp://x\n", "t").size() == 1);
  for (const char* row : {"x\n", "x\tGPU\t10\thttp\n", "x\tGPU\t10GiB\n", "x\t\t10GiB\thttp\n",
                          "x\tGPU\t10MiB\thttp\n"}) {
    CHECK(row_refusal(std::string("#\n") + row).find("cards.tsv:2") != std::string::npos);
  }
}

}  // namespace
}  // namespace allocmark
