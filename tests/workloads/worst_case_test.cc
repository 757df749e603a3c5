// Which workloads have a worst case, and that it asks for more than the drawn ones.
#include "workloads/worst_case.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "workloads/open_workload.h"

using namespace allocmark;

TEST_CASE("a workload that draws lengths has two worst cases, others none") {
  CHECK(worst_cases("train:gpt2-124m,lengths=conv,seq=512") ==
        std::vector<std::string>{"train:gpt2-124m,lengths=conv,seq=512,longest_percent=100",
                                 "train:gpt2-124m,lengths=conv,seq=512,longest_percent=25"});
  CHECK(worst_cases("train:gpt2-124m").empty());
  CHECK(worst_cases("comb:count=4").empty());
  CHECK(worst_cases("gpt2_train_amp").empty());
  CHECK(worst_cases("infer:bert-base,longest_percent=50").empty());
}

TEST_CASE("parts that draw get it, and a scenario's own text does") {
  CHECK(worst_cases("comb:count=4 then infer:bert-base").front() ==
        "comb:count=4 then infer:bert-base,longest_percent=100");
  const std::vector<std::string> sleeping = worst_cases("rl_both_sleep");
  REQUIRE_FALSE(sleeping.empty());
  CHECK(sleeping.front().starts_with("colocate:"));
  CHECK(sleeping.front().ends_with(",longest_percent=100"));
}

TEST_CASE("a server that sleeps forbids expandable segments, in a composition as well") {
  const auto forbids = [](const char* text) { return open_workload(text, 1)->header().forbids; };
  for (const char* text : {"colocate:gpt2-124m", "colocate:gpt2-124m,sleep=server",
                           "comb:count=4 then colocate:gpt2-124m"}) {
    INFO(text);
    REQUIRE(forbids(text).size() == 1);
    CHECK(forbids(text)[0].key == "expandable_segments");
  }
  CHECK(forbids("colocate:gpt2-124m,sleep=none").empty());
  CHECK(forbids("serve:gpt2-124m,requests=1").empty());
}
