// Cards by the names that nvidia-smi and PyTorch print, in any case: "NVIDIA GeForce RTX 4090" is
// sim:rtx-4090. Text flows in; the card meant flows out, or what can be asked instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/device/cards.h"
#include "results/schema.h"
#include "workloads/trace/serving_card.h"

namespace allocmark {

// The value of --device as the program uses it. A card's printed name becomes sim:NAME where it
// names one card: behind "sim:" always, else where it has blanks, which no other device has. Other
// text stays as it is.
[[nodiscard]] std::string device_of_user(const std::string& text);

// The row that a GPU's own name means; null where there is none, or several.
[[nodiscard]] const Card* card_of_gpu(const std::vector<Card>& cards, std::string_view gpu_name);

// Cards that the name may mean: all its words are theirs ("a100" is two).
[[nodiscard]] std::vector<Card> cards_meant(const std::vector<Card>& cards, std::string_view name);

// What the device's card computes and reads: its row's, found by the device's name or by the GPU's;
// nothing where no row is its own.
[[nodiscard]] std::optional<ServingCard> serving_card_of(std::string_view device,
                                                         std::string_view gpu_name);

// Gives the cells' servers the figures of the device's card. The note says where they are not known
// and an H200's are taken; empty otherwise.
[[nodiscard]] std::string place_servers(std::vector<CellKey>* cells, std::string_view gpu_name);

// "24GiB" on a larger device: a card of 24 GB leaves less; this says how much, and how to ask about
// one. Empty for other capacities.
[[nodiscard]] std::string nominal_capacity_note(std::string_view capacity,
                                                std::uint64_t device_bytes);

// Throws UsageError where `device` names a card of another vendor: it is not modelled, and this is
// what can be asked about it.
void refuse_other_vendors(std::string_view device);

}  // namespace allocmark
