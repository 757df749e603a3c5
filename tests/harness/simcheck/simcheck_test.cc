// Goal: a deviation of any kind is found at its first call, and made short. Method: a made-up pair
// of devices of which one does one thing otherwise, kind by kind.
#include "harness/tools/simcheck/simcheck.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace allocmark::simcheck {
namespace {

enum class Plant { None, OtherPlace, OtherFailure, OtherBytes, EndsEarly, OnlyAfterOthers };

struct Kind {
  Plant plant;
  const char* on;       // part of the deviating side's answer
  const char* against;  // of the other's
};

// A device that puts blocks one behind the other and never fails; the deviating one does what is
// planted from the third request of more than a mebibyte on.
std::vector<std::string> fake(int side, Plant plant, const std::vector<Job>& jobs) {
  std::vector<std::string> texts;
  for (const Job& job : jobs) {
    std::string text;
    std::uint64_t next = 0, used = 0, large = 0;
    std::map<std::uint64_t, std::uint64_t> live;
    for (const Event& event : job.program.events) {
      std::string answer = "-";
      if (event.kind == EventKind::Alloc) {
        large += event.size_bytes > (1U << 20) ? 1 : 0;
        const bool deviates = side == 0 && large >= 3;
        if (deviates && plant == Plant::EndsEarly) {
          texts.push_back(text + "! ended by SIGSEGV\n");
          return texts;
        }
        next += event.size_bytes;
        answer = "+" + std::to_string(next);
        if (deviates && plant == Plant::OtherPlace) answer += "9";
        if (deviates && plant == Plant::OtherFailure) answer = "oom";
        if (deviates && plant == Plant::OtherBytes) used += 1;
        if (deviates && plant == Plant::OnlyAfterOthers && jobs.size() > 1) answer = "oom";
        live[event.id] = event.size_bytes;
        used += event.size_bytes;
      } else if (event.kind == EventKind::Free && live.contains(event.id)) {
        used -= live[event.id];
        live.erase(event.id);
      }
      text += answer + " " + std::to_string(used) + "\n";
    }
    texts.push_back(text);
  }
  return texts;
}

Lab lab_with(Plant plant) {
  return [plant](int side, const std::vector<Job>& jobs) { return fake(side, plant, jobs); };
}

std::vector<Job> jobs_of_seeds(std::uint64_t count) {
  std::vector<Job> jobs;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    jobs.push_back(
        {.setting = {.allocator = "native", .conf = ""}, .program = random_program(seed, 300)});
  }
  return jobs;
}

TEST_CASE("devices that answer alike have no difference") {
  const Report report = compare(lab_with(Plant::None), jobs_of_seeds(8));
  CHECK(report.differences.empty());
  CHECK(report.answer_count == 8 * 300);
  CHECK(report.failure_count == 0);
}

TEST_CASE("every kind of deviation is found at its first call and made short") {
  for (const Kind& kind :
       {Kind{Plant::OtherPlace, "9 ", "+"}, Kind{Plant::OtherFailure, "oom", "+"},
        Kind{Plant::OtherBytes, "+", "+"}, Kind{Plant::EndsEarly, "! ended by SIGSEGV", "+"}}) {
    const Lab lab = lab_with(kind.plant);
    const std::vector<Job> jobs = jobs_of_seeds(3);
    const Report report = compare(lab, jobs);
    INFO(static_cast<int>(kind.plant));
    REQUIRE(!report.differences.empty());
    const Difference& first = report.differences.front();
    CHECK(first.job == 0);
    CHECK(first.row.starts_with("alloc,"));
    CHECK(first.on.find(kind.on) != std::string::npos);
    CHECK(first.against.find(kind.against) != std::string::npos);
    CHECK(first.on != first.against);
    const std::optional<Job> shortest = shrink(lab, jobs[0], 1000);
    REQUIRE(shortest);
    // Three requests of more than a mebibyte are what it takes.
    CHECK(shortest->program.events.size() == 3);
    CHECK(!compare(lab, {*shortest}).differences.empty());
    CHECK(to_trace(shortest->program).find("alloc,") != std::string::npos);
  }
}

TEST_CASE("programs that break on both devices are not called equal") {
  const std::vector<Job> jobs = jobs_of_seeds(3);
  // The first breaks after an answer, the second is whole, and the third has none.
  const Lab lab = [](int, const std::vector<Job>&) {
    return std::vector<std::string>{"- 0\n! no memory\n", "- 0\n"};
  };
  const Report report = compare(lab, jobs);
  CHECK(report.differences.empty());
  CHECK(report.unanswered_count == 2);
  CHECK(report.answer_count == 2);
  CHECK(compare(lab_with(Plant::None), jobs).unanswered_count == 0);
}

TEST_CASE("a side that gave no answer in time does not differ, and is not called equal") {
  const std::vector<Job> jobs = jobs_of_seeds(2);
  const Lab lab = [](int side, const std::vector<Job>&) {
    return side == 0 ? std::vector<std::string>{"- 0\n- 0\n", "- 0\n"}
                     : std::vector<std::string>{"- 0\n! no answer in time\n"};
  };
  const Report report = compare(lab, jobs);
  CHECK(report.differences.empty());
  CHECK(report.unanswered_count == 2);
  CHECK(report.answer_count == 1);
}

TEST_CASE("what differs only after other programs is not made short") {
  const Lab lab = lab_with(Plant::OnlyAfterOthers);
  const std::vector<Job> jobs = jobs_of_seeds(2);
  CHECK(!compare(lab, jobs).differences.empty());
  CHECK_FALSE(shrink(lab, jobs[0], 10));
}

TEST_CASE("random programs differ by seed, stay legal, and use one stream or three") {
  std::set<std::string> traces;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Program program = random_program(seed, 400);
    traces.insert(to_trace(program));
    CHECK(to_trace(program) == to_trace(random_program(seed, 400)));
    CHECK(program.events.size() == 400);
    CHECK(without_strangers(program.events) == program.events);
    CHECK(program.stream_count == (seed % 2 == 0 ? 3 : 1));
    CHECK((program.capacity_bytes != 0) == (seed / 2 % 2 == 0));
  }
  CHECK(traces.size() == 40);
}

}  // namespace
}  // namespace allocmark::simcheck
