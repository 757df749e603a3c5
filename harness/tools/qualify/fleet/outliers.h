// Which GPUs differ from the others of their kind. Rows of nodes flow in; outliers by robust z flow
// out, into the rows. Pure: nothing is read or measured.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/tools/qualify/fleet/nodes.h"

namespace allocmark::fleet {

// z is the distance from the median, on a logarithmic scale, in units of 1.4826 times the median
// distance; that unit is taken for at least `spread_min`, so that machines that are nearly equal
// are no outliers. A measure is beyond a limit where both z and the factor are.
struct OutlierLimits {
  double spread_min = 0.02;
  double warn_z = 6, warn_factor = 1.5;  // of one measure
  double fail_z = 12, fail_factor = 3;
  double all_warn_z = 5, all_warn_factor = 1.1;  // of the mean over all latencies of a GPU
  double all_fail_z = 10, all_fail_factor = 1.2;
  std::size_t gpu_count_min = 5;  // of a kind; fewer are not compared
};

// GPUs of one model, machine type, driver and level.
struct Kind {
  std::string model, machine, driver, level;
  std::size_t gpu_count = 0, node_count = 0, measure_count = 0;
  bool is_compared = false;
};

// Fills in the outliers of judged rows. The kinds are sorted by name.
[[nodiscard]] std::vector<Kind> find_outliers(std::vector<NodeRow>& rows,
                                              const OutlierLimits& limits = {});

// The limits in words.
[[nodiscard]] std::string limits_text(const OutlierLimits& limits = {});

}  // namespace allocmark::fleet
