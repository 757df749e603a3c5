// What is known of a cell's failures beyond their cause's name: which limit, whose cache, on which
// stream, and what would help. Flows in: a cell; flows out: plain sentences without a full stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "results/schema.h"

namespace allocmark {

// The cause of most failed requests; nothing where none is stored.
[[nodiscard]] std::optional<OomCause> main_cause(const CellResult& cell);

// "its own live memory fills the limit of the process"; empty where no cause is stored.
[[nodiscard]] std::string main_cause_words(const CellResult& cell);

// Room that a job does not fit into: what the card leaves, or less by a limit of the process.
struct Room {
  std::uint64_t needed_bytes = 0, there_bytes = 0;
  // Where a limit of the process makes `there_bytes` less than this.
  std::optional<std::uint64_t> card_left_bytes = std::nullopt;
};

// "needs 13.0 GiB live, 11.8 GiB are there: no setting can help; 1.25 GiB must go".
[[nodiscard]] std::string no_room_words(const Room& room);

// The numbers behind the first failure, and what would help there: "11.0 GiB live and 1.00 GiB
// asked exceed the limit of 11.8 GiB; ..."; empty where the cause's name says all.
[[nodiscard]] std::string failure_details(const CellResult& cell);
// What serves the job though no setting does, as this cell shows it: "a higher limit of the
// process, or none, can". Empty where nothing of the kind is known.
[[nodiscard]] std::string higher_limit_words();
[[nodiscard]] std::string other_way(const CellResult& cell);

}  // namespace allocmark
