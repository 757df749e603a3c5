// The most that tensors of one kind take of a workload.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"

namespace allocmark {

inline std::uint64_t kind_peak(const std::string& workload, TensorKind kind) {
  return summarize(*open_workload(workload, 1)).tensor_bytes_peak[static_cast<std::size_t>(kind)];
}

}  // namespace allocmark
