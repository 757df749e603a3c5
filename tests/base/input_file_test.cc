// Goal: no path makes a reader hang, read without end or read what was not meant.
#include "base/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using namespace allocmark;

namespace {

constexpr InputKind kSmall{.name = "a small file", .size_bytes_max = 10};
constexpr InputKind kPiped{.name = "a piped file", .size_bytes_max = 10, .takes_pipes = true};

std::string refusal(const std::string& path, const InputKind& kind) {
  try {
    static_cast<void>(read_file(path, kind));
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a regular file is read whole up to its kind's limit and refused beyond it") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("ten")) << "0123456789";
  std::ofstream(folder.path("eleven")) << "0123456789a";
  CHECK(read_file(folder.path("ten"), kSmall) == "0123456789");
  CHECK(mentions(refusal(folder.path("eleven"), kSmall), "at most 10 B for a small file"));
}

TEST_CASE("a file with holes counts as long as it says it is") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("holes")) << "x";
  REQUIRE(truncate(folder.path("holes").c_str(), off_t{1} << 40) == 0);
  CHECK(mentions(refusal(folder.path("holes"), kOtherInput), "too large"));
}

TEST_CASE("folders, devices and missing files are refused by what they are") {
  const TemporaryFolder folder;
  CHECK(mentions(refusal(folder.path(), kSmall), "a folder"));
  CHECK(mentions(refusal("/dev/zero", kSmall), "a device"));
  CHECK(mentions(refusal("/dev/zero", kPiped), "a device"));
  CHECK(mentions(refusal(folder.path("none"), kSmall), "No such file"));
}

TEST_CASE("a pipe is refused at once unless the kind takes pipes") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK(mentions(refusal(folder.path("pipe"), kSmall), "got a pipe"));
}

TEST_CASE("a pipe can be read twice") {
  const TemporaryFolder folder;
  const std::string path = folder.path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(path) << "through a pipe"; });
  InputFile file(path, kPiped);
  CHECK(file.is_pipe());
  for (int time = 0; time < 2; ++time) {
    std::string text;
    std::string some(4, '\0');
    while (const std::size_t count = file.read(some)) text.append(some, 0, count);
    CHECK(text == "through a pipe");
    file.rewind();
  }
  writer.join();
}
