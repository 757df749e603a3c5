// The reference is the same work everywhere; how long it takes is the machine's affair.
#include "harness/core/measure/host_reference.h"

#include "tests/catch.h"

namespace allocmark {

TEST_CASE("the reference does the same work on every machine, and takes some time") {
  HostReference reference;
  // Its own assertion compares what it computed.
  CHECK(reference.measure_ns() > 0);
  CHECK(reference.measure_quiet_ns() > 0);
}

}  // namespace allocmark
