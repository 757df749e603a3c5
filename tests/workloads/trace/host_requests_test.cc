// Goal: what a workload asks of the host becomes requests of their own, and nothing else is left.
#include "workloads/trace/host_requests.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/trace/trace_reader.h"

using namespace allocmark;

namespace {

struct Row {
  EventKind kind;
  std::uint64_t id;
  std::uint64_t size_bytes;
  std::uint32_t stream;
  bool operator==(const Row&) const = default;
};

std::vector<Row> rows_of(EventSource& source) {
  std::vector<Row> rows;
  for (auto batch = source.next(); !batch.empty(); batch = source.next())
    for (const Event& event : batch)
      rows.push_back({event.kind, event.id, event.size_bytes, event.stream});
  return rows;
}

}  // namespace

TEST_CASE("requests of the host replace those of the device, beside the same work") {
  const TemporaryFolder folder;
  std::unique_ptr<EventSource> source = open_trace_file(folder.write("t.csv",
                                                                     "op,id,size,stream,tensor\n"
                                                                     "alloc,7,512,1,\n"
                                                                     "host_alloc,7,4096,0,\n"
                                                                     "kernel,0,1000,1,\n"
                                                                     "host_record,7,0,1,\n"
                                                                     "trim,0,0,0,\n"
                                                                     "free,7,0,0,\n"
                                                                     "sync,0,0,0,\n"
                                                                     "host_free,7,0,0,\n"));
  REQUIRE(has_host_requests(*source));
  const std::unique_ptr<EventSource> host = host_requests_of(std::move(source));
  const std::vector<Row> wanted = {{EventKind::Alloc, 7, 4096, 0},
                                   {EventKind::Kernel, 0, 1000, 1},
                                   {EventKind::Record, 7, 0, 1},
                                   {EventKind::Sync, 0, 0, 0},
                                   {EventKind::Free, 7, 0, 0}};
  CHECK(rows_of(*host) == wanted);
  host->rewind();
  CHECK(rows_of(*host) == wanted);
}

TEST_CASE("a workload of the device alone has no requests of the host") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> source = open_trace_file(
      folder.write("t.csv", "op,id,size,stream,tensor\nalloc,1,512,0,\nfree,1,0,0,\n"));
  CHECK_FALSE(has_host_requests(*source));
  CHECK(rows_of(*source).size() == 2);
}
