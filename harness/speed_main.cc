// harness_speed: prints the figures of harness/speed.h. One optional argument: how many events the
// long trace has.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "harness/speed.h"

int main(int argc, char** argv) {
  try {
    allocmark::SpeedOptions options;
    if (argc > 1) options.churn_event_count = std::strtoull(argv[1], nullptr, 10);
    std::fputs(allocmark::to_text(allocmark::measure_speed(options)).c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "harness_speed: %s\n", error.what());
    return 4;
  }
}
