// Two sides measured in turn: in every round each cell runs once on either side, in a process of
// its own, the order changing from round to round. Flows in: the plan and the rounds' results, as
// stored in interleaved.json and rounds.jsonl; flows out: a comparison whose timed numbers rest on
// the differences within the rounds, so that what disturbs both sides cancels and what differs
// between processes shows as spread. Neither times nor checks allocators.
// results/compare/VERDICTS.md, "Interleaved runs", says how each verdict is reached.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "results/cell_source.h"
#include "results/compare/compare.h"
#include "results/compare/compare_policy.h"
#include "results/schema.h"

namespace allocmark {

inline constexpr std::size_t kSideCount = 2;

// "A", or "B" for any index above 0.
[[nodiscard]] std::string side_name(std::size_t side);

// Timed passes of a process at most, where --passes does not say: with more, what differs between
// processes outweighs what differs between passes.
inline constexpr std::uint32_t kPassCountMax = 16;

// The same experiment on both sides; the keys differ where the sides are allocators or confs.
struct InterleavedCell {
  CellKey base = {}, now = {};
  // At most the plan's. Below what the plan has before the first look, only exact numbers are
  // compared.
  std::uint32_t round_count_max = 0;
};

struct InterleavedSide {
  std::string label = {};         // "A", or "BASE"
  std::string text = {};          // as given: a program, an allocator or a config string
  std::string program_path = {};  // what runs its cells
};

struct InterleavedPlan {
  std::array<InterleavedSide, kSideCount> sides = {};
  std::uint64_t order_seed = 1;
  std::uint32_t pass_count = 3;      // timed passes of each process, at least
  std::uint32_t pass_count_max = 3;  // and at most, where the two sides' processes take turns
  bool turns_by_pass = true;         // false: a side's process runs when the other side's has ended
  std::uint32_t round_count = 16;    // before the first look
  std::uint32_t round_count_max = 48;  // later looks are at twice the one before, up to this
  std::vector<InterleavedCell> cells = {};
};

// Rounds after which verdicts are formed: 16, 32 and 48 with the defaults. The last one is
// round_count_max.
[[nodiscard]] std::vector<std::uint32_t> look_rounds(const InterleavedPlan& plan);

// One process of one side.
struct RoundResult {
  std::uint32_t round = 0;  // 0-based
  std::uint32_t side = 0;   // 0 or 1
  std::uint64_t place = 0;  // in the order in which the processes were started
  // Its timed passes alternated with those of the round's process of the other side: passes with
  // the same index lie next to each other. False where a file does not say.
  bool in_turns = false;
  CellResult cell = {};
};

[[nodiscard]] std::string to_json(const InterleavedPlan& plan);
// Throws UsageError where the text is no such plan.
[[nodiscard]] InterleavedPlan interleaved_plan_from_json(const std::string& text,
                                                         const std::string& where);
[[nodiscard]] std::string to_json_line(const RoundResult& result);
struct InterleavedRun {
  InterleavedPlan plan = {};
  std::array<Environment, kSideCount> environments = {};
  std::vector<RoundResult> rounds = {};  // their cells may be summaries (results/cell_summary.h)
  CellSource whole = {};                 // the same cells, where they are
  bool torn = false;                     // the last line is cut short
  // Where a cell's sides first place a request differently, in words, by the plan's cell.
  std::map<std::size_t, std::string> first_differences = {};
};

// Reads every whole line, and keeps summaries: rounds do not fit into memory. Throws UsageError
// with file and line for a corrupt one. `where` is what messages call the text.
void read_rounds(const StoredText& text, const std::string& where, InterleavedRun* run);

[[nodiscard]] std::string first_differences_json(
    const std::map<std::size_t, std::string>& first_differences);
// Throws UsageError where the text is none of these.
[[nodiscard]] std::map<std::size_t, std::string> first_differences_from_json(
    const std::string& text, const std::string& where);

[[nodiscard]] Comparison compare_interleaved(const InterleavedRun& run,
                                             const ComparePolicy& policy);

// Indices of the plan's cells for which further rounds can tell more: a timed number is undecided
// for want of rounds, and not of more than twice as many as the plan allows. Those that have no
// result on a side are not among them.
[[nodiscard]] std::set<std::size_t> cells_to_go_on(const InterleavedRun& run,
                                                   const ComparePolicy& policy);

// The cells of a comparison that a confirmation runs again: those with a timed number that is
// called, or whose change is not far from the smallest effect; and with one round, those in which
// only exact numbers differ.
[[nodiscard]] std::vector<InterleavedCell> suspects(const Comparison& comparison,
                                                    const ComparePolicy& policy,
                                                    std::uint32_t round_count_max);

// Replaces timed verdicts of the confirmed cells by the confirmation's, and withdraws exact
// differences that did not come again; then concludes anew.
void apply_confirmation(const Comparison& confirmation, const ComparePolicy& policy,
                        Comparison& comparison);

}  // namespace allocmark
