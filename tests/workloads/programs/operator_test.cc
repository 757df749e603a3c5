// One operator alone, against what Liger-Kernel's benchmark measured of transformers' operators:
// max_memory_allocated() in MiB, of blocks that are rounded to 512 bytes. The numbers are of
// benchmark/data/all_benchmark_data.csv at ead96b61 (BSD-2-Clause).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"

using namespace allocmark;

namespace {

// Of the third step: the gradients of those before are there.
double mib_of_last_step(const std::string& workload) {
  std::map<std::uint64_t, std::uint64_t> live;
  std::uint64_t now = 0, peak = 0, marks = 0;
  for (const Event& event : read_all(*open_workload(workload, 1))) {
    if (event.kind == EventKind::Mark) ++marks;
    if (event.kind == EventKind::Alloc)
      now += live[event.id] = (event.size_bytes + 511) / 512 * 512;
    if (event.kind == EventKind::Free) now -= live[event.id];
    if (marks == 4) peak = std::max(peak, now);
  }
  return static_cast<double>(peak) / (1 << 20);
}

bool is_measured(const std::string& operation, double mib) {
  INFO(operation << ": " << mib_of_last_step("operator:" + operation));
  return std::abs(mib_of_last_step("operator:" + operation) / mib - 1) < 0.001;
}

}  // namespace

TEST_CASE("operators alone take what was measured") {
  const std::string a100 = ",workspace_kib=8320";
  CHECK(is_measured("rms_norm,rows=2048,hidden=4096", 320.0546875));
  CHECK(is_measured("layer_norm,rows=4096,hidden=8192,precision=fp32", 640.28125));
  CHECK(is_measured("cross_entropy,rows=16384,hidden=32768,precision=fp32", 10240.1259765625));
  CHECK(is_measured("softmax,rows=1,hidden=4096,precision=fp32", 0.09375));
  CHECK(is_measured("relu_squared,rows=1,hidden=16384", 0.25));
  CHECK(is_measured("rotation,rows=2048,hidden=8192" + a100, 234.14111328125));
  CHECK(is_measured("rotation,rows=4096,hidden=8192,by=liger" + a100, 172.15673828125));
}

TEST_CASE("a gated MLP alone takes what was measured, in each pass") {
  const std::string mlp = "gated_mlp,rows=8192,ffn=11008,hidden=4096,workspace_kib=8320";
  CHECK(is_measured(mlp, 1992.25));
  CHECK(is_measured(mlp + ",mode=backward", 1992.25));
  CHECK(is_measured(mlp + ",mode=forward", 1090.25));
  CHECK(is_measured(mlp + ",mode=forward,by=liger", 918.25));
}

TEST_CASE("a word of operator that does not fit is refused") {
  CHECK(mentions(refusal_of("operator:no_such"), "rms_norm"));
  CHECK(mentions(refusal_of("operator:softmax,by=liger"), "bad value of key 'by'"));
  CHECK(mentions(refusal_of("operator:rotation,hidden=100,heads=32"), "a multiple of heads"));
  CHECK(mentions(refusal_of("operator:rms_norm,ffn=100"), "unknown key 'ffn'"));
}
