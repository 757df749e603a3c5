// What a GPU model's driver calls are expected to cost: a device profile
// (harness/simcuda/MODEL.md, "Profile rows"), which 'allocmark profile' measures and simcuda runs
// by. A file flows in, rows by call and size flow out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace allocmark::qualify {

struct BaselineRow {
  std::uint64_t size_bytes = 0;  // 0 where the call has no size
  std::uint64_t sample_count = 0;
  double p50_ns = 0, p90_ns = 0;
};

struct Baseline {
  std::string path = {}, gpu_name = {};
  std::uint64_t memory_bytes = 0;
  // In the machine that it was measured on; 1 in files that do not say.
  int machine_gpu_count = 1;
  std::map<std::string, std::vector<BaselineRow>> rows = {};  // by call, by rising size
};

// Throws UsageError naming the path where the file is no profile.
[[nodiscard]] Baseline read_baseline(const std::string& path);

// The profile for that model, of those in `folder` and those built in, whose machine has the
// nearest number of GPUs; of two as near the one with fewer, of two such the first by name of file.
// Nothing where the model has none.
[[nodiscard]] std::optional<Baseline> find_baseline(const std::string& folder,
                                                    const std::string& gpu_name,
                                                    int machine_gpu_count);

}  // namespace allocmark::qualify
