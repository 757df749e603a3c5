// Which GPUs differ from the others of their kind. Rows of nodes flow in; outliers by robust z flow
// out, into the rows. Pure: nothing is read or measured.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "harness/tools/qualify/fleet/nodes.h"

namespace allocmark::fleet {

// z is the distance from the median, on a logarithmic scale, in units of 1.4826 times the median
// distance; that unit is taken for at least `spread_min`, so that machines that are nearly equal
// are no outliers. A measure is beyond a limit where both z and the factor are.
struct OutlierBounds {
  double warn_z = 0, warn_factor = 0, fail_z = 0, fail_factor = 0;
};
struct OutlierLimits {
  double spread_min = 0.02;
  OutlierBounds one{.warn_z = 6, .warn_factor = 1.5, .fail_z = 12, .fail_factor = 3};
  // Of the mean over all latencies of a GPU.
  OutlierBounds all{.warn_z = 5, .warn_factor = 1.1, .fail_z = 10, .fail_factor = 1.2};
  std::size_t gpu_count_min = 5;  // of a kind; fewer are not compared
};

// What makes two GPUs comparable: the same model in the same type of machine under the same driver,
// looked at equally long. Where the system does not tell the type of machine, its processor stands
// for it.
struct KindKey {
  std::string model, machine, driver, level;
  friend auto operator<=>(const KindKey&, const KindKey&) = default;
};

struct Kind {
  KindKey key;
  std::size_t gpu_count = 0, node_count = 0, measure_count = 0;
  bool is_compared = false;
};

// Fills in the outliers of judged rows. A row is damaged where a GPU of it lacks a figure that most
// of its kind have. The kinds are sorted by name.
[[nodiscard]] std::vector<Kind> find_outliers(std::vector<NodeRow>& rows,
                                              const OutlierLimits& limits = {});

// The limits in words.
[[nodiscard]] std::string limits_text(const OutlierLimits& limits = {});

}  // namespace allocmark::fleet
