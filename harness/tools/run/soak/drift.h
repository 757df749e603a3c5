// What changed over a soak: latency, what stays behind, fragmentation, failures, the memory of the
// process itself. Windows flow in; a slope with its interval and a verdict for each measure flow
// out.
#pragma once

#include <string>
#include <vector>

#include "harness/tools/run/soak/soak_file.h"

namespace allocmark {

enum class Trend { Flat, Grows, Falls, Unknown };
[[nodiscard]] std::string_view to_string(Trend trend);

enum class MeasureUnit { Ns, Bytes, Share, PerPass };

struct Drift {
  std::string measure;
  MeasureUnit unit = MeasureUnit::Ns;
  double first = 0, last = 0;  // medians of the first and the last tenth of the windows
  // The median slope, with its 95 % interval.
  double per_hour = 0, per_hour_low = 0, per_hour_high = 0;
  Trend trend = Trend::Unknown;
};

// The first windows of each process are left out: its allocator fills its cache then. Unknown for
// fewer than 8 others.
[[nodiscard]] std::vector<Drift> find_drifts(const SoakRecord& record);

}  // namespace allocmark
