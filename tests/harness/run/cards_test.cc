// Simulated GPUs that borrow the times of a measured one.
#include "harness/core/device/cards.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/runtime_select.h"
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

TEST_CASE("a card whose memory is the host's tells simcuda of the host") {
  const SimulatedCard card = parse_simulated_device("sim:gb10");
  CHECK(card.profile == "h200");
  CHECK(card.borrows_times());
  REQUIRE(card.host.has_value());
  CHECK(card.host->reserve_bytes == 7 * kGiB);
  CHECK(change_of("sim:gb10", "SIMCUDA_HOST_RESERVE_BYTES") == "7516192768");
  CHECK(change_of("sim:gb10", "SIMCUDA_HOST_CACHE_BYTES").empty());
  CHECK(change_of("sim:gb10,cache=3GiB", "SIMCUDA_HOST_CACHE_BYTES") == "3221225472");
  const std::string all = "sim:gb10,cache=3GiB,memory=100GiB,host=2GiB";
  CHECK(change_of(all, "SIMCUDA_HOST_BYTES") == "2147483648");
  CHECK(change_of(all, "SIMCUDA_TOTAL_BYTES") == "107374182400");
  CHECK(device_of_user("NVIDIA GB10,host=2GiB") == "sim:gb10,host=2GiB");
  CHECK(device_of_user("sim:dgx-spark") == "sim:gb10");
  CHECK(without_keys("sim:gb10,host=2GiB,memory=1GiB") == "sim:gb10");
  CHECK(without_keys("sim:/a,b/c.json") == "sim:/a,b/c.json");
}

TEST_CASE("only a card that shares memory has keys of its host") {
  CHECK(change_of("sim:gh200,cache=40GiB", "SIMCUDA_HOST_CACHE_BYTES") == "42949672960");
  CHECK(change_of("sim:gh200", "SIMCUDA_HOST_RESERVE_BYTES").empty());
  CHECK(refusal_of("sim:gh200,host=1GiB").find("shares no memory") != std::string::npos);
  CHECK(refusal_of("sim:h200,cache=1GiB").find("leave cache= away") != std::string::npos);
  CHECK(refusal_of("sim:gb10,host=120GiB").find("at most 114 GiB") != std::string::npos);
  CHECK(refusal_of("sim:gb10,host=much").find("host=8GiB") != std::string::npos);
  CHECK(refusal_of("sim:gb10,host=0B").empty());
}

TEST_CASE("a row of a shared card has what its host holds and needs") {
  const std::string row = "x\tX\t64GiB\ts\t1\t2\tspeed\t";
  const std::vector<Card> cards = parse_cards(row + "3GiB\t5GiB\treports", "cards.tsv");
  REQUIRE(cards.front().host.has_value());
  CHECK(cards.front().host->own_bytes == 3 * kGiB);
  CHECK(cards.front().host->source == "reports");
  CHECK(cards.front().speed_source == "speed");
  CHECK_FALSE(row_refusal(row + "3GiB\t5GiB").empty());
  CHECK_FALSE(row_refusal(row + "60GiB\t5GiB\treports").empty());
}

TEST_CASE("the cards that ship have names, totals and sources of their own") {
  const std::vector<Card> cards = known_cards();
  REQUIRE(cards.size() >= 10);
  std::set<std::string> names;
  for (const Card& card : cards) {
    CHECK(names.insert(card.name).second);
    CHECK_FALSE(card.source.empty());
    CHECK(card.speed.tflops > 0);
    CHECK(card.speed.gb_per_second > 0);
    CHECK(card.speed_source.find("http") != std::string::npos);
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

TEST_CASE("a name as the driver prints it means the simulated card") {
  for (const auto& [text, device] : std::vector<std::pair<std::string, std::string>>{
           {"NVIDIA GeForce RTX 4090", "sim:rtx-4090"},
           {"nvidia geforce rtx 4090", "sim:rtx-4090"},
           {"GeForce RTX 4090", "sim:rtx-4090"},
           {"RTX 4090", "sim:rtx-4090"},
           {"sim:RTX4090", "sim:rtx-4090"},
           {"sim:NVIDIA GeForce RTX 4090,memory=20GiB", "sim:rtx-4090,memory=20GiB"},
           {"NVIDIA GeForce RTX 4070 Laptop GPU", "sim:rtx-4070-laptop"},
           {"NVIDIA GeForce RTX 4070", "sim:rtx-4070"},
           {"NVIDIA GeForce RTX 4070 Ti SUPER", "sim:rtx-4070-ti-super"},
           {"NVIDIA GeForce RTX 4060 Ti 16GB", "sim:rtx-4060-ti-16"},
           {"Tesla V100-SXM2-32GB", "sim:v100-32"},
           {"NVIDIA A100-SXM4-80GB (sxm)", "sim:a100-80"},
           {"NVIDIA A100 80GB PCIe", "sim:a100-80"},
           {"NVIDIA H100 80GB HBM3", "sim:h100"},
           {"NVIDIA H100 PCIe", "sim:h100-pcie"},
           {"NVIDIA H100 SXM5", "sim:h100"},
           {"NVIDIA H200", "sim:h200"},
           {"NVIDIA GH200 480GB", "sim:gh200"},
           {"NVIDIA B300 SXM6 AC", "sim:b300"},
           {"NVIDIA RTX 6000 Ada Generation", "sim:rtx-6000-ada"},
           {"NVIDIA RTX A6000", "sim:rtx-a6000"},
           {"NVIDIA GB200", "sim:gb200"},
           {"h200", "h200"},
           {"cuda:0", "cuda:0"},
           {"sim:h200", "sim:h200"},
           {"sim:/a b/c.json", "sim:/a b/c.json"},
           {"NVIDIA A100", "NVIDIA A100"}}) {
    INFO(text);
    CHECK(device_of_user(text) == device);
  }
}

TEST_CASE("every card is found by the name that its GPU prints, or is one of several") {
  const std::vector<Card> cards = all_cards();
  for (const Card& card : cards) {
    INFO(card.gpu_name);
    const auto same = std::ranges::count(cards, card.gpu_name, &Card::gpu_name);
    const Card* const found = card_of_gpu(cards, card.gpu_name);
    if (same == 1) {
      REQUIRE(found != nullptr);
      CHECK(found->name == card.name);
    } else {
      CHECK(found == nullptr);
      CHECK(refusal_of(card.gpu_name).find("sim:" + card.name) != std::string::npos);
    }
  }
}

TEST_CASE("a card of another vendor is answered with what can be asked") {
  for (const auto& [device, part] :
       std::vector<std::pair<std::string, std::string>>{{"sim:mi300x", "memory=192GiB"},
                                                        {"AMD Instinct MI250X", "memory=64GiB"},
                                                        {"mi250", "memory=64GiB"},
                                                        {"AMD Radeon RX 7900 XTX", "memory=24GiB"},
                                                        {"sim:rx-7900-xt", "memory=20GiB"},
                                                        {"gfx942", "memory=SIZE"},
                                                        {"Intel Arc A770", "only CUDA's cards"},
                                                        {"mps", "only CUDA's cards"}}) {
    INFO(device);
    CHECK(refusal_of(device).find(part) != std::string::npos);
  }
  CHECK(refusal_of("sim:mi300x").find("hold on HIP") != std::string::npos);
}

TEST_CASE("a server's figures are those of its device's card") {
  CHECK(serving_card_of("sim:h200", "") == ServingCard{});
  CHECK(serving_card_of("sim:h200,memory=24GiB", "") == ServingCard{});
  CHECK(serving_card_of("sim:l4", "") == ServingCard{.tflops = 121, .gb_per_second = 300});
  CHECK(serving_card_of("cuda:0", "NVIDIA L4") == ServingCard{.tflops = 121, .gb_per_second = 300});
  CHECK(serving_card_of("cuda:0", "NVIDIA H100 80GB HBM3")->gb_per_second == 3'350);
  CHECK(serving_card_of("cuda:0", "NVIDIA Something New") == std::nullopt);
  std::vector<CellKey> cells(2);
  cells[0].workload = "serve:gpt2-124m,requests=4";
  cells[1].workload = "gpt2_train_amp";
  cells[0].device = cells[1].device = "sim:l4";
  CHECK(place_servers(&cells, "NVIDIA L4").empty());
  CHECK(cells[0].workload == "serve:gpt2-124m,requests=4");
  CHECK(cells[0].workload_text() == "serve:gpt2-124m,requests=4,tflops=121,bandwidth=300");
  CHECK(cells[1].workload_text() == "gpt2_train_amp");
  cells[0].device = "cuda:0";
  cells[0].workload_definition.clear();
  CHECK(place_servers(&cells, "NVIDIA Something New").find("tflops=") != std::string::npos);
}

TEST_CASE("a capacity that is a card's nominal size says how to ask about the card") {
  CHECK(nominal_capacity_note("24GiB", 139 * kGiB)
            .find("-d sim:rtx-4090 (23.5 GiB, leaves 23.0 GiB)") != std::string::npos);
  CHECK(nominal_capacity_note("80GB", 139 * kGiB).find("-d sim:a100-80") == std::string::npos);
  CHECK(nominal_capacity_note("80GiB", 139 * kGiB).find("-d sim:a100-80") != std::string::npos);
  CHECK(nominal_capacity_note("16GiB", 139 * kGiB).find("-d sim:rtx-5080") != std::string::npos);
  for (const char* capacity : {"1.05x", "unlimited", "23.2GiB", "1GiB", "60GiB", "24"}) {
    INFO(capacity);
    CHECK(nominal_capacity_note(capacity, 139 * kGiB).empty());
  }
  CHECK(nominal_capacity_note("24GiB", 25 * kGiB).empty());
}

TEST_CASE("another word for memory= is answered with it") {
  for (const char* device : {"sim:h200,mem=24GiB", "sim:h200,24GiB", "sim:rtx-4090:24GiB",
                             "sim:h200@24GiB", "sim:h200,vram=24GiB"}) {
    INFO(device);
    CHECK(refusal_of(device).find(",memory=24GiB?") != std::string::npos);
  }
}

TEST_CASE("a row that is no card is named by its line") {
  CHECK(parse_cards("# a\tb\n\nx\tGPU X\t10.5GiB\thttp://x\n", "t").size() == 1);
  const Card full = parse_cards("x\tGPU\t10GiB\thttp\t20\t300\ta page\n", "t").front();
  CHECK(full.speed.tflops == 20);
  CHECK(full.speed.gb_per_second == 300);
  CHECK(parse_cards("x\tGPU\tmeasured\tprofile\n", "t").front().total_bytes == 0);
  for (const char* row : {"x\n", "x\tGPU\t10\thttp\n", "x\tGPU\t10GiB\n", "x\t\t10GiB\thttp\n",
                          "x\tGPU\t10MiB\thttp\n", "x\tGPU\t10GiB\thttp\t20\t300\n",
                          "x\tGPU\t10GiB\thttp\t20\tfast\tpage\n"}) {
    CHECK(row_refusal(std::string("#\n") + row).find("cards.tsv:2") != std::string::npos);
  }
}

}  // namespace
}  // namespace allocmark
