// See assumed_work.h.
#include "harness/core/replay/assumed_work.h"

#include <string>

#include "harness/core/replay/kernel_source.h"
#include "harness/core/replay/process_backends.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {

std::uint64_t assumed_kernel_ns(const PreparedTrace& trace, std::string_view workload,
                                std::string_view allocator, std::string_view conf) {
  const std::string& generator = trace.header().generator;
  const bool tells_nothing = (generator == "recorded" || generator == "logged") &&
                             trace.facts().work_count == 0 && !says_kernels(workload);
  if (!tells_nothing || !uses_driver_pools(allocator, conf)) return 0;
  return SimcuApi::find().present ? kAssumedKernelNsSimulated : kAssumedKernelNs;
}

}  // namespace allocmark
