// Goal: a fetched release of PyTorch is found by its version, and one that cannot serve is told
// with its reason, without loading it. Method: folders with files that only look like plugins.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "allocators/plugins/torch.h"
#include "allocators/plugins/torch_release.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

void write_plugin(const std::string& folder, const std::string& version, const std::string& built,
                  int interface_version = ALLOCMARK_TORCH_PLUGIN_VERSION) {
  const std::string place = folder + "/" + version;
  std::filesystem::create_directories(place);
  std::ofstream(place + "/liballocmark_torch.so")
      << "some bytes " << ALLOCMARK_TORCH_IDENTITY_MARK << built << "; libc10_cuda 12ab; interface "
      << interface_version << "; more";
}

// The releases of a folder, as the allocators see them.
struct Fetched {
  Fetched() { setenv("ALLOCMARK_TORCH_RELEASES", folder.path().c_str(), 1); }
  ~Fetched() { unsetenv("ALLOCMARK_TORCH_RELEASES"); }
  TemporaryFolder folder{};
};

}  // namespace

TEST_CASE("fetched releases are listed by version, whatever else lies there") {
  const Fetched fetched;
  const std::string folder = fetched.folder.path();
  for (const char* version : {"2.9.1", "2.13.0", "2.10.0"}) write_plugin(folder, version, version);
  std::filesystem::create_directories(folder + "/2.13.0.part");
  std::filesystem::create_directories(folder + "/notes");
  std::vector<std::string> names;
  for (const BackendEntry& entry : torch_releases()) {
    names.push_back(entry.name);
    CHECK(entry.unavailable_reason().empty());
  }
  CHECK(names == std::vector<std::string>{"torch@2.9.1", "torch@2.10.0", "torch@2.13.0"});
}

TEST_CASE("a plugin of another release, or none, is a reason that names what to run") {
  const Fetched fetched;
  write_plugin(fetched.folder.path(), "2.13.0", "2.12.1");
  std::filesystem::create_directories(fetched.folder.path() + "/2.14.1");
  const std::vector<BackendEntry> entries = torch_releases();
  REQUIRE(entries.size() == 2);
  const std::string other = entries[0].unavailable_reason();
  CHECK(other.find("was built against PyTorch 2.12.1, not 2.13.0") != std::string::npos);
  CHECK(other.find("scripts/build/fetch_torch.sh 2.13.0") != std::string::npos);
  CHECK(entries[1].unavailable_reason().find("no plugin for PyTorch 2.14.1") != std::string::npos);
}

TEST_CASE("a plugin of an older allocmark is a reason that names what to run") {
  const Fetched fetched;
  write_plugin(fetched.folder.path(), "2.13.0", "2.13.0", ALLOCMARK_TORCH_PLUGIN_VERSION - 1);
  const std::vector<BackendEntry> entries = torch_releases();
  REQUIRE(entries.size() == 1);
  const std::string reason = entries[0].unavailable_reason();
  CHECK(reason.find("was built for another version of allocmark") != std::string::npos);
  CHECK(reason.find("scripts/build/fetch_torch.sh 2.13.0") != std::string::npos);
}

TEST_CASE("a release's config strings are read by its own rules") {
  const Fetched fetched;
  write_plugin(fetched.folder.path(), "2.10.0", "2.10.0");
  write_plugin(fetched.folder.path(), "2.12.1", "2.12.1");
  const std::vector<BackendEntry> entries = torch_releases();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].release == "2.10.0");
  CHECK(entries[0].check_conf("large_segment_size_mb:32").has_value());
  CHECK_FALSE(entries[1].check_conf("large_segment_size_mb:32").has_value());
}

TEST_CASE("what a plugin says of itself is read from its file") {
  const TemporaryFolder folder;
  write_plugin(folder.path(), "2.13.0", "2.13.0");
  const TorchIdentity identity = torch_identity(folder.path() + "/2.13.0/liballocmark_torch.so");
  CHECK(identity.version == "2.13.0");
  CHECK(identity.library_id == "12ab");
  CHECK(identity.interface_version == ALLOCMARK_TORCH_PLUGIN_VERSION);
  CHECK(torch_identity(folder.path() + "/nothing").version.empty());
  CHECK(torch_identity("/bin/sh").version.empty());
}

TEST_CASE("caching has an entry for every release, and a missing torch says how to get it") {
  const auto entries = release_registry();
  const auto count = std::ranges::count_if(
      entries, [](const BackendEntry& entry) { return family_of(entry.name) == "caching"; });
  CHECK(count == 7);
  CHECK(find_backend("caching@2.11").release == "2.11");
  CHECK(find_backend("caching").release == "2.15");
  try {
    (void)find_backend("torch@2.99.0");
    FAIL("found a release that does not exist");
  } catch (const UsageError& error) {
    CHECK(std::string(error.what()).find("scripts/build/fetch_torch.sh") != std::string::npos);
  }
}

}  // namespace allocmark
