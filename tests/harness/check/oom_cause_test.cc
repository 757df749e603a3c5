// Goal: each cause in the situation that its rule describes, at the borders of the rules.
#include "harness/core/check/oom_cause.h"

#include <cstdint>
#include <optional>

#include "tests/catch.h"

namespace allocmark {
namespace {

// A capacity of 1000: 600 live, 700 handed out, nothing held back, nothing for other streams.
OomSituation base() {
  return {.capacity_bytes = 1000,
          .request_bytes = 100,
          .requested_bytes_live = 600,
          .allocated_bytes = 700,
          .active_bytes = 700,
          .free_other_streams_bytes = 0};
}

TEST_CASE("more than the capacity is a matter of capacity") {
  OomSituation situation = base();
  situation.request_bytes = 401;
  REQUIRE(oom_cause(situation) == OomCause::Capacity);
  situation.allocated_bytes = std::nullopt;
  REQUIRE(oom_cause(situation) == OomCause::Capacity);
}

TEST_CASE(
    "what fits beside the requests but not beside the rounded blocks is a matter of rounding") {
  OomSituation situation = base();
  situation.request_bytes = 400;
  REQUIRE(oom_cause(situation) == OomCause::Rounding);
  situation.request_bytes = 301;
  REQUIRE(oom_cause(situation) == OomCause::Rounding);
}

TEST_CASE("what the device's own pages add counts as rounding") {
  OomSituation situation = base();
  situation.request_bytes = 250;
  situation.device_extra_bytes = 50;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.device_extra_bytes = 51;
  REQUIRE(oom_cause(situation) == OomCause::Rounding);
}

TEST_CASE("a call that asked the driver for nothing refused by itself, if there was room") {
  OomSituation situation = base();
  situation.request_bytes = 300;
  situation.asked_driver = false;
  REQUIRE(oom_cause(situation) == OomCause::Refused);
  situation.allocated_bytes = std::nullopt;
  REQUIRE(oom_cause(situation) == OomCause::Refused);
  situation = base();
  situation.asked_driver = false;
  situation.request_bytes = 301;
  REQUIRE(oom_cause(situation) == OomCause::Rounding);
  situation.request_bytes = 401;
  REQUIRE(oom_cause(situation) == OomCause::Capacity);
  // Below a limit of its own it may know better.
  situation.request_bytes = 300;
  situation.limit_bytes = 2000;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.limit_bytes = std::nullopt;
  situation.asked_driver = true;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
}

TEST_CASE("what fits in no single piece is a matter of fragmentation") {
  OomSituation situation = base();
  situation.request_bytes = 300;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
}

TEST_CASE("memory cached for other streams strands a request that needs it") {
  OomSituation situation = base();
  situation.request_bytes = 200;
  situation.free_other_streams_bytes = 100;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.free_other_streams_bytes = 101;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
}

TEST_CASE("memory that waits for other streams' work strands it too") {
  OomSituation situation = base();
  situation.request_bytes = 200;
  situation.active_bytes = 760;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.free_other_streams_bytes = 41;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
}

TEST_CASE("what became free during the failing call would serve the same request") {
  OomSituation situation = base();
  situation.request_bytes = 200;
  situation.free_other_streams_bytes = 101;
  situation.waiting_bytes_before = 200;
  situation.free_largest_bytes = 200;
  REQUIRE(oom_cause(situation) == OomCause::Pending);
  situation.free_largest_bytes = 199;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
  situation.free_largest_bytes = 200;
  situation.waiting_bytes_before = 199;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
  situation.waiting_bytes_before = 200;
  situation.active_bytes = *situation.allocated_bytes + 1;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
}

TEST_CASE("a backend that does not tell what it handed out leaves the cause unknown") {
  OomSituation situation = base();
  situation.allocated_bytes = std::nullopt;
  REQUIRE(oom_cause(situation) == OomCause::Unknown);
}

TEST_CASE("not knowing the other streams' share matters only where there are other streams") {
  OomSituation situation = base();
  situation.free_other_streams_bytes = std::nullopt;
  REQUIRE(oom_cause(situation) == OomCause::Unknown);
  situation.single_stream = true;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
}

TEST_CASE("requests near 2^64 do not wrap around") {
  OomSituation situation = base();
  situation.request_bytes = ~std::uint64_t{0} - 10;
  REQUIRE(oom_cause(situation) == OomCause::Capacity);
}

TEST_CASE("a limit of the process below what is live is a cause of its own") {
  OomSituation situation = base();
  situation.limit_bytes = 699;
  REQUIRE(oom_cause(situation) == OomCause::Limit);
  // The card comes first: there a higher limit would not help.
  situation.request_bytes = 401;
  REQUIRE(oom_cause(situation) == OomCause::Capacity);
}

TEST_CASE("within a limit that the requests would fit, causes are those of the limit") {
  OomSituation situation = base();
  situation.limit_bytes = 799;
  REQUIRE(oom_cause(situation) == OomCause::Rounding);
  situation.limit_bytes = 850;
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.free_other_streams_bytes = 51;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
}

TEST_CASE("what another process caches is a cause of its own, behind one's own streams") {
  OomSituation situation = base();
  situation.request_bytes = 200;
  situation.own = OomSituation::Own{.requested_bytes_live = 100,
                                    .allocated_bytes = 100,
                                    .active_bytes = 100,
                                    .free_other_processes_bytes = 100};
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.own->free_other_processes_bytes = 101;
  REQUIRE(oom_cause(situation) == OomCause::OtherProcess);
  situation.single_stream = true;
  REQUIRE(oom_cause(situation) == OomCause::OtherProcess);
  situation.single_stream = false;
  situation.free_other_streams_bytes = 101;
  REQUIRE(oom_cause(situation) == OomCause::Stranded);
}

TEST_CASE("a limit is each process's own") {
  OomSituation situation = base();
  situation.limit_bytes = 250;
  situation.own =
      OomSituation::Own{.requested_bytes_live = 150, .allocated_bytes = 150, .active_bytes = 150};
  REQUIRE(oom_cause(situation) == OomCause::Fragmentation);
  situation.own->requested_bytes_live = 151;
  REQUIRE(oom_cause(situation) == OomCause::Limit);
}

TEST_CASE("a host that hangs is the cause, whatever else is short") {
  OomSituation situation{
      .capacity_bytes = 100, .request_bytes = 200, .allocated_bytes = 0, .single_stream = true};
  CHECK(oom_cause(situation) == OomCause::Capacity);
  situation.host_is_lost = true;
  CHECK(oom_cause(situation) == OomCause::HostLost);
  situation.request_bytes = 10;  // room there was, before the host hung
  CHECK(oom_cause(situation) == OomCause::HostLost);
}

}  // namespace
}  // namespace allocmark
