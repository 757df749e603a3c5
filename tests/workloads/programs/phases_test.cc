// Goal: load, sleep, colocate and pause do in each phase what they say. Method: traces small enough
// to be written down, and live bytes by kind at the marks of the phases.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/support/trace_goldens.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

using namespace allocmark;

namespace {

// One character per event: + alloc, - free, s sync, t trim, m mark, [ a pool is made, ( and ) begun
// and ended, ! released, < and > a capture; sizes or pools behind.
std::string course_of(const std::string& workload) {
  std::string course;
  std::map<std::uint64_t, std::uint64_t> sizes;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    if (event.kind == EventKind::Alloc) sizes[event.id] = event.size_bytes;
    if (event.kind == EventKind::Alloc) course += "+" + std::to_string(event.size_bytes);
    if (event.kind == EventKind::Free) course += "-" + std::to_string(sizes[event.id]);
    if (event.kind == EventKind::Sync) course += "s";
    if (event.kind == EventKind::Trim)
      course += event.id == 0 ? "t" : "t" + std::to_string(event.id);
    if (event.kind == EventKind::PoolCreate) course += "[" + std::to_string(event.id);
    if (event.kind == EventKind::PoolBegin) course += "(" + std::to_string(event.id);
    if (event.kind == EventKind::PoolEnd) course += ")";
    if (event.kind == EventKind::CaptureBegin) course += "<";
    if (event.kind == EventKind::CaptureEnd) course += ">";
    if (event.kind == EventKind::PoolRelease) course += "!";
    if (event.kind == EventKind::Mark) course += "m";
  }
  return course;
}

// Live bytes of each kind at every mark, by label.
using LiveBytes = std::map<TensorKind, std::uint64_t>;
std::map<std::string, LiveBytes> live_at_marks(const std::string& workload) {
  std::map<std::string, LiveBytes> found;
  std::map<std::uint64_t, Event> live;
  LiveBytes bytes;
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  for (const Event& event : read_all(*source)) {
    if (event.kind == EventKind::Alloc) {
      live[event.id] = event;
      bytes[event.tensor] += event.size_bytes;
    } else if (event.kind == EventKind::Free) {
      bytes[live.at(event.id).tensor] -= live.at(event.id).size_bytes;
      live.erase(event.id);
    } else if (event.kind == EventKind::Mark) {
      found[source->labels()[event.id]] = bytes;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("load converts each weight through copies, then makes the pool") {
  const std::string sizes = "first_bytes=53,second_bytes=27,other_bytes=2,pool_bytes=10";
  CHECK(course_of("load:layers=1," + sizes) ==
        "m+53+27+2"      // loaded
        "m+53+53-53-53"  // copy, converted weight; the copy and the loaded weight go
        "+27+27-27-27"
        "stm+10"
        "m-10-53-27-2");
  CHECK(course_of("load:layers=2,copies=0,convert=while,empty_cache=0,first_bytes=53,"
                  "second_bytes=27,other_bytes=0") ==
        "m+53+27+53-53+27-27+53+27+53-53+27-27smm-53-53-27-27");
}

TEST_CASE("a server's memory goes with its pools when it sleeps, and comes back into new ones") {
  const std::string tiny =
      "sleep:layers=1,hidden=1,ffn=1,vocabulary=5,batch=1,context=50,workspace_bytes=0,";
  const std::string
      decode =  // x, normed, qkv, mixed, out and so on: one or more elements of 2 bytes
      "+2+2+6+2+2+2-2-2+2-2+4+2+2+2-2-2+2-2-2-4-2-6-2+10+20-10+20-20-2-20";
  CHECK(course_of(tiny + "cycles=1") ==
        "m[1(1+20+10-20)!"                // the embedding, through fp32
        "(1+12+6-12+4+2-4+8+4-8+4+2-4)!"  // the layer
        "[2(2+200)!m" +
            decode +                    // the cache
            "s-10-6-2-4-2-200!t1!t2tm"  // asleep
            "m[3(3+10)!(3+6+2+4+2)![4(4+200)!m" +
            decode +  // as they were
            "m-10-6-2-4-2-200!t3!t4");
  // What was loaded through comes back as well, as where the pool's segments are mapped again.
  CHECK(course_of(tiny + "cycles=1,wake=converted")
            .find("m[3(3+20+10-20)!(3+12+6-12+4+2-4+8+4-8+4+2-4)![4(4+200)!m") !=
        std::string::npos);
  CHECK(course_of(tiny + "cycles=0,pools=none,load_factor=1") ==
        "m+10+6+2+4+2+200m" + decode + "m-10-6-2-4-2-200");
  const std::string captured = course_of(tiny + "cycles=0,pools=none,graphs=1");
  CHECK(captured.find("st(1<+2") != std::string::npos);
  CHECK(captured.find("-20-2>)m") != std::string::npos);
  CHECK(captured.ends_with("-200-20!"));
  const std::string beside = tiny + "cycles=1,pools=none,other_bytes=3MiB,other_block_bytes=2MiB";
  CHECK(course_of(beside).find("tm+2097152+1048576-2097152-1048576tm") != std::string::npos);
  CHECK(course_of(beside + ",other=kept").find("tm+2097152+1048576m") != std::string::npos);
}

TEST_CASE("pause waits, gives back and leaves blocks behind") {
  CHECK(course_of("pause:") == "mst");
  CHECK(course_of("pause:empty_cache=0") == "ms");
  CHECK(course_of("pause:leftovers=2,size_min=7,size_max=7") == "m+7+7st");
  CHECK(summarize(*open_workload("pause:leftovers=5000", 1)).leftover_count == 5000);
}

TEST_CASE("trainer and server are awake and asleep when they say") {
  const std::string model =
      "colocate:gpt2-124m,layers=2,vocabulary=1000,requests=8,generated_max=8,batch=1,seq=64,"
      "kv_memory=64MiB,";
  const std::uint64_t trained = 4 * (1000 * 768 + 1024 * 768 + 2 * 7'087'872 + 2 * 768);
  const std::uint64_t served = trained / 2;
  constexpr std::uint64_t kPool = 682 * 98'304;  // whole blocks of 64 MiB

  auto both = live_at_marks(model + "cycles=2,steps=2,sleep=both");
  CHECK(both["take_over1"][TensorKind::Parameter] == trained);
  CHECK(both["take_over1"][TensorKind::OptimizerState] == 2 * trained);
  CHECK(both["take_over1"][TensorKind::KvCache] == 0);
  CHECK(both["sleep1"][TensorKind::Parameter] == trained + served);
  CHECK(both["generate1"][TensorKind::Parameter] == served);
  CHECK(both["generate1"][TensorKind::OptimizerState] == 0);
  CHECK(both["wake1"][TensorKind::Parameter] == 0);
  CHECK(both["end"][TensorKind::Parameter] == 0);
  CHECK(both["end"][TensorKind::KvCache] == 0);

  auto server = live_at_marks(model + "cycles=2,steps=2,sleep=server");
  CHECK(server["generate1"][TensorKind::Parameter] == trained + served);
  CHECK(server["wake1"][TensorKind::Parameter] == trained);
  CHECK(server["wake1"][TensorKind::KvCache] == 0);

  auto none = live_at_marks(model + "cycles=2,steps=2,sleep=none");
  CHECK(none["take_over1"][TensorKind::Parameter] == trained + served);
  CHECK(none["wake1"][TensorKind::Parameter] == trained + served);
  CHECK(none["wake1"][TensorKind::KvCache] == kPool);
  for (const char* sleep : {"both", "server", "none"}) {
    CHECK(summarize(*open_workload(model + "sleep=" + sleep, 1)).leftover_count == 0);
  }
}

TEST_CASE("a server beside a trainer has its weights and cache in pools that end with its sleep") {
  const std::string text =
      "colocate:gpt2-124m,layers=2,vocabulary=1000,requests=8,generated_max=8,batch=1,seq=64,"
      "kv_memory=64MiB,cycles=2,steps=1";
  // Bytes of each kind by the pool that they were asked in.
  std::map<std::uint64_t, LiveBytes> asked;
  std::uint64_t routed = 0;
  std::vector<std::uint64_t> ended;
  std::uint64_t requests = 0;
  for (const Event& event : read_all(*open_workload(text + ",pools=each", 1))) {
    if (event.kind == EventKind::PoolBegin) routed = event.id;
    if (event.kind == EventKind::PoolEnd) routed = 0;
    if (event.kind == EventKind::Trim && event.id != 0) ended.push_back(event.id);
    if (event.kind != EventKind::Alloc) continue;
    ++requests;
    if (routed != 0) asked[routed][event.tensor] += event.size_bytes;
  }
  const std::uint64_t served = 2 * (1000 * 768 + 1024 * 768 + 2 * 7'087'872 + 2 * 768);
  CHECK(asked == std::map<std::uint64_t, LiveBytes>{{1, {{TensorKind::Parameter, served}}},
                                                    {2, {{TensorKind::KvCache, 682 * 98'304}}},
                                                    {3, {{TensorKind::Parameter, served}}},
                                                    {4, {{TensorKind::KvCache, 682 * 98'304}}}});
  CHECK(ended == std::vector<std::uint64_t>{1, 2, 3, 4});
  // Pools change where memory is asked for, and nothing else.
  CHECK(requests ==
        summarize(*open_workload(text, 1)).kind_counts[static_cast<std::size_t>(EventKind::Alloc)]);
  CHECK(summarize(*open_workload(text + ",pools=each,sleep=none", 1)).leftover_count == 0);
}

TEST_CASE("phases yield the same bytes for the same seed") {
  const TraceGolden goldens[] = {
      {"load:pool_bytes=16GiB", 0x498643f20f477098u, 582, 47982837744},
      {"pause:leftovers=100,empty_cache=0", 0xeedd79f6fcf924b9u, 102, 805515740},
      {"colocate:llama-3-8b,layers=2,requests=6,generated_max=16,cycles=2,steps=1",
       0x734fa156e4e2f13eu, 3765, 29805150724},
  };
  check_goldens(goldens);
}

TEST_CASE("impossible phases are refused with key, value and rule") {
  CHECK(mentions(refusal_of("load:layers=0"), "from 1 to 1024"));
  CHECK(
      mentions(refusal_of("load:layers=9,pool_bytes=8"), "at least a byte per layer, layers = 9"));
  CHECK(mentions(refusal_of("load:llama-3-8b"), "load has no variants"));
  CHECK(mentions(refusal_of("sleep:layers=0"), "from 1 to 1024"));
  CHECK(mentions(refusal_of("sleep:pools=two"), "each, none"));
  CHECK(mentions(refusal_of("sleep:other=kept"), "unknown key 'other'"));
  CHECK(mentions(refusal_of("pause:size_min=1KiB"), "unknown key 'size_min'"));
  CHECK(mentions(refusal_of("pause:leftovers=1,size_min=2KiB,size_max=1KiB"), "at least size_min"));
  CHECK(mentions(refusal_of("colocate:bert-base"), "a model that generates"));
  CHECK(mentions(refusal_of("colocate:gpt2-124m,generated_max=1000"), "bad value of key"));
  CHECK(mentions(refusal_of("colocate:gpt2-124m,kv_memory=1MiB"), "room for one request"));
  CHECK(mentions(refusal_of("colocate:gpt2-124m,sleep=trainer"), "both, server, none"));
  CHECK(mentions(refusal_of("colocate:gpt2-124m,pools=one"), "none, each"));
}

TEST_CASE("processes beside each other that are read from the start again are as new") {
  const std::string workload = "sleep:layers=64,cycles=50,graphs=1 beside comb:count=4";
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  REQUIRE(std::ranges::count(source->next(), EventKind::PoolCreate, &Event::kind) > 0);
  source->rewind();
  const std::vector<Event> again = read_all(*source);
  const std::vector<Event> fresh = read_all(*open_workload(workload, 1));
  CHECK(std::ranges::count(again, EventKind::PoolRelease, &Event::kind) ==
        std::ranges::count(fresh, EventKind::PoolRelease, &Event::kind));
  CHECK(again.size() == fresh.size());
}
