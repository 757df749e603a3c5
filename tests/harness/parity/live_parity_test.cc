// Goal: what the live comparison makes of a side that answers otherwise, and of one that does not
// answer at all. Method: a shell script in place of the program stands for both sides.
#include "harness/tools/parity/live_parity.h"

#include <filesystem>
#include <string>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

// Compares what two pieces of a shell script write to descriptor 3. Requests of 20 MiB fill the
// program.
LiveResult compare_scripts(const std::string& torch, const std::string& caching) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("side", "#!/bin/sh\nexec >&3\nif grep -q '\"torch\"'; then\n" + torch +
                               "\nelse\n" + caching + "\nfi\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  caching::Program program;
  for (std::uint64_t id = 0; id < 3; ++id)
    program.events.push_back({.id = id, .size_bytes = 20U << 20, .kind = EventKind::Alloc});
  return compare_live(program, {.program_path = path, .timeout_s = 1});
}

constexpr const char* kWhole = "echo 'a 0 +0\na 1 +2\na 2 +4'";

TEST_CASE("sides that answer alike have no difference") {
  const LiveResult result = compare_scripts(kWhole, kWhole);
  CHECK_FALSE(result.difference);
  CHECK_FALSE(result.unanswered);
  CHECK(result.step_count == 3);
  CHECK(result.allocation_count == 3);
}

TEST_CASE("a side that is stopped did not answer, which is no difference") {
  const std::string stopped = "echo 'a 0 +0'; printf 'a 1'; kill -STOP $$";
  const LiveResult ours = compare_scripts(kWhole, stopped);
  CHECK_FALSE(ours.difference);
  CHECK(ours.unanswered == "caching gave no answer within 1 s");
  CHECK(ours.step_count == 1);
  CHECK(ours.allocation_count == 1);
  const LiveResult theirs = compare_scripts("kill -STOP $$", kWhole);
  CHECK_FALSE(theirs.difference);
  CHECK(theirs.unanswered == "torch gave no answer within 1 s");
  CHECK(theirs.step_count == 0);
  const LiveResult both = compare_scripts(stopped, stopped);
  CHECK_FALSE(both.difference);
  CHECK(both.unanswered ==
        "torch gave no answer within 1 s, and caching gave no answer within 1 s");
}

TEST_CASE("a side that answered everything and then did not end is not called equal") {
  const LiveResult result = compare_scripts(kWhole, kWhole + std::string("; kill -STOP $$"));
  CHECK_FALSE(result.difference);
  CHECK(result.unanswered == "caching gave no answer within 1 s");
}

TEST_CASE("a side that somebody ends did not answer") {
  const LiveResult result = compare_scripts(kWhole, "echo 'a 0 +0'; kill -KILL $$");
  CHECK_FALSE(result.difference);
  CHECK(result.unanswered == "caching was ended from outside by SIGKILL (Killed)");
}

TEST_CASE("an answer that differs before the silence is a difference") {
  const LiveResult result = compare_scripts(kWhole, "echo 'a 0 +6'; kill -STOP $$");
  CHECK_FALSE(result.unanswered);
  REQUIRE(result.difference);
  CHECK(result.difference->step == 0);
  CHECK(result.difference->caching == "a 0 +6");
}

TEST_CASE("a side that crashes differs") {
  const LiveResult result = compare_scripts(kWhole, "echo 'a 0 +0'; kill -SEGV $$");
  CHECK_FALSE(result.unanswered);
  REQUIRE(result.difference);
  CHECK(result.difference->step == 1);
  CHECK(result.difference->torch == "a 1 +2");
  CHECK(result.difference->caching.starts_with("ended by SIGSEGV"));
}

}  // namespace
}  // namespace allocmark
