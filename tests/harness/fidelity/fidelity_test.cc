// Distances between traces: each number on traces small enough to check by hand, then between the
// generators and the recordings.
#include "harness/tools/fidelity/fidelity.h"

#include <memory>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"

using namespace allocmark;

namespace {

TraceShape shape_of(const std::string& rows) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.csv", "op,id,size,stream\n" + rows);
  return measure_shape(*open_workload("file:" + path, 1));
}

TraceShape shape_of_workload(const std::string& workload) {
  return measure_shape(*open_workload(workload, 1));
}

// A step of two blocks, the larger of `size_bytes`.
std::string step(int id, const std::string& size_bytes) {
  const std::string first = std::to_string(id);
  const std::string second = std::to_string(id + 1);
  return "mark,s,0,0\nalloc," + first + "," + size_bytes + ",0\nalloc," + second + ",100,0\nfree," +
         first + ",0,0\nfree," + second + ",0,0\n";
}

}  // namespace

TEST_CASE("a trace is at distance 0 from itself") {
  const TraceShape shape = shape_of_workload("churn:events=20000,mark_every=2000");
  const FidelityReport report = compare_shapes(shape, shape);
  CHECK(report.allocs_per_step_change == 0.0);
  CHECK(report.bytes_per_step_change == 0.0);
  CHECK(report.peak_change == 0.0);
  CHECK(report.size_overlap == Approx(1).epsilon(1e-12));
  CHECK(report.lifetime_overlap == Approx(1).epsilon(1e-12));
  CHECK(report.curve_distance == 0.0);
}

TEST_CASE("steps are the parts between marks without set-up, first and last") {
  const std::string setup = "mark,begin,0,0\nalloc,1,1000,0\n";
  const TraceShape shape = shape_of(setup + step(10, "7000") + step(20, "300") + step(30, "500") +
                                    step(40, "700") + step(50, "9000") + "mark,end,0,0\n");
  CHECK(shape.steady_step_count == 3);
  CHECK(shape.allocs_per_step == 2u);
  CHECK(shape.bytes_per_step == 600u);
  CHECK(shape.requested_bytes == 1000 + 17500 + 500);
  CHECK(shape.requested_bytes_peak == 1000 + 9000 + 100);
  CHECK(shape_of(setup + step(10, "5") + step(20, "5")).steady_step_count == 0);
  CHECK_FALSE(shape_of(setup).allocs_per_step.has_value());
}

TEST_CASE("changes are relative to the reference") {
  const std::string setup = "alloc,1,1000,0\n";
  const auto trace = [&](const std::string& size_bytes) {
    return shape_of(setup + step(10, size_bytes) + step(20, size_bytes) + step(30, size_bytes));
  };
  const FidelityReport report = compare_shapes(trace("900"), trace("1900"));
  CHECK(report.allocs_per_step_change == 0.0);
  CHECK(*report.bytes_per_step_change == Approx(1.0));
  CHECK(report.peak_change == Approx(0.5));
}

TEST_CASE("size overlap weighs requests by their bytes") {
  // Shares of the bytes: 3/4 at 300 and 1/4 at 100, against all at 100.
  const TraceShape reference = shape_of("alloc,1,300,0\nalloc,2,100,0\n");
  const TraceShape generated = shape_of("alloc,1,100,0\nalloc,2,100,0\n");
  CHECK(compare_shapes(reference, generated).size_overlap == Approx(0.25));
  // 1024 and 1100 are in one eighth of an octave, 1024 and 1160 are not.
  const auto one = [](const char* size_bytes) {
    return shape_of(std::string("alloc,1,") + size_bytes + ",0\n");
  };
  CHECK(compare_shapes(one("1024"), one("1100")).size_overlap == Approx(1.0));
  CHECK(compare_shapes(one("1024"), one("1160")).size_overlap == Approx(0.0));
  CHECK(compare_shapes(one("5"), one("6")).size_overlap == Approx(0.0));
}

TEST_CASE("lifetime overlap counts blocks by operations lived, never freed apart") {
  // Lifetimes 1, 1 and none, against 3, 1 and none.
  const TraceShape reference =
      shape_of("alloc,1,8,0\nfree,1,0,0\nalloc,2,8,0\nfree,2,0,0\nalloc,3,8,0\n");
  const TraceShape generated =
      shape_of("alloc,1,8,0\nalloc,2,8,0\nfree,2,0,0\nfree,1,0,0\nalloc,3,8,0\n");
  CHECK(compare_shapes(reference, generated).lifetime_overlap == Approx(2.0 / 3));
}

TEST_CASE("the curve distance is the mean difference in parts of the reference's peak") {
  // One block of 100 over the whole trace against one of 150.
  const FidelityReport report =
      compare_shapes(shape_of("alloc,1,100,0\n"), shape_of("alloc,1,150,0\n"));
  CHECK(report.curve_distance == Approx(0.5));
  // Live 100, then 300, each for half of the trace, against 300 all the time.
  const TraceShape rising = shape_of("alloc,1,100,0\nalloc,2,200,0\n");
  const TraceShape flat = shape_of("alloc,1,300,0\nalloc,2,0,0\n");
  CHECK(compare_shapes(rising, flat).curve_distance == Approx(1.0 / 3));
  // What was freed stays freed: 100 for the first half, which begins with nothing live.
  const TraceShape falling = shape_of("alloc,1,100,0\nfree,1,0,0\n");
  CHECK(falling.live_bytes_curve.front() == 100);
  CHECK(falling.live_bytes_curve[511] == 100);
  CHECK(falling.live_bytes_curve.back() == 0);
}

TEST_CASE("traces without memory are refused with their name") {
  const TraceShape some = shape_of("alloc,1,1,0\n");
  TraceShape none = shape_of("alloc,1,0,0\n");
  none.name = "nothing";
  CHECK(mentions(usage_error_of([&] { static_cast<void>(compare_shapes(some, none)); }),
                 "trace 'nothing'"));
  CHECK(mentions(usage_error_of([&] { static_cast<void>(compare_shapes(none, some)); }),
                 "asks for no memory"));
}

TEST_CASE("the text has one line per number") {
  const TraceShape reference = shape_of("alloc,1,100,0\n");
  const TraceShape generated = shape_of("alloc,1,150,0\n");
  const std::string text = to_text(compare_shapes(reference, generated), reference, generated);
  CHECK(mentions(text, "peak requested bytes                        100                  150"));
  CHECK(mentions(text, "+50.0000 %"));
  CHECK(mentions(text, "no steps"));
  CHECK(mentions(text, "0.5000"));
}

TEST_CASE("generated training is as near to the recordings as FIDELITY.md says") {
  struct Pair {
    std::string generated, recorded;
  };
  const Pair pairs[] = {
      {"train:gpt2-124m,batch=8,seq=1024,steps=4,attention=eager", "gpt2_train_amp"},
      {"train:gpt2-124m,batch=8,seq=1024,steps=4,checkpoint=full,attention=eager",
       "gpt2_train_ckpt"},
  };
  for (const Pair& pair : pairs) {
    INFO(pair.generated);
    const FidelityReport report =
        compare_shapes(shape_of_workload(pair.recorded), shape_of_workload(pair.generated));
    CHECK(report.peak_change == 0.0);
    REQUIRE(report.allocs_per_step_change.has_value());
    CHECK(*report.allocs_per_step_change == Approx(0).margin(0.002));
    CHECK(*report.bytes_per_step_change == Approx(0).margin(1e-9));
    CHECK(report.size_overlap > 0.9999);
    CHECK(report.lifetime_overlap > 0.98);
    CHECK(report.curve_distance < 0.01);
  }
}
