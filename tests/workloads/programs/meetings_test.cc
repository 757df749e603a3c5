// Goal: marks of meetings stand where collective operations do and change nothing else, have the
// names that all who meet share, and are read from files with bytes and stream. Method: generated
// jobs of a few layers, and rows with the columns filled right and wrong.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/catch.h"
#include "workloads/open_workload.h"
#include "workloads/trace/request_marks.h"
#include "workloads/trace/trace_row.h"

namespace allocmark {
namespace {

struct Read {
  std::vector<Event> events;              // without meetings
  std::map<std::string, int> meetings;    // by label
  std::vector<std::string> sends, takes;  // in order, with their bytes
};

Read read(const std::string& workload) {
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  Read read;
  for (auto batch = source->next(); !batch.empty(); batch = source->next()) {
    for (Event event : batch) {
      if (event.kind != EventKind::Mark) {
        read.events.push_back(event);
        continue;
      }
      const std::string label = source->labels()[event.id];
      const MarkClass mark_class = mark_class_of(label);
      if (!is_meeting(mark_class)) continue;
      ++read.meetings[label];
      const std::string what =
          std::string(meeting_name(label)) + " " + std::to_string(event.size_bytes);
      if (mark_class == MarkClass::Send) read.sends.push_back(what);
      if (mark_class == MarkClass::Receive) read.takes.push_back(what);
    }
  }
  return read;
}

std::vector<std::string> labels_of(const Read& read) {
  std::vector<std::string> labels;
  for (const auto& [label, count] : read.meetings) labels.push_back(label);
  return labels;
}

std::string reason(const std::string& row) {
  Event event;
  std::string_view label;
  const std::optional<ErrorText> error = parse_trace_row(row, 4, &event, &label);
  return error ? error->what : "read";
}

}  // namespace

TEST_CASE("meetings change no other event, and say who meets") {
  const std::string job = "train:llama-3-8b,layers=2,batch=1,seq=128,steps=1,tp=2,dp=2,rank=";
  for (const char* const rank : {"0", "1", "3"}) {
    CHECK(read(job + rank + ",collectives=1").events == read(job + rank).events);
    CHECK(read(job + rank).meetings.empty());
  }
  const std::vector<std::string> first = {"collective:data0", "collective:tensor0"};
  const std::vector<std::string> last = {"collective:data1", "collective:tensor1"};
  CHECK(labels_of(read(job + "0,collectives=1")) == first);
  CHECK(labels_of(read(job + "3,collectives=1")) == last);
  CHECK_THROWS_AS(open_workload("train:gpt2-124m,collectives=1", 1), UsageError);
}

TEST_CASE(
    "ranks that share sequences meet for keys and values, and with all others for parameters") {
  const std::string job =
      "train:llama-3-8b,layers=2,batch=1,seq=128,steps=1,precision=bf16,cp=2,dp=2,tp=2,rank=";
  const Read first = read(job + "0,collectives=1");
  CHECK(first.events == read(job + "0").events);
  CHECK(labels_of(first) ==
        std::vector<std::string>{"collective:context0", "collective:data0", "collective:tensor0"});
  // Per block: keys and values once in each direction, their gradients twice.
  CHECK(first.meetings.at("collective:context0") == 2 * (1 + 1 + 2));
  const Read last = read(job + "7,collectives=1");
  CHECK(labels_of(last) ==
        std::vector<std::string>{"collective:context3", "collective:data1", "collective:tensor3"});
  // The tensor parallel neighbour meets others for its heads, the rank with other tokens the same.
  CHECK(read(job + "1,collectives=1").meetings.count("collective:context1") == 1);
  CHECK(read(job + "2,collectives=1").meetings.count("collective:context0") == 1);
  CHECK(read(job + "4,collectives=1").meetings.count("collective:context2") == 1);
}

TEST_CASE("ranks that infer meet after attention, after the MLP and for the words") {
  for (const char* const model : {"llama-3-8b", "mixtral-8x7b"}) {
    INFO(model);
    const std::string job = "infer:" + std::string(model) +
                            ",requests=2,batch=2,context_max=32,generated_max=4,tp=2,layers=2";
    const std::string deeper = job.substr(0, job.size() - 1) + "3,collectives=1";
    const Read alone = read(job);
    const Read first = read(job + ",collectives=1");
    CHECK(alone.meetings.empty());
    CHECK(first.events == alone.events);
    CHECK(read(job + ",collectives=1,rank=1").meetings == first.meetings);
    REQUIRE(labels_of(first) == std::vector<std::string>{"collective:tensor0"});
    // A forward has two in each of two layers, and one for the words: one layer more has two more.
    const int count = first.meetings.begin()->second;
    const int more_count = read(deeper).meetings.begin()->second - count;
    CHECK(more_count > 0);
    CHECK(2 * count == 5 * more_count);
  }
  CHECK_THROWS_AS(open_workload("infer:llama-3-8b,collectives=1", 1), UsageError);
  CHECK_THROWS_AS(open_workload("infer:llama-3-8b,tp=2,rank=2", 1), UsageError);
}

TEST_CASE("what a stage sends is what its neighbour receives, also from the last to the first") {
  for (const char* const job :
       {"train:gpt2-124m,layers=4,batch=1,seq=128,steps=2,pp=2,micro_batches=4",
        "train:gpt2-124m,layers=8,batch=1,seq=128,steps=2,pp=2,virtual=2,micro_batches=4,"
        "implementation=megatron"}) {
    INFO(job);
    const Read first = read(std::string(job) + ",rank=0,collectives=1");
    const Read second = read(std::string(job) + ",rank=1,collectives=1");
    CHECK_FALSE(first.sends.empty());
    CHECK(first.sends == second.takes);
    CHECK(second.sends.size() == first.takes.size());
    for (const std::string& sent : second.sends) {
      CHECK(std::count(second.sends.begin(), second.sends.end(), sent) ==
            std::count(first.takes.begin(), first.takes.end(), sent));
    }
  }
}

TEST_CASE("a meeting's row has bytes and a stream, another mark's has not") {
  Event event;
  std::string_view label;
  REQUIRE_FALSE(parse_trace_row("mark,collective:data0,4096,2", 4, &event, &label));
  CHECK(event.size_bytes == 4096);
  CHECK(event.stream == 2);
  std::string text;
  append_trace_row(event, label, false, &text);
  CHECK(text == "mark,collective:data0,4096,2\n");
  CHECK(mark_class_of("send:0>1") == MarkClass::Send);
  CHECK(mark_class_of("receive:0>1") == MarkClass::Receive);
  CHECK(meeting_name("receive:0>1") == "0>1");
  // A meeting of nobody is a step's mark.
  CHECK(mark_class_of("collective:") == MarkClass::Step);
  CHECK(reason("mark,collective:,1,0") == "mark does not use column size");
  CHECK(reason("mark,step1,0,1") == "mark does not use column stream");
  CHECK(reason("mark,idle_until,5,1") == "mark does not use column stream");
  CHECK(reason("mark,send:x,1,4096") == "stream index too large");
}

}  // namespace allocmark
