// Goal: a server's arrivals have the measured statistics, its scheduler does what the hand says,
// and what serve: yields is a valid trace in which every request is answered after it arrived.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/support/trace_goldens.h"
#include "workloads/open_workload.h"
#include "workloads/serving/arrivals.h"
#include "workloads/serving/fixed_math.h"
#include "workloads/serving/scheduler.h"
#include "workloads/trace/request_marks.h"
#include "workloads/trace/summary.h"
#include "workloads/trace/trace_hash.h"

using namespace allocmark;

namespace {

// Of gaps, and of counts in windows of a second: means over runs of different seeds.
struct ArrivalStatistics {
  double gap_s = 0, cv = 0, dispersion_1s = 0, dispersion_10s = 0, dispersion_60s = 0;
};

double dispersion(const std::vector<double>& times_s, double window_s) {
  std::vector<double> counts(static_cast<std::size_t>(times_s.back() / window_s));
  for (const double time_s : times_s) {
    const auto window = static_cast<std::size_t>(time_s / window_s);
    if (window < counts.size()) ++counts[window];
  }
  double mean = 0;
  for (const double count : counts) mean += count / static_cast<double>(counts.size());
  double variance = 0;
  for (const double count : counts) {
    variance += (count - mean) * (count - mean) / static_cast<double>(counts.size());
  }
  return variance / mean;
}

ArrivalStatistics statistics_of(const ArrivalSettings& settings, int count) {
  constexpr int kRunCount = 20;
  ArrivalStatistics sum;
  for (std::uint64_t seed = 1; seed <= kRunCount; ++seed) {
    Arrivals arrivals(settings, seed);
    std::vector<double> times_s;
    for (int i = 0; i < count; ++i) {
      times_s.push_back(static_cast<double>(arrivals.next_ns()) / 1e9);
    }
    const double mean = (times_s.back() - times_s.front()) / (count - 1);
    double variance = 0;
    for (std::size_t i = 1; i < times_s.size(); ++i) {
      const double off = times_s[i] - times_s[i - 1] - mean;
      variance += off * off / (count - 1);
    }
    sum.gap_s += mean / kRunCount;
    sum.cv += std::sqrt(variance) / mean / kRunCount;
    sum.dispersion_1s += dispersion(times_s, 1) / kRunCount;
    sum.dispersion_10s += dispersion(times_s, 10) / kRunCount;
    sum.dispersion_60s += dispersion(times_s, 60) / kRunCount;
  }
  return sum;
}

bool within(double found, double wanted, double share) {
  return std::abs(found - wanted) <= wanted * share;
}

std::uint64_t served_hash(const std::string& workload, std::uint64_t seed) {
  return trace_hash(*open_workload(workload, seed));
}

// The requests of a list, all of which have arrived.
class Waiting {
 public:
  explicit Waiting(std::deque<ServeRequest> requests) : requests_(std::move(requests)) {}
  std::optional<ServeRequest> operator()() {
    if (requests_.empty()) return std::nullopt;
    const ServeRequest next = requests_.front();
    requests_.pop_front();
    return next;
  }

 private:
  std::deque<ServeRequest> requests_;
};

std::uint64_t none_right(const ServeRequest&) { return 0; }

}  // namespace

TEST_CASE("the logarithm and the power of two are those of the hand") {
  CHECK(log2_q32(1) == 0);
  CHECK(log2_q32(1024) == std::uint64_t{10} << 32);
  CHECK(log2_q32(3) == 6807362105);  // 1.5849625007 * 2^32
  CHECK(log2_q32(~std::uint64_t{0}) == (std::uint64_t{64} << 32) - 1);
  CHECK(exp2_negative_q32(0) == kQ32One);
  CHECK(exp2_negative_q32(kQ32One) == kQ32One / 2);
  CHECK(
      within(static_cast<double>(exp2_negative_q32(kQ32One * 5 / 2)), 0.1767766953 * 0x1p32, 1e-8));
  CHECK(exp2_negative_q32(std::uint64_t{64} << 32) == 0);
}

TEST_CASE("poisson and gamma arrivals have the rate and the variation that was asked for") {
  const auto gamma = [](std::uint64_t cv_percent) {
    return statistics_of(
        {.source = ArrivalSource::Gamma, .per_minute = 60, .cv_percent = cv_percent}, 10000);
  };
  const ArrivalStatistics poisson = statistics_of({.per_minute = 60}, 10000);
  CHECK(within(poisson.gap_s, 1, 0.02));
  CHECK(within(poisson.cv, 1, 0.02));
  CHECK(within(poisson.dispersion_10s, 1, 0.1));
  CHECK(within(gamma(50).cv, 0.5, 0.02));
  CHECK(within(gamma(100).cv, 1, 0.02));
  CHECK(within(gamma(300).cv, 3, 0.05));
  CHECK(within(gamma(300).gap_s, 1, 0.03));
  CHECK(within(gamma(150).gap_s, 1, 0.03));
}

TEST_CASE("the azure arrivals have the statistics of the traces") {
  // Measured in the traces: 13.15, 13.19, 71.6 and 164; 1.094, 1.385, 3.86 and 16.1.
  const ArrivalStatistics code =
      statistics_of({.source = ArrivalSource::Code, .per_minute = 154}, 8819);
  CHECK(within(code.gap_s, 0.3897, 0.07));
  CHECK(within(code.cv, 13.15, 0.1));
  CHECK(within(code.dispersion_1s, 13.19, 0.2));
  CHECK(within(code.dispersion_10s, 71.6, 0.2));
  CHECK(within(code.dispersion_60s, 164, 0.2));
  const ArrivalStatistics conv =
      statistics_of({.source = ArrivalSource::Conversation, .per_minute = 332}, 19366);
  CHECK(within(conv.gap_s, 0.1808, 0.02));
  CHECK(within(conv.cv, 1.094, 0.02));
  CHECK(within(conv.dispersion_1s, 1.385, 0.1));
  CHECK(within(conv.dispersion_10s, 3.86, 0.1));
  CHECK(within(conv.dispersion_60s, 16.1, 0.1));
}

TEST_CASE("another rate plays the same arrivals faster") {
  Arrivals slow({.source = ArrivalSource::Code, .per_minute = 60}, 7);
  Arrivals fast({.source = ArrivalSource::Code, .per_minute = 600}, 7);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t slow_ns = slow.next_ns();
    CHECK(slow_ns / 10 - fast.next_ns() < 2);
  }
}

TEST_CASE("a full cache evicts the youngest request, which is computed again when there is room") {
  // Four blocks of four tokens. A: 5 tokens, 8 to come; B: 6 tokens, 9 to come.
  Scheduler scheduler({.running_max = 2,
                       .token_budget = 100,
                       .chunk_tokens = 0,
                       .block_tokens = 4,
                       .block_count = 4});
  Waiting waiting(
      {{.arrival_ns = 1, .prompt = 5, .answer = 8}, {.arrival_ns = 2, .prompt = 6, .answer = 9}});
  CHECK(scheduler.plan(std::ref(waiting)).empty());
  REQUIRE(scheduler.running().size() == 2);
  CHECK(scheduler.running()[1].scheduled == 6);
  CHECK(scheduler.free_blocks() == 0);
  CHECK(scheduler.commit(none_right).first_token_arrivals_ns == std::vector<std::uint64_t>{1, 2});
  for (int step = 2; step <= 3; ++step) {  // A and B have 7 and 8 tokens cached then
    CHECK(scheduler.plan(std::ref(waiting)).empty());
    CHECK(scheduler.commit(none_right).done.empty());
  }
  // B's ninth token needs a third block.
  const std::span<const std::uint32_t> evicted = scheduler.plan(std::ref(waiting));
  REQUIRE(evicted.size() == 1);
  CHECK(scheduler.running().size() == 1);
  CHECK(scheduler.free_blocks() == 2);
  static_cast<void>(scheduler.commit(none_right));
  // B has 6 + 3 tokens to compute, three blocks; A takes a third one first, so B waits for A's end.
  for (int step = 5; step <= 8; ++step) {
    static_cast<void>(scheduler.plan(std::ref(waiting)));
    CHECK(scheduler.running().size() == 1);
    const Scheduler::Outcome& outcome = scheduler.commit(none_right);
    CHECK(outcome.done.size() == (step == 8 ? 1 : 0));
  }
  static_cast<void>(scheduler.plan(std::ref(waiting)));
  REQUIRE(scheduler.running().size() == 1);
  CHECK(scheduler.running()[0].arrival_ns == 2);
  CHECK(scheduler.running()[0].scheduled == 9);
  CHECK(scheduler.running()[0].blocks == 3);
  // It had its first token before.
  CHECK(scheduler.commit(none_right).first_token_arrivals_ns.empty());
  CHECK(scheduler.running()[0].generated == 4);
}

TEST_CASE("long prompts are cut so that others go on, and the budget is kept") {
  Scheduler scheduler({.running_max = 8,
                       .token_budget = 10,
                       .chunk_tokens = 8,
                       .block_tokens = 1,
                       .block_count = 99});
  Waiting waiting(
      {{.prompt = 3, .answer = 5}, {.prompt = 20, .answer = 5}, {.prompt = 1, .answer = 1}});
  static_cast<void>(scheduler.plan(std::ref(waiting)));
  REQUIRE(scheduler.running().size() == 2);
  CHECK(scheduler.running()[0].scheduled == 3);
  CHECK(scheduler.running()[1].scheduled == 7);
  static_cast<void>(scheduler.commit(none_right));
  static_cast<void>(scheduler.plan(std::ref(waiting)));
  REQUIRE(scheduler.running().size() == 3);
  CHECK(scheduler.running()[0].scheduled == 1);
  CHECK(scheduler.running()[1].scheduled == 8);
  CHECK(scheduler.running()[2].scheduled == 1);
  CHECK(scheduler.commit(none_right).done.size() == 1);
}

TEST_CASE("guesses that are right count as tokens, but never beyond the answer") {
  Scheduler scheduler({.running_max = 1,
                       .token_budget = 10,
                       .block_tokens = 1,
                       .block_count = 99,
                       .draft_tokens = 3});
  Waiting waiting({{.prompt = 2, .answer = 3}});
  const auto two_right = [](const ServeRequest&) { return std::uint64_t{2}; };
  static_cast<void>(scheduler.plan(std::ref(waiting)));
  static_cast<void>(scheduler.commit(two_right));
  CHECK(scheduler.running()[0].generated == 1);  // the prompt's end gives one token, no guesses
  static_cast<void>(scheduler.plan(std::ref(waiting)));
  CHECK(scheduler.running()[0].scheduled == 4);
  CHECK(scheduler.running()[0].blocks == 6);
  const Scheduler::Outcome& outcome = scheduler.commit(two_right);
  REQUIRE(outcome.done.size() == 1);
  CHECK(outcome.done[0].generated == 3);
  CHECK(scheduler.free_blocks() == 99);
}

TEST_CASE("serve yields the same bytes for the same seed") {
  const TraceGolden goldens[] = {
      {"serve:llama-3-8b,requests=6,generated_max=20", 0x5b1f7ac16d12a201u, 57453, 33326424064},
      {"serve:gpt2-124m,requests=12,arrivals=gamma,kv=concat,batch=4,generated_max=8",
       0x32f312df6547a8d9u, 16387, 381625856},
      {"serve:gpt2-124m,requests=6,kv=preallocated,kv_memory=1GiB,beams=3,generated_max=9",
       0x0bcfd3f627447fa4u, 15838, 347965952},
      {"serve:llama-3-8b,layers=3,requests=9,kv=concat,arrivals=code,draft=llama-2-7b,"
       "generated_max=12",
       0xe808a6be126492f2u, 84052, 21917834240},
      {"serve:mixtral-8x7b,layers=2,requests=6,generated_max=20", 0x0cc342ef64a1729bu, 9091,
       23643535428},
      {"serve:bert-base,requests=40,per_minute=60000,arrivals=conv", 0xd54126d1df77483cu, 23084,
       271417856},
  };
  check_goldens(goldens);
  for (const TraceGolden& golden : goldens) {
    INFO(golden.workload);
    CHECK(served_hash(golden.workload, 2) != golden.hash);
  }
}

TEST_CASE("every request is answered once, after it arrived, and everything is given back") {
  for (const std::string options :
       {"serve:gpt2-124m,layers=2,requests=300,per_minute=60000,arrivals=gamma,generated_max=40",
        "serve:gpt2-124m,layers=2,requests=300,per_minute=60000,kv=concat,batch=9,generated_max=40",
        "serve:llama-3-8b,layers=2,requests=60,per_minute=60000,kv_memory=64MiB,"
        "context_max=4000,generated_max=90,chunk=100",
        "serve:gpt2-124m,layers=2,requests=90,per_minute=60000,beams=4,kv=concat,kv_memory=20MiB,"
        "generated_max=20",
        "serve:gpt2-124m,layers=2,requests=90,draft=gpt2-124m,per_minute=60000,generated_max=40",
        "serve:llama-3-8b,layers=2,requests=60,per_minute=60000,graphs=own,kv_memory=64MiB,"
        "context_max=4000,generated_max=90",
        "serve:bert-base,layers=2,requests=300,per_minute=600000,batch_tokens=1024"}) {
    INFO(options);
    const std::unique_ptr<EventSource> source = open_workload(options, 3);
    std::uint64_t clock_ns = 0;
    std::vector<std::uint64_t> first_ns, done_ns;
    for (const Event& event : read_all(*source)) {
      if (event.kind == EventKind::Kernel) clock_ns += event.duration_ns();
      if (event.kind != EventKind::Mark) continue;
      const MarkClass mark_class = mark_class_of(source->labels()[event.id]);
      if (mark_class == MarkClass::ServerStart) {
        // Kernels of captures come before the server's clock begins.
        CHECK((clock_ns > 0) == (options.find("graphs=") != std::string::npos));
        clock_ns = 0;
      }
      if (mark_class == MarkClass::IdleUntil) {
        CHECK(event.size_bytes > clock_ns);
        clock_ns = event.size_bytes;
      }
      if (mark_class == MarkClass::FirstToken) first_ns.push_back(event.size_bytes);
      if (mark_class == MarkClass::RequestDone) done_ns.push_back(event.size_bytes);
      if (mark_class != MarkClass::Step) CHECK(event.size_bytes <= clock_ns);
    }
    const std::string count = options.substr(options.find("requests=") + 9);
    CHECK(done_ns.size() == std::stoul(count));
    const bool generates = options.find("bert") == std::string::npos;
    std::sort(first_ns.begin(), first_ns.end());
    std::sort(done_ns.begin(), done_ns.end());
    CHECK(first_ns == (generates ? done_ns : std::vector<std::uint64_t>()));
    CHECK(summarize(*source).leftover_count == 0);
  }
}

TEST_CASE("marks of requests have a time, marks of steps have none") {
  const TemporaryFolder folder;
  const std::string head = "op,id,size,stream\n";
  const std::string good =
      folder.write("good.csv", head + "mark,idle_until,7,0\nmark,first_token,7,0\n" +
                                   "mark,request_done,18446744073709551615,0\nmark,step,0,0\n");
  const std::unique_ptr<EventSource> source = open_workload("file:" + good, 0);
  const std::vector<Event> events = read_all(*source);
  REQUIRE(events.size() == 4);
  CHECK(events[1].size_bytes == 7);
  CHECK(events[2].size_bytes == ~std::uint64_t{0});
  for (const char* line : {"mark,step,7,0\n", "mark,done,1,0\n", "mark,request_done,1,1\n"}) {
    const std::string bad = folder.write("bad.csv", head + line);
    CHECK(mentions(usage_error_of([&] {
                     const std::unique_ptr<EventSource> broken = open_workload("file:" + bad, 0);
                     static_cast<void>(read_all(*broken));
                   }),
                   "mark does not use column"));
  }
}

TEST_CASE("impossible servers are refused with key, value and rule") {
  CHECK(mentions(refusal_of("serve:"), "no model given"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,kv_memory=1GiB"),
                 "room for one request of context_max + generated_max = 9216 tokens"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,cv_percent=200"), "unknown key 'cv_percent'"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,arrivals=gamma,cv_percent=5"), "from 20 to 1000"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,per_minute=0"), "from 1 to"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,chunk=0"), "prompts are not cut"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,draft=bert-base"), "a model that generates"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,draft=gpt2-124m"), "same family"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,draft=llama-3-8b,beams=2"), "guesses are checked"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,draft_tokens=2"), "unknown key 'draft_tokens'"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,beams=32,batch_tokens=16"),
                 "tokens of one request in one step, 32"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,kv=concat,block_tokens=8"), "unknown key"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,graphs=own,kv=concat"), "none, or kv=paged"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,graphs=own,beams=2"), "none, or beams=1"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,graphs=own,draft=llama-3-8b"), "draft=none"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,graph_max=8"), "unknown key 'graph_max'"));
  CHECK(mentions(refusal_of("serve:gpt2-124m,context_max=1024"), "from 1 to 1023"));
  CHECK(mentions(refusal_of("serve:bert-base,batch_tokens=100"), "at least context_max = 512"));
  CHECK(mentions(refusal_of("serve:vit-base"), "families gpt2, llama and mixtral, or bert"));
  CHECK(mentions(refusal_of("serve:t5-small"), "families gpt2, llama and mixtral, or bert"));
  CHECK(mentions(refusal_of("serve:bert-base,kv=paged"), "unknown key 'kv'"));
  CHECK(mentions(refusal_of("serve:llama-3-8b,arrivals=azure"), "poisson, gamma, code, conv"));
}
