// Goal: every scenario that ships works from its file to its figures. Each is cut to its first
// events and run as a cell on the simulated device, without memory and on the caching allocator,
// under the scenario's own first capacity and every one of its config strings that is for caching.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/conf/conf.h"
#include "allocators/registry.h"
#include "harness/core/cell/cell.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/run/plan_confs.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/open_workload.h"
#include "workloads/scenario.h"
#include "workloads/trace/source.h"
#include "workloads/trace/trace_writer.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kEventCountMax = 4000;

struct Cut {
  std::string workload;  // a trace file
  // What a kernel that ends by itself holds back depends on time, which passes for checks too.
  bool depends_on_time = false;
  bool has_pools = false;  // private ones, which null has not
};

// The first events of the scenario.
Cut write_cut(const Scenario& scenario, const TemporaryFolder& folder) {
  const std::unique_ptr<EventSource> source = open_workload(scenario.name, scenario.seeds.front());
  std::vector<Event> events;
  while (events.size() < kEventCountMax) {
    const std::span<const Event> batch = source->next();
    if (batch.empty()) break;
    events.insert(events.end(), batch.begin(), batch.end());
  }
  events.resize(std::min<std::size_t>(events.size(), kEventCountMax));
  const std::string path = folder.path(scenario.name + ".ops.csv");
  TraceWriter writer(path, source->header(), {.tagged = true, .event_count = {}, .hash = {}});
  for (const Event& event : events) {
    const bool is_mark = event.kind == EventKind::Mark;
    writer.write(event, is_mark ? std::string_view(source->labels()[event.id]) : "");
  }
  writer.finish();
  const bool has_kernels = std::ranges::count(events, EventKind::Kernel, &Event::kind) > 0;
  const bool has_pools = std::ranges::any_of(events, is_of_pool, &Event::kind);
  return {.workload = "file:" + path, .depends_on_time = has_kernels, .has_pools = has_pools};
}

struct Setting {
  std::string allocator;  // empty: any
  std::string conf;
};

Setting setting_of(const std::string& text) {
  const ScopedText scope = split_scope(text);
  return {.allocator = std::string(scope.allocator), .conf = conf_of_user(scope.conf)};
}

TEST_CASE("every scenario runs in smoke size and serves requests") {
  const TemporaryFolder folder;
  for (const NamedFile& file : scenario_files()) {
    const Scenario scenario = read_scenario(file.path);
    const Cut cut = write_cut(scenario, folder);
    std::vector<Setting> confs;
    if (!cut.has_pools) confs.push_back({.allocator = "null", .conf = ""});
    if (scenario.confs.empty()) confs.push_back({.allocator = "caching", .conf = ""});
    for (const std::string& text : scenario.confs) {
      const Setting conf = setting_of(text);
      if (conf.allocator.empty() || conf.allocator == "caching") {
        confs.push_back({.allocator = "caching", .conf = conf.conf});
      }
    }
    for (const Setting& conf : confs) {
      CellSpec spec;
      spec.key = {.workload = cut.workload,
                  .allocator = conf.allocator,
                  .conf = conf.conf,
                  .device = "sim:h200",
                  .capacity = scenario.capacities.front(),
                  .on_oom = "skip"};
      spec.pass_count = 1;
      const CellResult result = run_cell(spec);
      INFO(file.path << ", " << conf.allocator << " '" << conf.conf << "': " << result.reason);
      REQUIRE(result.status == CellStatus::Ok);
      CHECK(result.event_count > 0);
      CHECK(result.allocate_count > result.oom_count);
      CHECK(result.pass_count == 1);
      CHECK(result.residue_bytes == 0);
      for (const std::string& warning : result.warnings) {
        if (cut.depends_on_time) continue;
        CHECK(warning.find("not deterministic") == std::string::npos);
      }
    }
  }
}

TEST_CASE("capacities and config strings of scenarios are sound") {
  for (const NamedFile& file : scenario_files()) {
    const Scenario scenario = read_scenario(file.path);
    INFO(file.path);
    CHECK_FALSE(scenario.capacities.empty());
    for (const std::string& capacity : scenario.capacities) {
      CHECK_NOTHROW(static_cast<void>(parse_capacity(capacity)));
    }
    for (const std::string& text : scenario.confs) {
      INFO(text);
      const Setting conf = setting_of(text);
      const std::string allocator = conf.allocator.empty() ? "caching" : conf.allocator;
      const std::optional<ErrorText> error = find_backend(allocator).check_conf(conf.conf);
      CHECK_FALSE(error.has_value());
    }
  }
}

}  // namespace
}  // namespace allocmark
