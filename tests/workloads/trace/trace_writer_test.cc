// What is written reads back equal, in every packing, and packed files that were cut are noticed.
#include "workloads/trace/trace_writer.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/trace/trace_hash.h"
#include "workloads/trace/trace_reader.h"

using namespace allocmark;

namespace {

// 30,000 rows, so that buffers and batches are crossed.
std::string long_trace() {
  std::string text = "# name: long\n# seed: 3\nop,id,size,stream,tensor\nmark,begin,0,0,\n";
  for (int i = 1; i <= 15'000; ++i) {
    text += "alloc," + std::to_string(i) + "," + std::to_string(i * 512) + "," +
            std::to_string(i % 3) + ",gradient\n";
    text += "free," + std::to_string(i) + ",0,0,\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a trace reads back equal after being written plain, as gzip and as zstd") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> original =
      open_trace_file(folder.write("long.csv", long_trace()));
  const std::vector<Event> events = read_all(*original);
  REQUIRE(events.size() == 30'001);
  for (const std::string_view suffix : {".csv", ".csv.gz", ".csv.zst"}) {
    INFO(suffix);
    const std::string path = folder.file("copy" + std::string(suffix));
    CHECK(write_trace_file(path, *original) == 30'001);
    const std::unique_ptr<EventSource> copy = open_trace_file(path);
    CHECK(copy->header().name == "long");
    CHECK(copy->header().seed == 3);
    CHECK(copy->header().stream_count == 3);
    CHECK(read_all(*copy) == events);
    copy->rewind();
    CHECK(read_all(*copy) == events);
    CHECK_FALSE(std::filesystem::exists(path + ".part"));
  }
}

TEST_CASE("a written trace is exactly this text") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> source = open_trace_file(
      folder.write("a.csv", "op,id,size,stream\nmark,go,0,0\nalloc,1,512,1\ntrim,0,0,0\n"));
  write_trace_file(folder.file("b.csv"), *source);
  CHECK(read_file(folder.file("b.csv")) ==
        "# name: a\n# generator: recorded\n# seed: 0\n# streams: 2\n# events: 3\n# hash: "
        "8ff2f1f5324fa67b\n"
        "op,id,size,stream\nmark,go,0,0\nalloc,1,512,1\nempty_cache,0,0,0\n");
}

TEST_CASE("what a job says of itself survives a trace file") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> source = open_trace_file(
      folder.write("job.csv",
                   "# torch: 2.10.0+cu128\n# forbids: expandable_segments it sleeps\n"
                   "# forbids: backend\nop,id,size,stream\nalloc,1,512,0\n"));
  const std::string copy = folder.path() + "/copy.csv";
  write_trace_file(copy, *source);
  const std::unique_ptr<EventSource> read = open_trace_file(copy);
  CHECK(read->header().pytorch == "2.10.0+cu128");
  CHECK(read->header().forbids ==
        std::vector<ForbiddenKey>{{.key = "expandable_segments", .why = "it sleeps"},
                                  {.key = "backend", .why = ""}});
}

TEST_CASE("a cut gzip or zstd file is truncated, wherever it was cut") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> original =
      open_trace_file(folder.write("long.csv", long_trace()));
  for (const std::string_view suffix : {".csv.gz", ".csv.zst"}) {
    const std::string whole_path = folder.file("whole" + std::string(suffix));
    write_trace_file(whole_path, *original);
    const std::string whole = read_file(whole_path);
    for (const std::size_t cut : {whole.size() - 1, whole.size() / 2, std::size_t{20}}) {
      INFO(suffix << " cut to " << cut << " of " << whole.size());
      const std::string path = folder.write("cut" + std::string(suffix), whole.substr(0, cut));
      const std::string error = usage_error_of([&] { read_all(*open_trace_file(path)); });
      CHECK(mentions(error, "truncated or damaged file"));
      CHECK(mentions(error, "end in mid-stream"));
    }
    std::string damaged = whole;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
    const std::string path = folder.write("damaged" + std::string(suffix), damaged);
    CHECK(usage_error_of([&] { read_all(*open_trace_file(path)); }) != "no error");
  }
}

TEST_CASE("a zstd file that would take too much memory is not called damaged") {
  const TemporaryFolder folder;
  const std::string text = "op,id,size,stream\nalloc,1,512,0\n";
  // A frame of one raw block; its second byte after the magic number is the window.
  const auto frame = [&](unsigned window_log) {
    const auto block = static_cast<char>(text.size() % 32 * 8 + 1);
    return std::string("\x28\xB5\x2F\xFD\0", 5) + static_cast<char>((window_log - 10) * 8) + block +
           static_cast<char>(text.size() / 32) + std::string(1, '\0') + text;
  };
  const std::string path = folder.write("fits.csv.zst", frame(26));
  CHECK(read_all(*open_trace_file(path)).size() == 1);
  const std::string large = folder.write("large.csv.zst", frame(27));
  const std::string error = usage_error_of([&] { read_all(*open_trace_file(large)); });
  CHECK(mentions(error, "a window of more than 64 MiB"));
  CHECK_FALSE(mentions(error, "the zstd data are damaged"));
}

TEST_CASE("a file's first bytes say how it is packed, whatever its name says") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> original =
      open_trace_file(folder.write("long.csv", long_trace()));
  write_trace_file(folder.file("x.csv.gz"), *original);
  std::filesystem::rename(folder.file("x.csv.gz"), folder.file("y.csv"));
  original->rewind();
  CHECK((read_all(*open_trace_file(folder.file("y.csv"))) == read_all(*original)));
  std::filesystem::rename(folder.file("long.csv"), folder.file("plain.csv.zst"));
  CHECK(read_all(*open_trace_file(folder.file("plain.csv.zst"))).size() > 1);
}

TEST_CASE("an unfinished writer leaves no file") {
  const TemporaryFolder folder;
  {
    TraceWriter writer(folder.file("a.csv"), TraceHeader{}, TraceWriterOptions{});
    writer.write({.id = 1, .size_bytes = 512, .kind = EventKind::Alloc}, "");
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("a.csv")));
  CHECK_FALSE(std::filesystem::exists(folder.file("a.csv.part")));
}

TEST_CASE("a full disk is an environment error") {
  if (!std::filesystem::exists("/dev/full")) return;
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.file("a.csv"));
  TraceWriter writer(folder.file("a.csv"), TraceHeader{}, TraceWriterOptions{});
  CHECK_THROWS_AS(writer.finish(), FileError);
}

TEST_CASE("the hash tells apart every field and does not depend on label numbering") {
  const auto hash_of = [](const Event& event, std::string_view label) {
    TraceHash hash;
    hash.add(event, label);
    return hash.value();
  };
  const Event base{.id = 1, .size_bytes = 512, .stream = 0, .kind = EventKind::Alloc};
  Event other = base;
  other.id = 2;
  CHECK(hash_of(base, "") != hash_of(other, ""));
  other = base;
  other.size_bytes = 513;
  CHECK(hash_of(base, "") != hash_of(other, ""));
  other = base;
  other.stream = 1;
  CHECK(hash_of(base, "") != hash_of(other, ""));
  other = base;
  other.tensor = TensorKind::Gradient;
  CHECK(hash_of(base, "") != hash_of(other, ""));
  const Event mark{.id = 4, .kind = EventKind::Mark};
  const Event renumbered{.id = 0, .kind = EventKind::Mark};
  CHECK(hash_of(mark, "step") == hash_of(renumbered, "step"));
  CHECK(hash_of(mark, "step") != hash_of(mark, "stop"));
}
