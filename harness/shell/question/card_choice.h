// Which cards serve a job, for 'fit' and 'advise': the smallest whose memory is enough, and of
// servers those that keep a target of request P99. Facts of a search flow in; text flows out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/search/search.h"
#include "harness/shell/question/outside_memory.h"
#include "results/schema.h"

namespace allocmark {

// A card as a device that can be asked about.
struct CardRoom {
  std::string device;  // "sim:rtx-4090"
  std::string gpu_name;
  std::uint64_t total_bytes = 0;
  std::uint64_t usable_bytes = 0;  // what context, kernels and libraries leave for sure
};

// All that can be asked about but those of laptops, the smallest first.
[[nodiscard]] std::vector<CardRoom> cards_by_room(const LoadedLibraries& loaded);
// Of a workload as it was typed, and with a card's figures.
[[nodiscard]] std::vector<CardRoom> cards_of_job(const std::string& typed,
                                                 const std::string& workload, std::uint64_t seed);

// The smallest that leaves so much; null where none does.
[[nodiscard]] const CardRoom* smallest_card(const std::vector<CardRoom>& cards,
                                            std::uint64_t needed_bytes);

// Of the setting that needs least; what is live at the peak where none served the job.
[[nodiscard]] std::uint64_t least_need(const SearchResult& result);

// "smallest card: sim:rtx-4090 ..." of a search that found least amounts.
[[nodiscard]] std::string smallest_card_text(const SearchResult& result,
                                             const std::vector<CardRoom>& cards);
[[nodiscard]] nlohmann::ordered_json smallest_card_json(const SearchResult& result,
                                                        const std::vector<CardRoom>& cards);

// A target of request P99, as asked with --target.
struct TargetQuestion {
  std::string workload;  // with the card's figures
  std::string typed;     // without them
  std::uint64_t seed = 1;
  std::uint64_t target_ns = 0;
  std::string gpu_name;            // of the device at hand
  std::uint64_t needed_bytes = 0;  // least_need
};

// Throws UsageError where the workload answers no requests.
struct TargetAnswer {
  std::uint64_t target_ns = 0;
  std::uint64_t server_p99_ns = 0;                      // with an allocator that costs nothing
  std::vector<std::string> keeping = {}, missing = {};  // settings that were measured
  std::optional<std::uint64_t> load = std::nullopt;     // largest per minute
  std::optional<CardRoom> card = std::nullopt;          // the smallest that keeps it
  std::uint64_t card_p99_ns = 0;
};
[[nodiscard]] TargetAnswer answer_target(const TargetQuestion& question,
                                         const std::vector<CardRoom>& cards,
                                         const std::vector<CellResult>& cells);
[[nodiscard]] std::vector<std::string> target_lines(const TargetAnswer& answer,
                                                    const TargetQuestion& question);
[[nodiscard]] nlohmann::ordered_json target_json(const TargetAnswer& answer);

}  // namespace allocmark
