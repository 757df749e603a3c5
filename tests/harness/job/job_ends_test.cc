// How the end of a job's process reaches the one that asked. Method: a shell script in place of the
// program is the other end of the pipe.
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.h"
#include "harness/job/job.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text_checks.h"

namespace allocmark {
namespace {

struct Text {
  std::string text;
};
constexpr Job<Text, Text> kText{.name = "text", .what = "the search", .run = nullptr};

// What ask_job returns, or the Error that it throws with its exit code; 0 without one.
std::pair<std::string, int> asked(const std::string& body, double timeout_s = 0) {
  const TemporaryFolder folder;
  const std::string path = folder.write("side", "#!/bin/sh\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  try {
    const JobPlace place{.program_path = path, .timeout_s = timeout_s};
    return {ask_job(kText, {.text = "asked"}, place).text, 0};
  } catch (const Error& error) {
    return {error.what(), static_cast<int>(error.exit_code())};
  }
}

std::string said(const std::string& body) { return asked(body).first; }

TEST_CASE("how a job's process ended is told, whatever it was") {
  CHECK(said("echo '[\"a\"]' >&3; echo '[\"b\"]' >&3") == "b");
  CHECK(contains(said("echo 'no memory' >&2; exit 4"), "no memory"));
  CHECK(contains(said("kill -SEGV $$"), "the search ended by SIGSEGV"));
  CHECK(contains(said("true"), "this is no message of the search"));
  CHECK(contains(said("echo garbage >&3"), "this is no message of the search"));
  // It is ended because of that, which is no interrupt.
  CHECK(contains(said("head -c 80000000 /dev/zero >&3"), "the search ended by SIGKILL"));
}

TEST_CASE("what a job throws has the same exit code where it is thrown again") {
  for (const int code : {2, 3, 4, 5, 6}) {
    const std::string body = "echo 'allocmark: it went wrong' >&2; exit " + std::to_string(code);
    CHECK(asked(body) == std::pair{std::string("it went wrong"), code});
  }
}

TEST_CASE("a job that a library, a signal or the clock ends is one without a result") {
  constexpr int kCellsIncomplete = 3;
  CHECK(asked("echo 'driver lost' >&2; exit 7") ==
        std::pair{std::string("the search ended with exit code 7: driver lost"), kCellsIncomplete});
  CHECK(asked("exit 1") ==
        std::pair{std::string("the search ended with exit code 1"), kCellsIncomplete});
  CHECK(asked("kill -SEGV $$").second == kCellsIncomplete);
  constexpr int kNotReady = 4;
  CHECK(asked("echo 'cannot open libcudart.so' >&2; exit 127").second == kNotReady);
  const auto [text, code] = asked("sleep 600", 0.05);
  CHECK(code == kCellsIncomplete);
  CHECK(text == "the search ended by the limit on its time");
}

}  // namespace
}  // namespace allocmark
