// A server's request P99 on cards and under loads, from its trace alone.
#include "harness/core/search/target.h"

#include <cstdint>
#include <string>

#include "base/error.h"
#include "harness/core/replay/kernel_source.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

constexpr const char* kServer = "serve:llama-3-8b,requests=24,per_minute=60";
constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::uint64_t p99_on(const ServingCard& card) {
  const std::string placed = define_workload_on_card(kServer, card);
  return served_p99_ns(placed.empty() ? kServer : placed, 1).value();
}

TEST_CASE("a slower card answers later") {
  const std::uint64_t l4_ns = p99_on({.tflops = 121, .gb_per_second = 300});
  const std::uint64_t a100_ns = p99_on({.tflops = 312, .gb_per_second = 2'039});
  const std::uint64_t b200_ns = p99_on({.tflops = 2'250, .gb_per_second = 7'700});
  CHECK(l4_ns > 3 * a100_ns);
  CHECK(a100_ns > b200_ns);
  CHECK(served_p99_ns("comb:count=8", 1) == std::nullopt);
}

TEST_CASE("a server's text gets its card's figures once, whatever stands around it") {
  const ServingCard card{.tflops = 121, .gb_per_second = 300};
  CHECK(define_workload_on_card("serve:gpt2-124m,requests=4", card) ==
        "serve:gpt2-124m,requests=4,tflops=121,bandwidth=300");
  CHECK(define_workload_on_card("serve:gpt2-124m,tflops=9+kernels:off", card) ==
        "serve:gpt2-124m,tflops=9,bandwidth=300+kernels:off");
  CHECK(define_workload_on_card("comb:count=8 then serve:gpt2-124m", card) ==
        "comb:count=8 then serve:gpt2-124m,tflops=121,bandwidth=300");
  CHECK(define_workload_on_card("chat_paged", card).find(",tflops=121") != std::string::npos);
  CHECK(define_workload_on_card("gpt2_train_amp", card).empty());
  CHECK(define_workload_on_card("serve:gpt2-124m", ServingCard{}).empty());
}

TEST_CASE("the largest load keeps the target, and one a tenth larger does not") {
  const std::uint64_t target_ns = 20 * kSecondNs;
  const std::uint64_t load = largest_load(kServer, 1, target_ns).value();
  REQUIRE(load > 1);
  CHECK(served_p99_ns(*with_load(kServer, load), 1).value() <= target_ns);
  CHECK(largest_load(kServer, 1, 1'000) == 0);
  CHECK(largest_load("comb then serve:gpt2-124m", 1, target_ns) == std::nullopt);
}

TEST_CASE("another load takes the place of the one that is given") {
  CHECK(with_load("serve:gpt2-124m,per_minute=60,requests=4", 7) ==
        "serve:gpt2-124m,requests=4,per_minute=7");
  CHECK(with_load("serve:gpt2-124m,requests=4+kernels:off", 7) ==
        "serve:gpt2-124m,requests=4,per_minute=7+kernels:off");
}

TEST_CASE("a target is p99= and a time with its unit") {
  CHECK(parse_target("p99=2s", "t") == 2 * kSecondNs);
  CHECK(parse_target("p99=0.5s", "t") == kSecondNs / 2);
  CHECK(parse_target("p99=500ms", "t") == kSecondNs / 2);
  for (const char* wrong : {"2s", "p99=2", "p99=", "p99=-2s", "p50=2s", "p99=2h", "p99=0s"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_target(wrong, "t"), UsageError);
  }
}

}  // namespace
}  // namespace allocmark
