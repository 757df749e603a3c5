// Operations on a device's memory as Nsight Systems records them (nsys profile
// --cuda-memory-usage=true), whatever file they come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/import/recording.h"

namespace allocmark {

struct NsightRow {
  std::uint64_t start_ns = 0;
  std::uint64_t process = 0;  // 0 where the export does not say
  std::uint64_t device = 0;
  std::uint64_t stream = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t memory_kind = 2;  // 0, 1 host; 2, 3 device; 4, 6 managed; 5 static
  bool is_free = false;
};

// In the order of time. Throws UsageError where the rows are those of several processes or devices.
[[nodiscard]] Recording make_nsight_recording(const std::string& path, std::vector<NsightRow> rows);

}  // namespace allocmark
