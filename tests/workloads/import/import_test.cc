// Recordings of other tools: what each format comes to, and what is refused with which words.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/recording.h"
#include "workloads/trace/summary.h"

namespace allocmark {
namespace {

using namespace std::string_literals;

std::string write(const TemporaryFolder& folder, const std::string& bytes) {
  const std::string path = folder.path("recording");
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::vector<Event> events_of(const Recording& recording) {
  std::vector<Event> events;
  for (auto batch = recording.events->next(); !batch.empty(); batch = recording.events->next())
    events.insert(events.end(), batch.begin(), batch.end());
  return events;
}

// The whole message of the refusal; empty where the file was read.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  try {
    static_cast<void>(events_of(open_recording(write(folder, bytes))));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

const std::string kRmmHeader = "Thread,Time,Action,Pointer,Size,Stream\n";

}  // namespace

TEST_CASE("an RMM log becomes requests and frees with stream indexes") {
  const TemporaryFolder folder;
  const Recording recording = open_recording(
      write(folder, kRmmHeader + "7,10:00:00:1,allocate,0x7f0100,1000,0x0\n"
                                 "7,10:00:00:2,allocate,0x7f0200,7,0x55aa\n"
                                 "7,10:00:00:3,allocate failure,(nil),5000000,0x55aa\n"
                                 "7,10:00:00:4,free,0x7f0100,1000,0x0\n"
                                 "7,10:00:00:5,free,0x7f9900,1,0x0\n"));
  const std::vector<Event> expected = {
      {.id = 1, .size_bytes = 1000, .kind = EventKind::Alloc},
      {.id = 2, .size_bytes = 7, .stream = 1, .kind = EventKind::Alloc},
      {.id = 3,
       .size_bytes = 5000000,
       .stream = 1,
       .kind = EventKind::Alloc,
       .tensor = TensorKind::Failed},
      {.id = 3, .kind = EventKind::Free},
      {.id = 1, .kind = EventKind::Free}};
  CHECK(events_of(recording) == expected);
  CHECK(recording.events->header().stream_count == 2);
  CHECK(recording.notes.size() == 2);
  recording.events->rewind();
  CHECK(summarize(*recording.events).requested_bytes_peak == 1007);
}

TEST_CASE("in a log a null pointer is a request that failed, and its free is nobody's") {
  const TemporaryFolder folder;
  const Recording rmm =
      open_recording(write(folder, kRmmHeader + "7,10:00:00:1,allocate,0x7f0100,1000,0x0\n"
                                                "7,10:00:00:2,allocate,(nil),7000,0x0\n"
                                                "7,10:00:00:3,allocate,(nil),0,0x0\n"
                                                "7,10:00:00:4,allocate,0x0,0,0x0\n"
                                                "7,10:00:00:5,free,(nil),7000,0x0\n"));
  const TraceSummary summary = summarize(*rmm.events);
  CHECK(summary.requested_bytes_peak == 1000);
  CHECK(summary.failed_count == 1);
  CHECK(summary.event_count == 3);
  REQUIRE(rmm.notes.size() == 1);
  has(rmm.notes[0], "1 request failed while recording");
  const Recording stalloc =
      open_recording(write(folder, "1 0x7f0100 1000 0x0\n1 0x0 7000 0x0\n0 0x0 7000 0x0\n"));
  CHECK(summarize(*stalloc.events).requested_bytes_peak == 1000);
  has(stalloc.notes.at(0), "1 request failed while recording");
}

TEST_CASE("an RMM log of two processes is refused, and how to record it right is said") {
  const std::string row = "7,10:00:00:1,allocate,0x7f0100,1000,0x0\n";
  has(refusal(kRmmHeader + row + row), "is allocated twice");
  has(refusal(kRmmHeader + row + kRmmHeader), "two processes wrote into one file");
  has(refusal(kRmmHeader + row + kRmmHeader), "a name that holds the process id");
}

TEST_CASE("a pointer freed twice in an RMM log is named with both lines") {
  const std::string allocate = "7,10:00:00:1,allocate,0x7f0100,1000,0x0\n";
  const std::string free = "7,10:00:00:2,free,0x7f0100,1000,0x0\n";
  const std::string twice = refusal(kRmmHeader + allocate + free + allocate + free + free);
  has(twice, "recording:6");
  has(twice, "0x7f0100 is freed twice");
  has(twice, "line 5");
  // Also where its allocate came before the log.
  has(refusal(kRmmHeader + free + free), "is freed twice");
}

TEST_CASE("blocks of an RMM log that another stream frees are counted in a note") {
  const TemporaryFolder folder;
  const Recording recording =
      open_recording(write(folder, kRmmHeader + "7,10:00:00:1,allocate,0x7f0100,1000,0x20\n"
                                                "7,10:00:00:2,allocate,0x7f0800,1000,0x20\n"
                                                "7,10:00:00:3,free,0x7f0100,1000,0x30\n"
                                                "7,10:00:00:4,free,0x7f0800,1000,0x20\n"));
  REQUIRE(recording.notes.size() == 1);
  has(recording.notes[0], "1 blocks were freed on another stream");
}

TEST_CASE("rows of an RMM log's threads run in the order of the log, and a note counts them") {
  const TemporaryFolder folder;
  const Recording recording =
      open_recording(write(folder, kRmmHeader + "7,10:00:00:1,allocate,0x7f0100,1000,0x0\n"
                                                "9,10:00:00:2,allocate,0x7f0200,20,0x0\n"
                                                "9,10:00:00:3,free,0x7f0100,1000,0x0\n"));
  CHECK(events_of(recording).size() == 3);
  REQUIRE(recording.notes.size() == 1);
  has(recording.notes[0], "rows of 2 threads");
}

TEST_CASE("broken RMM rows are named with their line") {
  has(refusal(kRmmHeader + "7,10:00:00:1,allocate,0x7f0100,1000\n"), "recording:2");
  has(refusal(kRmmHeader + "7,10:00:00:1,allocate,0x7f0100,many,0x0\n"), "'many'");
  has(refusal(kRmmHeader + "7,10:00:00:1,resize,0x7f0100,1,0x0\n"), "'resize'");
  has(refusal("Thread,Time,Action,Pointer,Bytes\n"), "'Size'");
}

TEST_CASE("a STAlloc log becomes requests, frees and marks") {
  const TemporaryFolder folder;
  const Recording recording = open_recording(
      write(folder, "1 140000000 512 0\nforward 3\n1 140001000 4096 94000\n0 140000000 512 0\n"));
  const std::vector<Event> events = events_of(recording);
  REQUIRE(events.size() == 4);
  CHECK(events[1].kind == EventKind::Mark);
  CHECK(recording.events->labels().at(0) == "forward 3");
  CHECK(events[2] == Event{.id = 2, .size_bytes = 4096, .stream = 1, .kind = EventKind::Alloc});
  CHECK(events[3] == Event{.id = 1, .kind = EventKind::Free});
  has(refusal("1 5 512 0\n1 5 512 0\n"), "allocated twice");
}

TEST_CASE("an Nsight Systems table as CSV is read in the order of time, without host memory") {
  const std::string header =
      "start,globalPid,deviceId,streamId,address,bytes,memKind,memoryOperationType\n";
  const TemporaryFolder folder;
  const Recording recording = open_recording(
      write(folder, header + "30,9,0,7,4096,512,2,1\n10,9,0,7,4096,512,2,0\n5,9,0,7,64,100,1,0\n"));
  const std::vector<Event> expected = {
      {.id = 1, .size_bytes = 512, .stream = 1, .kind = EventKind::Alloc},
      {.id = 1, .kind = EventKind::Free}};
  CHECK(events_of(recording) == expected);
  has(refusal(header + "1,9,0,7,4096,512,2,0\n2,8,0,7,8192,512,2,0\n"), "several processes");
  has(refusal(header + "5,9,0,7,64,100,1,0\n"), "no operation on device memory");
}

TEST_CASE("pickles that name or run code are refused by opcode and offset") {
  // cos\nsystem\n(S'id'\ntR. as protocol 2
  has(refusal("\x80\x02"
              "cos\nsystem\nX\x02\0\0\0id\x85R."s),
      "GLOBAL (0x63)");
  has(refusal("\x80\x02"
              "cos\nsystem\nX\x02\0\0\0id\x85R."s),
      "byte 2");
  has(refusal("\x80\x04}X\x01\0\0\0aX\x01\0\0\0b\x93."s), "STACK_GLOBAL (0x93)");
  has(refusal("\x80\x02})R."s), "REDUCE (0x52)");
  has(refusal("\x80\x02}}b."s), "BUILD (0x62)");
  has(refusal("\x80\x02})\x81."s), "NEWOBJ (0x81)");
  has(refusal("\x80\x02K\x01Q."s), "BINPERSID (0x51)");
  has(refusal("\x80\x02\x82\x01."s), "EXT1 (0x82)");
  has(refusal("\x80\x05\x96\x01\0\0\0\0\0\0\0a."s), "BYTEARRAY8 (0x96)");
  has(refusal("\x80\x05\x97."s), "NEXT_BUFFER (0x97)");
  has(refusal("\x80\x02\xff."s), "0xff, which is none");
  has(refusal("\x80\x02"
              "cos\nsystem\n."s),
      "nothing was run");
}

TEST_CASE("pickles that are cut, nested, or fill the memory are refused") {
  has(refusal("\x80\x04}"s), "cut short");
  has(refusal("\x80\x04}\x8c\x05"
              "ab"s),
      "cut short");
  has(refusal("\x80\x04" + std::string(100, '(')), "nested too deeply");
  has(refusal("\x80\x04}r\xff\xff\xff\x7f."s), "memo has gaps");
  has(refusal("\x80\x04h\x05."s), "where nothing was put");
  has(refusal("\x80\x04X\xff\xff\xff\x7f"
              "ab"s),
      "too long");
  has(refusal("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"s), "too long");
  has(refusal("\x80\x04\x8a\x20" + std::string(32, 'a') + "."), "number is too large");
  has(refusal("\x80\x04u."s), "needs a mark");
  has(refusal("\x80\x04."s), "the stack has none");
  has(refusal("\x80\x04K\x01(K\x02"
              "e."s),
      "no list");
  has(refusal("\x80\x04](K\x02K\x03u."s), "no dictionary");
}

TEST_CASE("a long list that is written in one piece is read as one that is written in pieces") {
  const std::string entry =
      "}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrM\0\x02u(X\x04\0\0\0sizeM\0\x04u"s;
  std::string entries;
  for (int i = 0; i < 3000; ++i) entries += entry;
  const std::string before = "\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]("s;
  const TemporaryFolder folder;
  const MemorySnapshot whole =
      read_memory_snapshot(write(folder, before + "](" + entries + "eeu."));
  REQUIRE(whole.entry_count(0) == 3000);
  for (const SnapshotEntry& each : whole.entries) REQUIRE(each.size_bytes == 0x400);
  const MemorySnapshot pieces =
      read_memory_snapshot(write(folder, before + "](" + entries + "e(" + entries + "eeu."));
  CHECK(pieces.entry_count(0) == 6000);
  // The values would be in the list, and in the tuple again.
  has(refusal(before + "](" + entries + "teu."), "a long list has no end");
  has(refusal(before + "](" + entries + "u."), "no dictionary");
}

TEST_CASE("what is no snapshot is named") {
  has(refusal("\x80\x04}."s), "an empty dictionary");
  has(refusal("\x80\x04]."s), "not a memory snapshot");
  has(refusal("(dp0\nS'segments'\np1\n(lp2\ns."), "protocol 0 or 1");
  has(refusal("PK\x03\x04zzzz"), "a zip file");
  has(refusal("\x80\x04}(X\x08\0\0\0segments]u."s), "without history");
  has(refusal("\x80\x04}(X\x08\0\0\0segments]u."s), "_record_memory_history");
}

TEST_CASE("an address of 9 bytes and a negative number are read") {
  // {'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 2^63, 'size': 512, 'stream':
  // -1}]]}
  const std::string entry =
      "}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addr\x8a\x09\0\0\0\0\0\0\0\x80\0"
      "X\x04\0\0\0sizeM\0\x02X\x06\0\0\0stream\x8a\x01\xffu"s;
  const TemporaryFolder folder;
  const MemorySnapshot snapshot = read_memory_snapshot(write(
      folder, "\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](]("s + entry + "eeu."s));
  REQUIRE(snapshot.entry_count(0) == 1);
  CHECK(snapshot.entries[0].address == std::uint64_t{1} << 63);
  CHECK(snapshot.streams.at(snapshot.entries[0].stream) == ~std::uint64_t{0});
}

TEST_CASE("a full ring, earlier blocks, late frees and pools are told") {
  const auto notes = [](const std::string& name) {
    std::string all;
    for (const std::string& note :
         open_recording("tests/golden/snapshots/" + name + ".pickle.gz").notes)
      all += note + "\n";
    return all;
  };
  has(notes("overflowed"), "3000 entries, a round number");
  has(notes("train_attached"), "blocks were live before the history begins");
  has(notes("streams_recorded"),
      "375 blocks were given back while another stream used them, up to 422 MiB at a time");
  has(notes("streams_recorded"), "count as live until then");
  has(notes("train_oom"), "1 request failed");
  CHECK(notes("expandable_train").empty());
}

TEST_CASE("a recording says how many requests failed in it") {
  CHECK(open_recording("tests/golden/snapshots/train_oom.pickle.gz").failed_count == 1);
  CHECK(open_recording("tests/golden/snapshots/expandable_train.pickle.gz").failed_count == 0);
}

}  // namespace allocmark
