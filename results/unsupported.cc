// Walks the fields of a cell and keeps the names of quantiles with too few samples.
#include "results/unsupported.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/fields.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

struct Suffix {
  std::string_view text;
  Percentile percentile;
};

constexpr std::array kSuffixes{Suffix{"_p50", kP50}, Suffix{"_p90", kP90}, Suffix{"_p99", kP99},
                               Suffix{"_p999", kP999}};

class UnsupportedFinder {
 public:
  UnsupportedFinder(std::vector<std::string>& names, std::string prefix)
      : names_(names), prefix_(std::move(prefix)) {}

  void quantile(const std::string& name, std::uint64_t count, double /*value*/) {
    const bool part = name.find("_host_") != name.npos || name.find("_driver_") != name.npos;
    if (part || count == 0) return;
    for (const Suffix& suffix : kSuffixes) {
      if (name.ends_with(suffix.text) && !has_enough_samples(suffix.percentile, count)) {
        names_.push_back(prefix_ + name);
      }
    }
  }
  template <typename Item, typename Visit>
  void optional_object(const std::string& name, const std::optional<Item>& value, Visit visit) {
    if (value) nested(name + ".", *value, visit);
  }
  template <typename Visit>
  void objects(const std::string& name, const std::vector<SizeClassLatency>& values, Visit visit) {
    for (const SizeClassLatency& value : values) {
      nested(name + "." + value.size_class + ".", value, visit);
    }
  }
  // A pass's quantiles are for spread.
  template <typename Visit>
  void objects(const std::string& /*name*/, const std::vector<PassSummary>& /*values*/,
               Visit /*visit*/) {}
  // Everything else has no quantiles.
  template <typename... Arguments>
  void text(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void optional_text(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void texts(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void integer(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void known_integer(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void optional_integer(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void real(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void known_real(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void status(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void cause(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void cause_counts(const Arguments&... /*arguments*/) {}
  template <typename... Arguments>
  void counters(const Arguments&... /*arguments*/) {}

 private:
  template <typename Item, typename Visit>
  void nested(const std::string& prefix, const Item& item, Visit visit) {
    UnsupportedFinder finder(names_, prefix_ + prefix);
    visit(finder, item);
  }

  std::vector<std::string>& names_;
  std::string prefix_;
};

}  // namespace

std::vector<std::string> unsupported_quantiles(const CellResult& cell) {
  std::vector<std::string> names;
  UnsupportedFinder finder(names, {});
  fields::visit_cell(finder, cell);
  return names;
}

}  // namespace allocmark
