// The soak's file, and what it calls a drift.
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/output_file.h"
#include "harness/tools/run/soak/drift.h"
#include "harness/tools/run/soak/soak_file.h"
#include "harness/tools/run/soak/soak_text.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// An hour in 120 windows; latencies wander by some percent, as a host's do.
SoakRecord steady_hour() {
  SoakRecord record;
  record.spec.seconds = 3600;
  record.begins = {0};
  for (int i = 0; i < 120; ++i) {
    const double wander = 1 + 0.04 * std::sin(i * 1.7);
    SoakWindow window;
    window.end_s = 30.0 * (i + 1);
    window.pass_count = 8;
    window.allocate_p50_ns = 100 * wander;
    window.allocate_p99_ns = 300 * wander;
    window.deallocate_p50_ns = 90 * wander;
    window.deallocate_p99_ns = 250 * wander;
    window.held_bytes = 1000 * kMiB;
    window.device_bytes = 1000 * kMiB;
    window.process_bytes = 50 * kMiB;
    record.windows.push_back(window);
  }
  record.ended = true;
  return record;
}

Drift drift_of(const SoakRecord& record, const std::string& measure) {
  for (const Drift& drift : find_drifts(record)) {
    if (drift.measure == measure) return drift;
  }
  FAIL("no measure " << measure);
  return {};
}

}  // namespace

TEST_CASE("a steady soak has no drift") {
  for (const Drift& drift : find_drifts(steady_hour())) {
    INFO(drift.measure);
    CHECK(drift.trend == Trend::Flat);
  }
}

TEST_CASE("a slow drift is found, with its slope") {
  SoakRecord record = steady_hour();
  for (SoakWindow& window : record.windows) {
    window.held_bytes += static_cast<std::uint64_t>(window.end_s / 3600 * 60) * kMiB;
    window.deallocate_p50_ns *= 1 + 0.3 * window.end_s / 3600;
  }
  const Drift held = drift_of(record, "held when all is freed");
  CHECK(held.trend == Trend::Grows);
  CHECK(held.per_hour_low <= 60.0 * kMiB);
  CHECK(held.per_hour_high >= 60.0 * kMiB);
  CHECK(held.per_hour / (60.0 * kMiB) > 0.95);
  CHECK(held.per_hour / (60.0 * kMiB) < 1.05);
  CHECK(drift_of(record, "free P50").trend == Trend::Grows);
  CHECK(drift_of(record, "allocate P50").trend == Trend::Flat);
}

TEST_CASE("a fault that begins near the end is found") {
  SoakRecord record = steady_hour();
  for (std::size_t i = 105; i < record.windows.size(); ++i) {
    record.windows[i].oom_count = 16;
    record.windows[i].allocate_p50_ns *= 3;
  }
  CHECK(drift_of(record, "failed requests a pass").trend == Trend::Grows);
  CHECK(drift_of(record, "failed requests a pass").last == 2);
  CHECK(drift_of(record, "allocate P50").trend == Trend::Grows);
}

TEST_CASE("what falls is said, and the cold begin of each process is no drift") {
  SoakRecord record = steady_hour();
  record.begins = {0, 60};
  record.windows[0].device_call_count = record.windows[60].device_call_count = 5000;
  for (SoakWindow& window : record.windows) window.scattered_share = 0.5 - window.end_s / 36000;
  CHECK(drift_of(record, "device calls a pass").trend == Trend::Flat);
  CHECK(drift_of(record, "scattered share of it").trend == Trend::Falls);
}

TEST_CASE("a soak that is too short tells of nothing") {
  SoakRecord record = steady_hour();
  record.windows.resize(8);
  CHECK(drift_of(record, "allocate P50").trend == Trend::Unknown);
  CHECK(soak_answer({.record = record, .drifts = find_drifts(record)}).find("too short") !=
        std::string::npos);
}

TEST_CASE("a soak's file is read up to its last whole line") {
  const TemporaryFolder folder;
  SoakSpec spec;
  spec.key.workload = "comb";
  spec.key.allocator = "caching";
  spec.seconds = 90;
  const SoakWindow window = steady_hour().windows[0];
  const std::string whole = to_json_line(spec) + "\n" + to_json_line(window) + "\n";
  write_file(folder.path("soak.jsonl"), whole + "{\"kind\":\"win");
  SoakFile file = read_soak_file(folder.path("soak.jsonl"));
  CHECK(file.size_bytes == whole.size());
  CHECK(file.record.windows.size() == 1);
  CHECK(file.record.windows[0].held_bytes == 1000 * kMiB);
  CHECK(file.record.spec.key == spec.key);
  CHECK(file.record.done_s() == 30);
  CHECK_FALSE(file.record.ended);

  const SoakEnd end{.status = CellStatus::Failed, .reason = "lost", .warnings = {"other work"}};
  add_line(to_json_line(end), "", file.record);
  CHECK(file.record.ended);
  CHECK_FALSE(file.record.is_whole());
  CHECK(file.record.end.reason == "lost");
  CHECK(file.record.end.warnings == end.warnings);
  const SoakReport report{.record = file.record, .drifts = {}};
  CHECK(render_soak(report).find("\nwarning: other work\n") != std::string::npos);
  CHECK(to_json({report}).find("\"warnings\":[\"other work\"]") != std::string::npos);
}

TEST_CASE("a file that is no soak is refused by line") {
  const TemporaryFolder folder;
  const std::string path = folder.path("soak.jsonl");
  for (const char* text : {"", "[]\n", "{\"kind\":\"window\"}\n", "{\"kind\":\"cell\"}\n"}) {
    write_file(path, text);
    CHECK_THROWS_AS(read_soak_file(path), UsageError);
  }
  write_file(path, to_json_line(SoakSpec{}) + "\n{\"kind\":\"end\",\"status\":\"fine\"}\n");
  try {
    (void)read_soak_file(path);
    FAIL("nothing was thrown");
  } catch (const UsageError& error) {
    CHECK(std::string(error.what()).find("soak.jsonl:2") != std::string::npos);
  }
}

}  // namespace allocmark
