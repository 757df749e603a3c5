// What a run says about its machine, and how it shows its progress.
#include "harness/core/run/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/progress.h"
#include "harness/core/run/suites.h"
#include "results/json.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

TEST_CASE("the host is described without its name") {
  const Environment environment = host_environment({"allocmark", "run"});
  CHECK_FALSE(environment.allocmark_version.empty());
  CHECK_FALSE(environment.git_sha.empty());
  CHECK_FALSE(environment.kernel.empty());
  CHECK_FALSE(environment.os.empty());
  CHECK(environment.cpu_count > 0);
  CHECK(environment.memory_bytes > 0);
  CHECK(environment.clock_resolution_ns > 0);
  CHECK(environment.started_utc.size() == 20);
  CHECK(environment.started_utc.back() == 'Z');
  CHECK(environment.hostname_hash.size() == 16);
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string quoted_name = "\"" + std::string(name.data()) + "\"";
  CHECK(to_json_line(environment).find(quoted_name) == std::string::npos);
}

TEST_CASE("a text's hash is the published one") {
  CHECK(text_hash("") == "cbf29ce484222325");
  CHECK(text_hash("a") == "af63dc4c8601ec8c");
}

TEST_CASE("devices are told apart by their prefix") {
  CHECK(is_simulated("sim:h200"));
  CHECK_FALSE(is_simulated("cuda:0"));
  CHECK(runtime_environment("cuda:0").empty());
}

TEST_CASE("a simulated device is shown whichever GPUs of the machine are hidden") {
  const auto shown = [] {
    const auto changes = runtime_environment("sim:h200");
    const auto found = std::ranges::find(changes, "CUDA_VISIBLE_DEVICES",
                                         &std::pair<std::string, std::string>::first);
    return found == changes.end() ? "unset" : found->second;
  };
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(shown() == "unset");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(shown().starts_with("0,1,2,"));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_CASE("an unknown suite names the nearest") {
  CHECK_THROWS_AS(find_suite("smok"), UsageError);
  CHECK(find_suite("smoke").name == "smoke");
}

TEST_CASE("durations are short and rounded up") {
  CHECK(format_duration(-1) == "0 s");
  CHECK(format_duration(0.2) == "1 s");
  CHECK(format_duration(60) == "1 min 0 s");
  CHECK(format_duration(3599.5) == "1 h 0 min");
}

TEST_CASE("without a terminal, progress is a line per tenth and one per broken cell") {
  std::FILE* out = std::tmpfile();
  REQUIRE(out != nullptr);
  {
    Progress progress(out, false, 20, 0);
    for (std::uint64_t i = 0; i < 20; ++i) {
      CellResult result;
      result.key.workload = "w";
      result.key.allocator = "native";
      result.key.capacity = "unlimited";
      if (i == 4) {
        result.status = CellStatus::Crashed;
        result.reason = "ended by SIGSEGV";
      }
      progress.cell_done(result);
    }
  }
  std::rewind(out);
  std::string text;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) {
    text += static_cast<char>(c);
  }
  std::fclose(out);
  CHECK(std::count(text.begin(), text.end(), '\n') == 12);
  CHECK(text.find("crashed: w / native / unset / unlimited / seed 0: ended by SIGSEGV\n") !=
        std::string::npos);
  CHECK(text.find("20/20 cells, 1 without a result\n") != std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
}

}  // namespace
}  // namespace allocmark
