// The facts as JSON, and the tail curves among them.
#include "results/facts/report_facts.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "results/answer/facts.h"
#include "results/compare/compare_writers.h"
#include "results/compare/side_cells.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/latency_histogram.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Points of a curve that lie closer than this many decades on both axes are left out, which no eye
// can tell. Pages of many cells get fewer points, so that they stay small.
constexpr double kStepFine = 0.02, kStepCoarse = 0.06;
constexpr std::size_t kFineCellsMax = 300;
// Base runs' curves beside new ones.
constexpr std::size_t kOverlaysMax = 200;

std::string text_of(const OrderedJson& json) { return json_text(json); }

// What stands in a list of JSON, with commas between.
class TextParts {
 public:
  void add(std::string_view part) {
    if (spool_->size_bytes() > 0) spool_->append(",");
    spool_->append(part);
  }
  void append_to(Spool& text) const {
    StoredText(spool_).each_piece([&](std::string_view piece) { text.append(piece); });
  }

 private:
  std::shared_ptr<Spool> spool_ = std::make_shared<Spool>();
};

OrderedJson derived_json(const CellResult& cell) {
  OrderedJson json = OrderedJson::object();
  for (const DerivedNumber& derived : derived_numbers()) {
    json[std::string(derived.name)] = number_or_null(derived.value(cell));
  }
  return json;
}

// [[latency in ns, ...], [share of calls that take longer, ...]] over all passes; null without
// histograms.
OrderedJson tail_json(const CellResult& cell, LatencyBuckets PassSummary::*buckets, double step) {
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) histograms.push_back(&(pass.*buckets));
  const LatencyBuckets merged = merge_buckets(histograms);
  if (merged.empty()) return nullptr;
  const double total = static_cast<double>(sample_count(merged));
  std::uint64_t above = sample_count(merged);
  std::vector<double> times;
  std::vector<double> shares;
  for (const LatencyBucket& bucket : merged) {
    above -= bucket.count;
    const double time_ns = bucket_lowest_ns(bucket.index + 1);
    const double share = static_cast<double>(above) / total;
    const bool near = !times.empty() && above > 0 && std::log10(time_ns / times.back()) < step &&
                      std::log10(shares.back() / share) < step;
    if (near) continue;
    times.push_back(time_ns);
    shares.push_back(share);
  }
  return OrderedJson::array({times, shares});
}

OrderedJson tails_of(const CellResult& cell, double step) {
  OrderedJson tails = OrderedJson::object();
  OrderedJson allocate = tail_json(cell, &PassSummary::allocate_buckets, step);
  OrderedJson deallocate = tail_json(cell, &PassSummary::deallocate_buckets, step);
  if (!allocate.is_null()) tails["allocate"] = std::move(allocate);
  if (!deallocate.is_null()) tails["deallocate"] = std::move(deallocate);
  return tails;
}

OrderedJson tails_json(std::span<const CellResult> cells, double step) {
  OrderedJson tails = OrderedJson::object();
  for (const CellResult& cell : cells) {
    OrderedJson of_cell = tails_of(cell, step);
    if (!of_cell.empty()) tails[cell.key.id()] = std::move(of_cell);
  }
  return tails;
}

// The line of a cell as it is stored, but for histograms, which only tails are made of.
std::string line_without_histograms(CellResult cell) {
  for (PassSummary& pass : cell.passes) {
    for (LatencyBuckets* buckets : {&pass.allocate_buckets, &pass.deallocate_buckets,
                                    &pass.allocate_own_buckets, &pass.deallocate_own_buckets}) {
      buckets->clear();
    }
  }
  return to_json_line(cell);
}

// The base cells whose curves are worth a look beside the new ones: the most important ones.
std::vector<CellResult> overlaid_cells(const ReportedComparison& one) {
  const SideCells base(one.base);
  std::map<std::string, std::size_t> by_id;
  for (std::size_t i = 0; i < base.outlines().size(); ++i) by_id[base.outlines()[i].key.id()] = i;
  std::vector<CellResult> cells;
  for (const CellComparison& compared : one.comparison.cells) {
    const auto found = by_id.find(compared.key.id());
    if (found != by_id.end() && cells.size() < kOverlaysMax)
      cells.push_back(base.whole(found->second));
  }
  return cells;
}

}  // namespace

StoredText render_report_facts(const ReportInput& input) {
  const std::vector<bool> shown = shown_cells(input.cells, input.cell_count_max);
  const double step = input.cells.size() <= kFineCellsMax ? kStepFine : kStepCoarse;
  // Of each cell in turn, as text: as values of JSON they would take many times the memory.
  TextParts derived;
  TextParts tails;
  TextParts lines;
  for (std::size_t index = 0; index < input.cells.size(); ++index) {
    if (!shown[index]) continue;
    const CellResult& cell = input.whole.whole(index);
    derived.add(text_of(cell.key.id()) + ":" + text_of(derived_json(cell)));
    if (const OrderedJson of_cell = tails_of(cell, step); !of_cell.empty()) {
      tails.add(text_of(cell.key.id()) + ":" + text_of(of_cell));
    }
    lines.add("\n" + line_without_histograms(cell));
  }
  OrderedJson compared = OrderedJson::array();
  for (const ReportedComparison& one : input.comparisons) {
    compared.push_back(
        {{"path", one.path},
         {"tails", tails_json(overlaid_cells(one), step)},
         {"comparison", parse_ordered_json(render_comparison_json(one.comparison), nullptr,
                                           {.value_count_max = UINT64_MAX})}});
  }
  const OrderedJson facts = {{"kind", "report_facts"},
                             {"schema_version", kSchemaVersion},
                             {"notes", input.notes},
                             {"environment", parse_ordered_json(to_json_line(input.environment))},
                             {"sample_count_min",
                              {{"p50", sample_count_min(kP50)},
                               {"p90", sample_count_min(kP90)},
                               {"p99", sample_count_min(kP99)},
                               {"p999", sample_count_min(kP999)}}},
                             {"answers", answers_json(input.cells, shown)},
                             {"columns", columns_json(input.cells, shown)},
                             {"comparisons", compared}};
  const auto text = std::make_shared<Spool>();
  std::string head = text_of(facts);
  head.pop_back();
  text->append(head + ",\"derived\":{");
  derived.append_to(*text);
  text->append("},\"tails\":{");
  tails.append_to(*text);
  text->append("},\"cells\":[");
  lines.append_to(*text);
  text->append("]}\n");
  return StoredText(text);
}

}  // namespace allocmark
