// Goal: what the page shows is what the other formats say. Method: derived numbers against the CSV
// writer's columns, and tail curves of histograms with a known answer.
#include "results/facts/report_facts.h"

#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/sample_run.h"
#include "tests/support/tables.h"

using namespace allocmark;

namespace {

using Json = nlohmann::json;

Json facts_of(const std::vector<CellResult>& cells) {
  const CellSource whole = cells_in_memory(cells);
  return Json::parse(
      render_report_facts({.environment = sample::environment(), .cells = cells, .whole = whole})
          .whole());
}

}  // namespace

TEST_CASE("facts have the derived numbers of the CSV, and the rule for enough samples") {
  std::vector<CellResult> cells = sample::run();
  const Json facts = facts_of(cells);
  CHECK(facts["sample_count_min"] ==
        Json({{"p50", 20}, {"p90", 100}, {"p99", 1000}, {"p999", 10000}}));
  std::size_t known_count = 0;
  for (const CellResult& cell : cells) {
    // Of one cell without lists, whose rows need no parser of quotes.
    CellResult plain = cell;
    plain.key.workload = plain.key.conf = plain.key.allocator = plain.trace_name = "x";
    plain.reason.clear(), plain.warnings.clear(), plain.counters.clear(), plain.passes.clear();
    std::istringstream csv(render_csv({&plain, 1}));
    std::string names;
    std::string values;
    std::getline(csv, names);
    std::getline(csv, values);
    std::istringstream name_stream(names);
    std::istringstream value_stream(values + ",");
    const Json& derived = facts["derived"][cell.key.id()];
    for (std::string name, value; std::getline(name_stream, name, ',');) {
      std::getline(value_stream, value, ',');
      if (!derived.contains(name)) continue;
      INFO(name << " of " << cell.key.workload);
      CHECK(derived[name].is_null() == value.empty());
      if (value.empty() || derived[name].is_null()) continue;
      CHECK(derived[name].get<double>() == Approx(std::stod(value)).epsilon(1e-12));
      ++known_count;
    }
  }
  CHECK(known_count > 20);
}

TEST_CASE("a tail curve has the upper edge of every bucket and the share that takes longer") {
  CellResult cell = sample::run().front();
  cell.passes.resize(2);
  // Bucket 640 is 64 * 2^9 ps and ends at 65 * 2^9 ps = 33.28 ns; 704 ends at 66.56 ns.
  cell.passes[0].allocate_buckets = {{.index = 640, .count = 500}, {.index = 704, .count = 250}};
  cell.passes[1].allocate_buckets = {{.index = 704, .count = 250}};
  cell.passes[0].deallocate_buckets.clear();
  const Json tails = facts_of({cell})["tails"][cell.key.id()];
  CHECK(tails["allocate"] == Json({{33.28, 66.56}, {0.5, 0.0}}));
  CHECK(!tails.contains("deallocate"));
}

TEST_CASE("points that no eye can tell apart are left out, the last one never") {
  CellResult cell = sample::run().front();
  cell.passes.resize(1);
  cell.passes[0].allocate_buckets.clear();
  for (std::uint32_t index = 1000; index < 2000; ++index) {
    cell.passes[0].allocate_buckets.push_back({.index = index, .count = 1000000 - index});
  }
  const Json curve = facts_of({cell})["tails"][cell.key.id()]["allocate"];
  CHECK(curve[0].size() < 400);
  CHECK(curve[1].back() == 0);
}
