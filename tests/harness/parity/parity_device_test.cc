// Goal: the simulated device puts every segment of the recorded programs where the H200 put it.
// Method: two programs' goldens are replayed on it with the allocator choosing blocks and the
// device choosing addresses.
#include "harness/tools/parity/parity.h"

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/catch.h"
#include "workloads/open_workload.h"
#include "workloads/trace/archive.h"

namespace allocmark {
namespace {

std::vector<Event> operations_of(const std::string& workload) {
  return caching::parity_events(*open_workload(workload, 0));
}

caching::ParityReport compare(const std::vector<Event>& operations, const ArchiveFile& file,
                              caching::ParityDevice& device) {
  const caching::Golden golden = caching::parse_golden(file.text, file.name);
  const std::string name = file.name.substr(file.name.rfind('/') + 1);
  return caching::compare_with_golden(operations, golden, caching::golden_conf(name).value(),
                                      &device);
}

TEST_CASE("recorded programs get their addresses from the simulated device") {
  for (const std::string program : {"gpt2_train_ckpt", "fuzz_s1"}) {
    const std::vector<Event> operations = operations_of(program);
    for (const ArchiveFile& file : read_whole_tar("tests/golden/caching/" + program + ".tar.zst")) {
      const caching::ParityReport report =
          compare(operations, file, *caching::make_simulated_device());
      INFO(file.name << "\n" << describe(report));
      CHECK(report.mismatch_count == 0);
    }
  }
}

TEST_CASE("a device that starts otherwise is noticed") {
  const std::vector<Event> operations = operations_of("gpt2_train_ckpt");
  for (const ArchiveFile& file : read_whole_tar("tests/golden/caching/gpt2_train_ckpt.tar.zst")) {
    if (!file.name.ends_with("C00_all.txt")) continue;
    const std::unique_ptr<caching::ParityDevice> device = caching::make_simulated_device();
    // Another user's memory shifts what comes after it.
    REQUIRE(device->allocate(20 << 20, 0).has_value());
    CHECK(compare(operations, file, *device).mismatch_count > 0);
  }
}

TEST_CASE("an archive that is none is refused by name") {
  CHECK_THROWS_AS(read_whole_tar("no/such/file.tar.zst"), FileError);
  CHECK_THROWS_AS(read_whole_tar("CMakeLists.txt"), UsageError);
}

}  // namespace
}  // namespace allocmark
