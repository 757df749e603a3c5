// CSV: every stored field of results/fields.h by its stored name, lists and counters as columns of
// their own, then the derived numbers. Columns that only some cells have are empty in the others.
// CSV has no escapes, so control characters in names are shown as in tables; results.jsonl has the
// names themselves.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/assert.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/fields.h"
#include "results/json.h"
#include "results/tables/writers.h"
#include "results/unsupported.h"

namespace allocmark {
namespace {

using CsvRow = std::vector<std::pair<std::string, std::string>>;

// Shortest text that reads back as the same number; empty where there is none.
std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string number(const std::optional<double>& value) { return value ? number(*value) : ""; }

// A spreadsheet would run a text that begins like a formula; behind an apostrophe it is text.
std::string no_formula(std::string text) {
  constexpr std::string_view kBegins = "=+-@";
  const bool begins = !text.empty() && kBegins.find(text.front()) != std::string_view::npos;
  return begins ? "'" + text : text;
}

// Walks the fields of a cell into one row.
class Flattener {
 public:
  explicit Flattener(CsvRow& row, std::string prefix = {})
      : row_(row), prefix_(std::move(prefix)) {}

  void add(const std::string& name, std::string value) {
    row_.emplace_back(prefix_ + name, std::move(value));
  }

  void text(const std::string& name, const std::string& value) {
    add(name, no_formula(printable(value)));
  }
  void texts(const std::string& name, const std::vector<std::string>& values) {
    std::string joined;
    for (const std::string& value : values) {
      if (!joined.empty()) joined += '\n';
      joined += printable(value);
    }
    add(name, no_formula(std::move(joined)));
  }
  // What a scenario stands for is in results.jsonl; a column of it would repeat for every cell.
  void optional_text(const std::string& /*name*/, const std::string& /*value*/) {}
  template <typename Integer>
  void integer(const std::string& name, Integer value) {
    add(name, fmt::format("{}", value));
  }
  void optional_integer(const std::string& name, const std::optional<std::uint64_t>& value) {
    add(name, value ? fmt::format("{}", *value) : "");
  }
  void known_integer(const std::string& name, std::uint64_t value) {
    add(name, value == 0 ? "" : fmt::format("{}", value));
  }
  void real(const std::string& name, double value) { add(name, number(value)); }
  void known_real(const std::string& name, double value) {
    add(name, value == 0 ? "" : number(value));
  }
  void quantile(const std::string& name, std::uint64_t count, double value) {
    add(name, count == 0 ? "" : number(value));
  }
  void status(const std::string& name, CellStatus value) {
    add(name, std::string(to_string(value)));
  }
  void cause(const std::string& name, OomCause value) { add(name, std::string(to_string(value))); }
  void cause_counts(const std::string& prefix, const std::vector<std::uint64_t>& counts) {
    for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
      integer(prefix + std::string(to_string(static_cast<OomCause>(cause))),
              cause < counts.size() ? counts[cause] : std::uint64_t{0});
    }
  }
  void counters(const std::string& name,
                const std::vector<std::pair<std::string, std::int64_t>>& values) {
    for (const auto& [key, value] : values) integer(name + "." + printable(key), value);
  }
  // Hundreds of buckets are nothing for a spreadsheet; results.jsonl has them.
  void histogram(const std::string& /*name*/, const LatencyBuckets& /*buckets*/) {}
  template <typename Item, typename Visit>
  void optional_object(const std::string& name, const std::optional<Item>& value, Visit visit) {
    if (value) return nested(name + ".", *value, visit);
    const std::size_t begin = row_.size();
    nested(name + ".", Item{}, visit);
    for (std::size_t index = begin; index < row_.size(); ++index) row_[index].second.clear();
  }
  template <typename Item, typename Visit>
  void objects(const std::string& name, const std::vector<Item>& values, Visit visit) {
    for (std::size_t index = 0; index < values.size(); ++index) {
      nested(fmt::format("{}.{}.", name, label(values[index], index)), values[index], visit);
    }
  }

 private:
  static std::string label(const SizeClassLatency& item, std::size_t /*index*/) {
    return printable(item.size_class);
  }
  static std::string label(const PassSummary& /*item*/, std::size_t index) {
    return std::to_string(index);
  }

  template <typename Item, typename Visit>
  void nested(const std::string& prefix, const Item& item, Visit visit) {
    Flattener flattener(row_, prefix_ + prefix);
    visit(flattener, item);
  }

  CsvRow& row_;
  std::string prefix_;
};

CsvRow flatten(const CellResult& cell) {
  ALLOCMARK_ASSERT(!cell.is_summary);
  CsvRow row{{"cell_id", cell.key.id()}};
  Flattener flattener(row);
  fields::visit_cell(flattener, cell);
  for (const DerivedNumber& derived : derived_numbers()) {
    flattener.add(std::string(derived.name), number(derived.value(cell)));
  }
  flattener.add("quantiles_unsupported",
                printable(fmt::format("{}", fmt::join(unsupported_quantiles(cell), " "))));
  return row;
}

void append_row(std::string& out, const std::vector<std::string>& values) {
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (index > 0) out += ',';
    out += csv_field(values[index]);
  }
  out += '\n';
}

}  // namespace

CsvColumns::CsvColumns() { note(CellResult{}); }

void CsvColumns::note(const CellResult& cell) {
  for (auto& [name, value] : flatten(cell)) {
    if (index_by_name_.try_emplace(name, names_.size()).second) names_.push_back(name);
  }
}

std::string CsvColumns::header() const {
  std::string out;
  append_row(out, names_);
  return out;
}

std::string CsvColumns::row(const CellResult& cell) const {
  std::vector<std::string> values(names_.size());
  for (auto& [name, value] : flatten(cell)) values[index_by_name_.at(name)] = std::move(value);
  std::string out;
  append_row(out, values);
  return out;
}

void write_csv(const CellSource& cells, const TextSink& sink) {
  CsvColumns columns;
  for (std::size_t index = 0; index < cells.count; ++index) columns.note(cells.whole(index));
  sink(columns.header());
  for (std::size_t index = 0; index < cells.count; ++index) sink(columns.row(cells.whole(index)));
}

}  // namespace allocmark
