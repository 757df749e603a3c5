// What a reader should know of a recording comes with it, alone and as a part of a workload.
#include "harness/core/replay/open_job.h"

#include <string>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

TEST_CASE("a workload with endings has the notes of its recording") {
  const TemporaryFolder folder;
  const std::string job = "file:" + folder.write("log.csv",
                                                 "Thread,Time,Action,Pointer,Size,Stream\n"
                                                 "1,00:00:00.1,allocate,0x1000,1048576,0\n"
                                                 "1,00:00:00.2,allocate failure,0x0,1073741824,0\n"
                                                 "1,00:00:00.3,free,0x1000,1048576,0\n");
  const Recording alone = open_job(job, 1);
  REQUIRE(alone.notes.size() == 1);
  CHECK(alone.failed_count == 1);
  for (const char* const ending : {"+empty_cache:steps", "+kernels:20us"}) {
    const Recording with_ending = open_job(job + ending, 1);
    CHECK(with_ending.notes == alone.notes);
    CHECK(with_ending.failed_count == alone.failed_count);
  }
}

TEST_CASE("a workload without recordings has no notes") {
  const Recording job = open_job("fuzz_r1", 1);
  CHECK(job.notes.empty());
  CHECK(job.failed_count == 0);
}

}  // namespace
}  // namespace allocmark
