// Goal: the test "latency" measures what it judges and little else, and nothing that it measures
// goes unmentioned. Method: a simulated H200 in this process; the rounds' own samples are held
// against the figures of a whole test at each kind of level.
#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "harness/core/measure/clock.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/qualify/latency_round.h"
#include "harness/tools/qualify/test.h"
#include "tests/catch.h"

namespace allocmark::qualify {
namespace {

struct Rig {
  SimcuApi simcu = SimcuApi::find();
  TickClock clock;
  DriverTimer timer{clock, simcu.thread_clock()};
  std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  RoundSetup setup(bool with_gibibytes) {
    return {.time = timer,
            .work = *work,
            .device_bytes = device_free_bytes(),
            .with_gibibytes = with_gibibytes};
  }
};

TestContext context_for(double seconds, const std::string& baseline) {
  return {.spec = {.test = "latency",
                   .device = ALLOCMARK_PROFILES_FOLDER "/h200.json",
                   .seconds = seconds,
                   .baseline_path = baseline,
                   .readings = {}},
          .simulated = true};
}

bool is_only_reported(const Figure& figure) {
  return figure.threshold.empty() && figure.note.find(kOnlyReported) != std::string::npos;
}

// "cudaMalloc 2.00 MiB" of "cudaMalloc 2.00 MiB, P50".
std::set<std::string> calls_of(const TestAnswer& answer) {
  std::set<std::string> calls;
  for (const Figure& figure : answer.figures) {
    const std::size_t at = figure.name.rfind(", P");
    if (at != std::string::npos) calls.insert(figure.name.substr(0, at));
  }
  return calls;
}

}  // namespace

TEST_CASE("a round measures one level of each call, whose samples are all kept") {
  Rig rig;
  for (const bool with_gibibytes : {false, true}) {
    ProfileRecording recording;
    measure_parts(rig.setup(with_gibibytes), 1, recording);
    Measured measured;
    measure_round(rig.setup(with_gibibytes), 1, measured);
    std::size_t kept = 0;
    for (const Samples* samples : {&measured.judged, &measured.reported}) {
      for (const auto& [key, of_call] : *samples) kept += of_call.count();
    }
    std::size_t made = 0;
    std::set<std::string> costs;
    for (const auto& [key, rows] : recording.rows(0)) {
      INFO(key.cost << " at level " << key.level);
      CHECK(costs.insert(key.cost).second);
      for (const ProfileRow& row : rows) made += row.sample_count;
    }
    CHECK(made > 10'000);
    CHECK(kept == made);
  }
}

TEST_CASE("every figure that latency measures is judged or called only reported") {
  Rig rig;
  // The level quick, and one that repeats; with the limits that ship, and with one profile's.
  for (const double seconds : {0.0, 3.0}) {
    Measured measured;
    measure_round(rig.setup(seconds > 0), 1, measured);
    for (const std::string& baseline :
         {std::string(), std::string(ALLOCMARK_PROFILES_FOLDER "/h200.json")}) {
      const TestAnswer answer = run_latency(context_for(seconds, baseline));
      const std::set<std::string> calls = calls_of(answer);
      CHECK(calls.size() == measured.judged.size() + measured.reported.size());
      std::size_t judged_count = 0;
      for (const Figure& figure : answer.figures) {
        INFO(figure.name << ": " << figure.note);
        if (figure.name.find(", P") == std::string::npos) continue;
        CHECK(figure.threshold.empty() == is_only_reported(figure));
        judged_count += figure.threshold.empty() ? 0 : 1;
      }
      CHECK(judged_count > 80);
      // What wants a level that repeats is not made for nothing.
      CHECK(calls.contains("cudaMalloc 1.00 GiB") == (seconds > 0));
      CHECK(calls.contains("cuMemCreate 1.00 GiB") == (seconds > 0));
    }
  }
}

}  // namespace allocmark::qualify
