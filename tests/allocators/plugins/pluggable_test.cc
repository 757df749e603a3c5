// Goal: a library of somebody else is named, looked into and driven through PyTorch's two
// functions, and whatever is wrong with it is said before it is used. Method: the example library
// and one with faults, on the simulated device.
#include "allocators/plugins/pluggable.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "allocators/plugins/library_probe.h"
#include "allocators/registry.h"
#include "tests/catch.h"
#include "tests/support/device_probe.h"

namespace allocmark {
namespace {

const std::string kExample = ALLOCMARK_PLUGGABLE_EXAMPLE;
const std::string kFaulty = ALLOCMARK_FAULTY_PLUGGABLE;

std::string problem_with(const std::string& conf) {
  const auto error = find_backend("pluggable").check_conf(conf);
  return error ? to_string(*error) : "";
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// Sets a variable of the environment for one scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("pluggable reads its keys, with the names of PyTorch's example as defaults") {
  const ConfResult<PluggableConf> few = read_pluggable_conf("library:a.so");
  REQUIRE(!few.error);
  CHECK(few.conf.library == "a.so");
  CHECK(few.conf.malloc_symbol == "my_malloc");
  CHECK(few.conf.free_symbol == "my_free");
  CHECK(few.conf.record_stream_symbol.empty());
  const ConfResult<PluggableConf> all = read_pluggable_conf(
      "library:[/with blank, comma/b.so],malloc:m,free:f,record_stream:r,trim:t");
  REQUIRE(!all.error);
  CHECK(all.conf.library == "/with blank, comma/b.so");
  CHECK(all.conf.malloc_symbol == "m");
  CHECK(all.conf.free_symbol == "f");
  CHECK(all.conf.record_stream_symbol == "r");
  CHECK(all.conf.trim_symbol == "t");
  CHECK(read_pluggable_conf("malloc:m").error);
  CHECK(read_pluggable_conf("library:[]").error);
}

TEST_CASE("a library that cannot be used is refused with the reason, before it is used") {
  CHECK(problem_with("library:" + kExample).empty());
  CHECK(says(problem_with(""), "no library is named"));
  CHECK(says(problem_with("library:no_such_file.so"), "no such file"));
  CHECK(says(problem_with("library:" + std::filesystem::temp_directory_path().string()),
             "not a file"));
  CHECK(says(problem_with("library:" + kExample + ",malloc:other"), "no function other"));
  CHECK(says(problem_with("library:" + kExample + ",trim:other"), "no function other"));
  const std::string text_file = std::filesystem::temp_directory_path() / "allocmark_not_a_library";
  std::ofstream(text_file) << "text\n";
  CHECK(says(problem_with("library:" + text_file), "does not load"));
  std::filesystem::remove(text_file);
}

TEST_CASE("a library that crashes or hangs while it is loaded is refused, and we go on") {
  {
    const Variable crash("FAULTY_PLUGGABLE_LOAD", "crash");
    CHECK(says(library_problem({.path = kFaulty, .symbols = {}}), "signal 6"));
  }
  {
    const Variable hang("FAULTY_PLUGGABLE_LOAD", "hang");
    CHECK(says(library_problem({.path = kFaulty, .symbols = {}, .timeout_ms = 1000}),
               "not loaded after 1 s"));
  }
  CHECK(library_problem({.path = kFaulty, .symbols = {"good_free"}}).empty());
}

TEST_CASE("what a library leaves running while it is loaded is not waited for") {
  // It runs for 6 s and keeps everything open that the loading process had.
  {
    const Variable daemon("FAULTY_PLUGGABLE_LOAD", "daemon");
    CHECK(library_problem({.path = kFaulty, .symbols = {"good_free"}, .timeout_ms = 3000}).empty());
    CHECK(says(library_problem({.path = kFaulty, .symbols = {"none"}, .timeout_ms = 3000}),
               "it has no function none"));
  }
  const Variable both("FAULTY_PLUGGABLE_LOAD", "daemon_crash");
  CHECK(says(library_problem({.path = kFaulty, .symbols = {}, .timeout_ms = 3000}), "signal 6"));
}

TEST_CASE("a null pointer from the library is out of memory, size 0 does not reach it") {
  const auto backend =
      find_backend("pluggable").make({.conf = "library:" + kExample, .memory_limit_bytes = 0});
  CHECK(backend->allocate(0, nullptr).pointer == nullptr);
  const AllocateResult too_large = backend->allocate(std::uint64_t{1} << 50, nullptr);
  CHECK(too_large.status == AllocateStatus::OutOfMemory);
  CHECK(cudaGetLastError() == cudaSuccess);
  const AllocateResult block = backend->allocate(1000, nullptr);
  REQUIRE(block.pointer != nullptr);
  CHECK(backend->stats(nullptr).allocated_bytes == 1000);
  // The simulated runtime knows what the library cannot say.
  CHECK(backend->stats(nullptr).reserved_bytes.has_value() == on_simcuda());
  backend->deallocate(block.pointer, 1000, nullptr);
  CHECK(backend->stats(nullptr).allocated_bytes == 0);
}

TEST_CASE("a library that does not use the simulated runtime is told from one without memory") {
  if (!on_simcuda()) return;
  const auto backend =
      find_backend("pluggable")
          .make({.conf = "library:" + kFaulty + ",malloc:null_malloc,free:never_free",
                 .memory_limit_bytes = 0});
  CHECK_THROWS_AS((void)backend->allocate(1000, nullptr), EnvironmentError);
}

}  // namespace allocmark
