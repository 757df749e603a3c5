// Every rule of the trace format, broken once: the message must name the rule and the line. Checks,
// times nothing.
#include "workloads/trace/trace_reader.h"

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/trace/trace_row.h"
#include "workloads/trace/trace_rules.h"

using namespace allocmark;

namespace {

const std::string kHead = "op,id,size,stream\n";

// The error of reading a file with the given text to its end.
std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.csv", text);
  return usage_error_of([&] { read_all(*open_trace_file(path)); });
}

}  // namespace

TEST_CASE("a trace with every operation is read as written") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "every.ops.csv",
      "# name: all ops\n# seed: 12\n# remark without meaning\n" + kHead +
          "mark,begin,0,0\nalloc,1,512,0\nalloc,9,0,2\nrecord,1,0,2\n"
          "kernel,0,15000,2\nbusy,0,0,1\nsync,0,0,0\nfree,1,0,0\n"
          "empty_cache,0,0,0\ntrim,0,0,0\nmark,end,0,0\nhost,0,700,0\nmark,begin,0,0\n");
  const std::unique_ptr<EventSource> source = open_trace_file(path);
  CHECK(source->header().name == "all ops");
  CHECK(source->header().generator == "recorded");
  CHECK(source->header().seed == 12);

  const std::vector<Event> expected = {
      {.id = 0, .kind = EventKind::Mark},
      {.id = 1, .size_bytes = 512, .kind = EventKind::Alloc},
      {.id = 9, .size_bytes = 0, .stream = 2, .kind = EventKind::Alloc},
      {.id = 1, .stream = 2, .kind = EventKind::Record},
      {.id = 0, .size_bytes = 15000, .stream = 2, .kind = EventKind::Kernel},
      {.id = 0, .stream = 1, .kind = EventKind::Busy},
      {.id = 0, .kind = EventKind::Sync},
      {.id = 1, .kind = EventKind::Free},
      {.id = 0, .kind = EventKind::Trim},
      {.id = 0, .kind = EventKind::Trim},
      {.id = 1, .kind = EventKind::Mark},
      {.size_bytes = 700, .kind = EventKind::Host},
      {.id = 0, .kind = EventKind::Mark},
  };
  CHECK(read_all(*source) == expected);
  CHECK(source->header().stream_count == 3);
  CHECK(source->labels() == std::vector<std::string>{"begin", "end"});
  CHECK(source->next().empty());

  source->rewind();
  CHECK(read_all(*source) == expected);
}

TEST_CASE("steps of private pools are read as written") {
  const std::string text = kHead +
                           "pool_create,1,0,0\npool_no_split,1,0,0\npool_on_oom,1,1,0\n"
                           "pool_begin,1,1,0\npool_begin,7,0,3\nalloc,1,512,3\npool_end,1,0,0\n"
                           "pool_end,7,0,0\npool_release,1,0,0\npool_on_oom,1,0,0\n"
                           "pool_release,1,0,0\nempty_cache,1,0,0\npool_begin,7,0,3\n"
                           "capture_begin,7,0,3\nalloc,2,512,3\ncapture_end,7,0,3\n"
                           "pool_end,7,0,0\ngraph_replay,7,0,3\n";
  const TemporaryFolder folder;
  const std::string path = folder.write("pools.csv", text);
  const std::vector<Event> events = read_all(*open_trace_file(path));
  REQUIRE(events.size() == 18);
  CHECK(events[3] == Event{.id = 1, .size_bytes = 1, .kind = EventKind::PoolBegin});
  CHECK(events[3].all_streams());
  CHECK(events[4] == Event{.id = 7, .stream = 3, .kind = EventKind::PoolBegin});
  CHECK(events[11] == Event{.id = 1, .kind = EventKind::Trim});
  CHECK(events[13] == Event{.id = 7, .stream = 3, .kind = EventKind::CaptureBegin});
  CHECK(events[15] == Event{.id = 7, .stream = 3, .kind = EventKind::CaptureEnd});
  CHECK(events[17] == Event{.id = 7, .stream = 3, .kind = EventKind::GraphReplay});
  std::string written = kHead;
  for (const Event& event : events) append_trace_row(event, "", false, &written);
  CHECK(written == text);
}

TEST_CASE("pinned memory of the host is read as written, with ids of its own") {
  const std::string text = kHead +
                           "alloc,1,512,0\nhost_alloc,1,4096,0\nhost_record,1,0,3\nfree,1,0,0\n"
                           "host_free,1,0,0\n";
  const TemporaryFolder folder;
  const std::vector<Event> events = read_all(*open_trace_file(folder.write("host.csv", text)));
  REQUIRE(events.size() == 5);
  CHECK(events[1] == Event{.id = 1, .size_bytes = 4096, .kind = EventKind::HostAlloc});
  CHECK(events[2] == Event{.id = 1, .stream = 3, .kind = EventKind::HostRecord});
  CHECK(events[4] == Event{.id = 1, .kind = EventKind::HostFree});
  std::string written = kHead;
  for (const Event& event : events) append_trace_row(event, "", false, &written);
  CHECK(written == text);
}

TEST_CASE("tensor kinds are read from the fifth column") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "t.csv", "op,id,size,stream,tensor\nalloc,1,512,0,kv_cache\nalloc,2,512,0,\nfree,1,0,0,\n");
  const std::vector<Event> events = read_all(*open_trace_file(path));
  REQUIRE(events.size() == 3);
  CHECK(events[0].tensor == TensorKind::KvCache);
  CHECK(events[1].tensor == TensorKind::Unknown);
}

TEST_CASE("each broken rule is named with its line") {
  struct Case {
    std::string text;
    std::string line;
    std::string rule;
  };
  const std::string block = "alloc,1,512,0\n";
  const std::vector<Case> cases = {
      {"", ":1", "no header line"},
      {"# name: x\n", ":1", "no header line"},
      {"op,id,stream,size\n", ":1", "wrong header line"},
      {"# name: x\nid,op\n", ":2", "wrong header line"},
      {"CUDA out of memory\n", ":1", "allocmark why"},
      {"# seed: x1\n" + kHead, ":1", "bad value of key 'seed'"},
      {"# streams: 5000\n" + kHead, ":1", "bad stream count"},
      {kHead + block + "aloc,2,1,0\n", ":3", "unknown operation 'aloc'"},
      {kHead + block + "aloc,2,1,0\n", ":3", "did you mean 'alloc'"},
      {kHead + block + "alloc,2,1\n", ":3", "missing columns"},
      {kHead + "\n", ":2", "missing columns"},
      {kHead + block + "alloc,2,1,0,4\n", ":3", "extra columns"},
      {"op,id,size,stream,tensor\nalloc,1,512,0\n", ":2", "missing columns"},
      {"op,id,size,stream,tensor\nalloc,1,512,0,gradiant\n", ":2", "did you mean 'gradient'"},
      {"op,id,size,stream,tensor\nsync,0,0,0,gradient\n", ":2", "sync does not use column tensor"},
      {kHead + "alloc,1,-512,0\n", ":2", "size is negative"},
      {kHead + "alloc,-1,512,0\n", ":2", "id is negative"},
      {kHead + "alloc,1,18446744073709551616,0\n", ":2", "size overflows 64 bits"},
      {kHead + "alloc,99999999999999999999999,1,0\n", ":2", "id overflows 64 bits"},
      {kHead + "alloc,1,1152921504606846976,0\n", ":2", "size too large"},
      {kHead + "alloc,1,512 ,0\n", ":2", "size is not a number"},
      {kHead + "alloc,1,1.5,0\n", ":2", "size is not a number"},
      {kHead + "alloc,,512,0\n", ":2", "id is empty"},
      {kHead + "alloc,18446744073709551615,512,0\n", ":2", "reserved"},
      {kHead + "alloc,1,512,4096\n", ":2", "stream index too large"},
      {kHead + "alloc,1,512,18446744073709551615\n", ":2", "stream index too large"},
      {kHead + block + "alloc,1,16,0\n", ":3", "duplicate id 1"},
      {kHead + block + "free,1,0,0\nalloc,1,16,0\n", ":4", "duplicate id 1"},
      {kHead + "free,7,0,0\n", ":2", "free of unknown id 7"},
      {kHead + "free,1,0,0\n" + block, ":2", "Rows stand in the order in which they happened"},
      {kHead + "record,7,0,1\n", ":2", "record of unknown id 7"},
      {kHead + block + "free,1,0,0\nfree,1,0,0\n", ":4", "double free of id 1"},
      {kHead + block + "free,1,0,0\nrecord,1,0,1\n", ":4", "record after free of id 1"},
      {kHead + block + "free,1,512,0\n", ":3", "free does not use column size"},
      {kHead + block + "free,1,0,2\n", ":3", "free does not use column stream"},
      {kHead + "sync,1,0,0\n", ":2", "sync does not use column id"},
      {kHead + "mark,,0,0\n", ":2", "mark without a label"},
      {kHead + "mark," + std::string(300, 'x') + ",0,0\n", ":2", "label too long"},
      {kHead + block + "alloc,2,51", ":3", "truncated file"},
      {kHead + block + std::string(5000, 'x') + "\n", ":3", "line too long"},
      {kHead + block + std::string(3'000'000, 'x') + "\n", ":3", "line too long"},
      {"# events: 2\n" + kHead + block, ":3", "another number of events"},
      {kHead + "pool_create,0,0,0\n", ":2", "bad pool id"},
      {kHead + "pool_create,4294967296,0,0\n", ":2", "bad pool id"},
      {kHead + "pool_create,1,1,0\n", ":2", "pool_create does not use column size"},
      {kHead + "pool_begin,1,2,0\n", ":2", "bad columns of pool_begin"},
      {kHead + "pool_begin,1,1,3\n", ":2", "bad columns of pool_begin"},
      {kHead + "pool_end,1,0,0\n", ":2", "pool_end of unknown pool 1"},
      {kHead + "pool_create,1,0,0\npool_end,1,0,0\n", ":3",
       "pool_end without pool_begin of pool 1"},
      {kHead + "pool_begin,1,0,0\npool_begin,1,0,2\n", ":3", "pool_begin of pool 1 twice"},
      {kHead + "pool_begin,1,0,0\npool_begin,1,0,2\n", ":3", "one begun at 2"},
      {kHead + "pool_begin,1,0,0\n" + block, ":3", "pool_begin of pool 1 without pool_end"},
      {kHead + "pool_begin,1,0,0\n" + block, ":3", "a pool begun at 2"},
      {kHead + "pool_release,1,0,0\n", ":2", "pool_release of unknown pool 1"},
      {kHead + "pool_begin,1,1,0\npool_release,1,0,0\n", ":3",
       "pool_release of pool 1, which requests are routed to"},
      {kHead + "pool_create,1,0,0\npool_release,1,0,0\npool_release,1,0,0\n", ":4",
       "pool_release of released pool 1"},
      {kHead + "pool_create,1,0,0\npool_release,1,0,0\npool_begin,1,0,0\n", ":4",
       "pool_begin of released pool 1"},
      {kHead + "pool_create,1,0,0\npool_on_oom,1,1,0\npool_release,1,0,0\n", ":4",
       "which serves when memory is out"},
      {kHead + "pool_create,1,0,0\npool_on_oom,1,2,0\n", ":3", "bad flag of pool_on_oom"},
      {kHead + "pool_no_split,3,0,0\n", ":2", "pool_no_split of unknown pool 3"},
      {kHead + "empty_cache,3,0,0\n", ":2", "empty_cache of unknown pool 3"},
      {kHead + "capture_begin,1,0,0\n", ":2", "capture_begin of unknown pool 1"},
      {kHead + "pool_create,1,0,0\ncapture_begin,1,0,0\n", ":3",
       "capture_begin of pool 1 on stream 0"},
      {kHead + "pool_begin,1,0,2\ncapture_begin,1,0,3\n", ":3",
       "capture_begin of pool 1 on stream 3"},
      {kHead + "pool_begin,1,0,2\ncapture_begin,1,0,2\ncapture_begin,1,0,2\n", ":4",
       "capture_begin of pool 1 twice"},
      {kHead + "pool_begin,1,0,2\npool_begin,2,0,2\ncapture_begin,1,0,2\ncapture_begin,2,0,2\n",
       ":5", "capture_begin on stream 2, which is captured"},
      {kHead + "pool_begin,1,0,2\npool_begin,2,0,2\ncapture_begin,1,0,2\ncapture_begin,2,0,2\n",
       ":5", "that of pool 1, begun at 4"},
      {kHead + "pool_begin,1,1,0\ncapture_end,1,0,0\n", ":3",
       "capture_end without capture_begin of pool 1"},
      {kHead + "pool_begin,1,1,0\ncapture_begin,1,0,2\ncapture_end,1,0,0\n", ":4",
       "capture_end without capture_begin of pool 1 on stream 0"},
      {kHead + "pool_begin,1,1,0\ncapture_begin,1,0,2\npool_end,1,0,0\n", ":4",
       "pool_end of pool 1, which a graph is captured into"},
      {kHead + "pool_begin,1,1,0\ncapture_begin,1,0,2\n" + block, ":4",
       "capture_begin of pool 1 without capture_end"},
      {kHead + "pool_begin,1,1,0\npool_end,1,0,0\ngraph_replay,1,0,0\n", ":4",
       "graph_replay of pool 1, which has no graph"},
      {kHead + "pool_begin,1,1,0\ncapture_begin,1,0,2\ncapture_end,1,0,2\npool_end,1,0,0\n"
               "pool_release,1,0,0\ngraph_replay,1,0,0\n",
       ":7", "graph_replay of released pool 1"},
      {kHead + "pool_begin,1,1,0\ncapture_begin,1,7,2\n", ":3",
       "capture_begin does not use column size"},
      {kHead + "graph_replay,1,7,0\n", ":2", "graph_replay does not use column size"},
      {kHead + "host_alloc,1,4096,2\n", ":2", "host_alloc does not use column stream"},
      {kHead + "host_alloc,1,4096,0\nhost_alloc,1,4096,0\n", ":3", "duplicate id 1"},
      {kHead + "alloc,1,4096,0\nhost_free,1,0,0\n", ":3", "free of unknown id 1"},
      {kHead + "host_alloc,1,4096,0\nhost_free,1,0,0\nhost_record,1,0,0\n", ":4",
       "record after free of id 1"},
      {kHead + "host_alloc,1,1152921504606846976,0\n", ":2", "size too large"},
      {"# hash: 123abc\n" + kHead + block, ":3", "the head promises other events"},
  };
  for (const Case& item : cases) {
    INFO(item.text.substr(0, 200));
    const std::string error = error_of(item.text);
    CHECK(mentions(error, "t.csv" + item.line + ": "));
    CHECK(mentions(error, item.rule));
  }
}

TEST_CASE("a size of zero and lines that end in CR LF are valid") {
  CHECK(error_of("op,id,size,stream\r\nalloc,1,0,0\r\nfree,1,0,0\r\n") == "no error");
}

TEST_CASE("the sizes and streams at the limit are valid") {
  CHECK(error_of(kHead + "alloc,18446744073709551614,1152921504606846975,4095\n") == "no error");
}

TEST_CASE("a file that does not exist is named") {
  try {
    static_cast<void>(open_trace_file("/does/not/exist.csv"));
    FAIL("opened");
  } catch (const FileError& error) {
    CHECK(mentions(error.what(), "/does/not/exist.csv: cannot read this file as a trace"));
  }
}

TEST_CASE("freed ids are told from unknown ones whatever their order") {
  SeenIds seen;
  for (const std::uint64_t id : {5u, 7u, 6u, 1u, 100u}) seen.insert(id);
  for (const std::uint64_t id : {1u, 5u, 6u, 7u, 100u}) CHECK(seen.contains(id));
  for (const std::uint64_t id : {0u, 2u, 4u, 8u, 99u, 101u}) CHECK_FALSE(seen.contains(id));
}

TEST_CASE("the trace file in TRACES.md is valid, its hash included") {
  const std::string manual = read_file("workloads/TRACES.md");
  const std::size_t begin = manual.find("# name: example");
  REQUIRE(begin != std::string::npos);
  const std::string example = manual.substr(begin, manual.find("```", begin) - begin);
  CHECK(error_of(example) == "no error");
}

TEST_CASE("a file with a changed byte is read or refused, never worse") {
  std::string whole = "# name: x\n# seed: 4\nop,id,size,stream,tensor\n";
  for (int i = 1; i <= 20; ++i) {
    whole +=
        "alloc," + std::to_string(i) + ",512,0,gradient\nrecord," + std::to_string(i) + ",0,1,\n";
  }
  const TemporaryFolder folder;
  Random random(11);
  int refused_count = 0;
  for (int round = 0; round < 500; ++round) {
    std::string text = whole;
    text[random.below(text.size())] = static_cast<char>(random.below(256));
    const std::string path = folder.write("t.csv", text);
    refused_count +=
        usage_error_of([&] { read_all(*open_trace_file(path)); }) != "no error" ? 1 : 0;
  }
  CHECK(refused_count > 250);
}

TEST_CASE("a trace that scripts/record/record_pytorch.py wrote keeps every rule") {
  const std::unique_ptr<EventSource> source =
      open_trace_file("tests/golden/workloads/recorded_by_hand.ops.csv");
  CHECK(read_all(*source).size() == 9);
  CHECK(source->header().name == "by_hand");
  CHECK(source->header().stream_count == 2);
  CHECK(source->labels() == std::vector<std::string>{"begin", "step0"});
}
