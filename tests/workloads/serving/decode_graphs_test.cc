// Goal: a server's graphs have the sizes and pools that were asked for, and serve what they hold.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/serving/decode_graphs.h"

using namespace allocmark;

TEST_CASE("graphs are captured at the start, and decode steps then ask for logits alone") {
  CHECK(graph_batches({}).empty());
  CHECK(graph_batches({.pools = GraphPools::Shared, .batch_max = 20}) ==
        std::vector<std::uint64_t>({16, 8, 4, 2, 1}));
  const std::vector<std::uint64_t> many =
      graph_batches({.pools = GraphPools::Own, .smallest_first = true, .batch_max = 512});
  CHECK(many.size() == 51);
  CHECK(std::vector(many.end() - 18, many.end() - 15) ==
        std::vector<std::uint64_t>({248, 256, 272}));
  for (const bool shared : {true, false}) {
    const std::unique_ptr<EventSource> source = open_workload(
        std::string("serve:llama-3-8b,layers=2,requests=3,batch=4,graph_order=ascending,") +
            "per_minute=60000,context_max=40,generated_max=90,graphs=" +
            (shared ? "shared" : "own"),
        3);
    std::uint64_t begun = 0, released = 0, captured = 0, in_pool = 0, replayed = 0, eager = 0;
    std::uint64_t in_capture = 0, replays = 0;
    std::uint64_t mlp_bytes = 0, requests_in_step = 0;
    bool is_capturing = false, serves = false;
    for (const Event& event : read_all(*source)) {
      if (event.kind == EventKind::PoolBegin) {
        CHECK(event.id == (shared ? 1 : begun + 1));
        ++begun;
        is_capturing = true;
        mlp_bytes = 0;
      }
      if (event.kind == EventKind::PoolEnd) {
        is_capturing = false;
        // Graphs of 1, 2, 4 and 8 tokens: the widest tensor is both halves of the inner layer.
        CHECK(mlp_bytes == (std::uint64_t{1} << captured) * 2 * 14'336 * 2);
        ++captured;
      }
      released += event.kind == EventKind::PoolRelease;
      in_capture += event.kind == EventKind::CaptureBegin;
      in_capture -= event.kind == EventKind::CaptureEnd;
      const bool is_edge =
          event.kind == EventKind::PoolBegin || event.kind == EventKind::CaptureEnd;
      CHECK((in_capture == 1) == (is_capturing && !is_edge));
      replays += event.kind == EventKind::GraphReplay;
      if (event.kind == EventKind::Alloc && is_capturing) {
        ++in_pool;
        mlp_bytes = std::max(mlp_bytes, event.size_bytes);
      }
      if (event.kind == EventKind::Mark && serves) {
        // Logits and choice are six tensors; an eager step makes twelve more for its layers.
        if (requests_in_step == 6) ++replayed;
        if (requests_in_step > 6) ++eager;
        requests_in_step = 0;
      }
      if (event.kind == EventKind::Mark && source->labels()[event.id] == "server_start")
        serves = true;
      if (event.kind == EventKind::Alloc && serves) ++requests_in_step;
    }
    CHECK(begun == 4);
    CHECK(captured == 4);
    CHECK(released == 4);
    CHECK(in_pool == 4 * (2 + 2 * 6));
    CHECK(eager >= 1);
    CHECK(replayed > eager);
    CHECK(replays == replayed);
  }
}
