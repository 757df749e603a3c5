// Goal: host times become those of the host that they are shown for. Method: environments by hand.
#include "harness/core/measure/host_scale.h"

#include "results/schema.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

Environment on(const char* device) {
  Environment environment;
  environment.device = device;
  environment.host_reference_ns = 40;
  return environment;
}

TEST_CASE("host times of a simulated device become those of its profile's host") {
  Environment environment = on("sim:h200");
  environment.profile_host_reference_ns = 30;
  environment.profile_clock_overhead_ns = 12;
  CHECK(host_target_of(environment) == HostTarget{.reference_ns = 30, .clock_ns = 12});
}

TEST_CASE("where the profile's host is unknown, they become this host's without load") {
  Environment environment = on("sim:mine.json");
  environment.profile_clock_overhead_ns = 12;  // of no use without the reference
  CHECK(host_target_of(environment) == HostTarget{.reference_ns = 40, .clock_ns = 0});
}

TEST_CASE("on a GPU nothing is scaled, since host time has the driver's in it") {
  Environment environment = on("cuda:0");
  environment.profile_host_reference_ns = 30;
  CHECK(host_target_of(environment) == HostTarget{});
}

}  // namespace
}  // namespace allocmark
