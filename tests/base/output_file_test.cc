// Goal: what is written is whole under its name or not there, and nothing but a regular file is
// ever replaced.
#include "base/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using namespace allocmark;
namespace fs = std::filesystem;

namespace {

std::size_t entry_count(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

// Runs it in a process whose files may have so many bytes, as on a full disk; true where it threw
// a WriteError.
template <typename Action>
bool fails_when_full(rlim_t size_bytes_max, Action action) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = size_bytes_max, .rlim_max = size_bytes_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    int code = 1;
    try {
      action();
    } catch (const WriteError&) {
      code = 0;
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("what a killed writer left is used up by the next one") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out");
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      OutputFile file(path);
      file.write(std::string(300'000, 'x'));
      raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
  }
  CHECK(entry_count(folder) == 1);
  write_file(path, "new");
  CHECK(entry_count(folder) == 1);
  CHECK(fs::file_size(path) == 3);
}

TEST_CASE("two writers of one name do not disturb each other") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out");
  OutputFile first(path);
  first.write(std::string(300'000, 'x'));
  write_file(path, "second");
  CHECK(fs::file_size(path) == 6);
  first.finish();
  CHECK(fs::file_size(path) == 300'000);
  CHECK(entry_count(folder) == 1);
}

TEST_CASE("what somebody put in the place of the file beside it is not written") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("mine")) << "mine";
  fs::create_symlink(folder.path("mine"), folder.path(".out.part"));
  write_file(folder.path("out"), "new");
  fs::remove(folder.path(".out.part"));
  fs::create_hard_link(folder.path("mine"), folder.path(".out.part"));
  write_file(folder.path("out"), "new");
  CHECK(fs::file_size(folder.path("out")) == 3);
  CHECK(fs::file_size(folder.path("mine")) == 4);
}

TEST_CASE("a file is there only once it is finished, and an old one keeps its mode") {
  const TemporaryFolder folder;
  const std::string path = folder.path("out");
  std::ofstream(path) << "old";
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  {
    OutputFile file(path);
    file.write("new");
    CHECK(folder.read("out") == "old");
  }
  CHECK(folder.read("out") == "old");
  CHECK(entry_count(folder) == 1);
  write_file(path, "new");
  CHECK(folder.read("out") == "new");
  CHECK(entry_count(folder) == 1);
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("a link stays a link, and the file that it leads to is written") {
  const TemporaryFolder folder;
  fs::create_symlink("target", folder.path("link"));
  write_file(folder.path("link"), "text");
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(folder.read("target") == "text");
  fs::create_symlink("round", folder.path("round"));
  CHECK_THROWS_AS(write_file(folder.path("round"), "text"), WriteError);
}

TEST_CASE("a pipe and a device are written through and stay what they are") {
  const TemporaryFolder folder;
  const std::string path = folder.path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::string seen;
  std::thread reader([&] {
    std::ifstream stream(path);
    std::getline(stream, seen);
  });
  write_file(path, "text");
  reader.join();
  CHECK(seen == "text");
  CHECK(fs::is_fifo(path));
  write_file("/dev/null", "text");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_AS(write_file("/dev/full", "text"), WriteError);
  CHECK_THROWS_AS(write_file(folder.path(), "text"), WriteError);
}

TEST_CASE("an open descriptor is written where it stands") {
  const TemporaryFolder folder;
  const int fd = open(folder.path("log").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(write(fd, "before ", 7) == 7);
  write_file("/proc/self/fd/" + std::to_string(fd), "through");
  REQUIRE(write(fd, " after", 6) == 6);
  close(fd);
  CHECK(folder.read("log") == "before through after");
}

TEST_CASE("a full disk leaves the old file and no other") {
  const TemporaryFolder folder;
  write_file(folder.path("out"), "old");
  CHECK(fails_when_full(100, [&] { write_file(folder.path("out"), std::string(1000, 'x')); }));
  CHECK(folder.read("out") == "old");
  CHECK(entry_count(folder) == 1);
}

TEST_CASE("a line that does not fit leaves no half line") {
  const TemporaryFolder folder;
  CHECK(fails_when_full(20, [&] {
    LineFile file = LineFile::create(folder.path("lines"));
    file.append("a line of 15 by");
    file.append("another");
  }));
  CHECK(folder.read("lines") == "a line of 15 by\n");
  CHECK_THROWS_AS(LineFile::create(folder.path("lines")), WriteError);
  LineFile::resume(folder.path("lines"), 2).append("b");
  CHECK(folder.read("lines") == "a b\n");
  LineFile::replace(folder.path("lines")).append("c");
  CHECK(folder.read("lines") == "c\n");
}
