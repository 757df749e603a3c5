// Goal: allocators are found by name, and a misspelled name leads to the right one.
#include <set>
#include <string>
#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "tests/catch.h"

namespace allocmark {

TEST_CASE("the registry holds every allocator once, complete") {
  std::set<std::string_view> names;
  for (const BackendEntry& entry : backend_registry()) {
    INFO(entry.name);
    CHECK(names.insert(entry.name).second);
    CHECK(!entry.summary.empty());
    CHECK(entry.check_conf != nullptr);
    CHECK(entry.make != nullptr);
    CHECK(entry.unavailable_reason != nullptr);
    CHECK(&find_backend(entry.name) == &entry);
  }
  for (const std::string_view expected :
       {"null", "native", "async", "caching", "cub", "thrust_pool"}) {
    INFO(expected);
    CHECK(names.count(expected) == 1);
  }
}

// Of the C library's memory a cell would call every block misplaced, as it did.
TEST_CASE("registered pinned memory is promised where the C library's lies") {
  const BackendEntry& entry = find_backend("host_caching");
  CHECK(entry.capabilities_for({}).alignment_bytes == 256);
  CHECK(entry.capabilities_for("pinned_use_cuda_host_register:True").alignment_bytes == 16);
}

TEST_CASE("an unknown allocator is a usage error that names the nearest") {
  try {
    (void)find_backend("asinc");
    FAIL("found an allocator that does not exist");
  } catch (const UsageError& error) {
    CHECK(error.exit_code() == ExitCode::Usage);
    CHECK(std::string(error.what()).find("'asinc'") != std::string::npos);
    CHECK(std::string(error.what()).find("'async'") != std::string::npos);
  }
}

}  // namespace allocmark
