// Goal: a process that is handed a trace replays what the trace's own process would. Method: both
// ends in one process, on one file; steps and facts are held against those of the source itself.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/job/handed_file.h"
#include "tests/catch.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

// Batches of two events.
class FewAtOnce final : public EventSource {
 public:
  explicit FewAtOnce(std::vector<Event> events) : events_(std::move(events)) {}

  std::span<const Event> next() override {
    const std::span<const Event> rest = std::span(events_).subspan(at_);
    const std::span<const Event> batch = rest.first(std::min<std::size_t>(rest.size(), 2));
    at_ += batch.size();
    return batch;
  }
  void rewind() override { at_ = 0; }
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return labels_; }

 private:
  std::vector<Event> events_;
  std::size_t at_ = 0;
  TraceHeader header_{.name = "few", .generator = "recorded"};
  std::vector<std::string> labels_{"begin"};
};

std::vector<ReplayStep> steps_of(PreparedTrace& trace) {
  std::vector<ReplayStep> steps;
  trace.for_each_step_batch([&](const TraceBatch& batch) {
    steps.insert(steps.end(), batch.steps.begin(), batch.steps.end());
    return true;
  });
  return steps;
}

TEST_CASE("a process is handed a trace as steps, and two that use them do not disturb each other") {
  const auto source = [] { return open_workload("churn:events=9000,live_bytes=1MiB", 1); };
  PreparedTrace wanted(source());
  const HandedFile file;
  const TraceHeader header = PreparedTrace::write(source(), file.fd());
  CHECK(header == wanted.header());
  PreparedTrace one(file.fd(), header);
  PreparedTrace other(file.fd(), header);
  CHECK(one.is_kept());
  CHECK(one.hash() == wanted.hash());
  CHECK(one.name() == wanted.name());
  CHECK(one.facts().event_count == wanted.facts().event_count);
  CHECK(one.facts().requested_bytes_peak == wanted.facts().requested_bytes_peak);
  CHECK(one.prefix(7).steps.size() == 7);
  CHECK(one.prefix(7).slot_count == wanted.prefix(7).slot_count);
  for (int pass = 0; pass < 2; ++pass) {
    CHECK(steps_of(one) == steps_of(wanted));
    CHECK(steps_of(other) == steps_of(wanted));
  }
}

TEST_CASE("the steps of a trace that is read twice are those of the second reading") {
  const std::vector<Event> events{
      {.kind = EventKind::Mark},
      {.id = 1, .size_bytes = 512, .kind = EventKind::Alloc},
      {.id = 1, .kind = EventKind::Free},
      {.id = 2, .size_bytes = 4096, .kind = EventKind::Alloc, .tensor = TensorKind::Failed},
      {.id = 2, .kind = EventKind::Free}};
  PreparedTrace wanted(std::make_unique<FewAtOnce>(events));
  const HandedFile file;
  PreparedTrace handed(file.fd(),
                       PreparedTrace::write(std::make_unique<FewAtOnce>(events), file.fd()));
  const std::vector<ReplayStep> steps = steps_of(handed);
  REQUIRE(steps.size() == 5);
  CHECK_FALSE(steps[3].failed_before());  // the program ended with it
  CHECK(steps == steps_of(wanted));
  CHECK(handed.facts().allocate_count == 2);
}

TEST_CASE("a handed trace that was cut is refused") {
  const HandedFile file;
  CHECK_THROWS_AS(PreparedTrace(file.fd(), TraceHeader{}), FileError);
  const TraceHeader header =
      PreparedTrace::write(open_workload("churn:events=90,live_bytes=1MiB", 1), file.fd());
  const PreparedTrace whole(file.fd(), header);
  const off_t end_bytes = lseek(file.fd(), 0, SEEK_END);
  REQUIRE(ftruncate(file.fd(), end_bytes - 1) == 0);
  CHECK_THROWS_AS(PreparedTrace(file.fd(), header), FileError);
}

}  // namespace
}  // namespace allocmark
