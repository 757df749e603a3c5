// The choice of a processor: it is one of those that the thread could use, and is undone.
#include "harness/core/measure/quiet_cpu.h"

#include <sched.h>

#include "tests/catch.h"

namespace allocmark {

TEST_CASE("a quiet processor is one of the allowed ones, and the choice ends with its object") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  {
    const QuietCpu quiet;
    const int chosen = quiet.move();
    if (CPU_COUNT(&before) > 1) CHECK(CPU_ISSET(chosen, &before));
    quiet.move();
    cpu_set_t during;
    REQUIRE(sched_getaffinity(0, sizeof during, &during) == 0);
    CHECK(CPU_COUNT(&during) == 1);
    cpu_set_t both;
    CPU_AND(&both, &before, &during);
    CHECK(CPU_COUNT(&both) == 1);
  }
  cpu_set_t after;
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("a thread that is moved to a processor may run there only") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) last = CPU_ISSET(cpu, &before) ? cpu : last;
  {
    const QuietCpu undone;
    REQUIRE(QuietCpu::move_to(last));
    cpu_set_t during;
    REQUIRE(sched_getaffinity(0, sizeof during, &during) == 0);
    CHECK(CPU_COUNT(&during) == 1);
    CHECK(CPU_ISSET(last, &during));
  }
  CHECK_FALSE(QuietCpu::move_to(CPU_SETSIZE - 1));
}

}  // namespace allocmark
