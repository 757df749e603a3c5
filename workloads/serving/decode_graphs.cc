#include "workloads/serving/decode_graphs.h"

#include <algorithm>

namespace allocmark {

std::vector<std::uint64_t> graph_batches(const GraphSettings& settings) {
  std::vector<std::uint64_t> batches;
  if (settings.pools == GraphPools::None) return batches;
  for (std::uint64_t batch = 1; batch <= settings.batch_max; batch += batch < 2     ? 1
                                                                      : batch < 4   ? 2
                                                                      : batch < 8   ? 4
                                                                      : batch < 256 ? 8
                                                                                    : 16) {
    batches.push_back(batch);
  }
  if (!settings.smallest_first) std::ranges::reverse(batches);
  return batches;
}

std::uint64_t graph_pool_id(const GraphSettings& settings, std::uint64_t place) {
  return settings.pools == GraphPools::Own ? place + 1 : 1;
}

}  // namespace allocmark
