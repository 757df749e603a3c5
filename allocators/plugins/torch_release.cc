// See torch_release.h.
#include "allocators/plugins/torch_release.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "allocators/plugins/torch_plugin/plugin.h"
#include "base/input_file.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFoldersVariable = "ALLOCMARK_TORCH_RELEASES";

std::array<int, 3> numbers_of(const std::string& version) {
  std::array<int, 3> numbers{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& number : numbers) {
    at = std::from_chars(at, end, number).ptr;
    if (at != end) ++at;
  }
  return numbers;
}

// The word after `mark`, up to a blank or ';'.
std::string word_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + mark.size());
  return std::string(text.substr(0, text.find_first_of(" ;")));
}

}  // namespace

TorchIdentity torch_identity(const std::string& plugin_path) {
  std::error_code error;
  if (!fs::is_regular_file(plugin_path, error)) return {};
  const std::string text = read_file(plugin_path, kProgramInput);
  const std::size_t at = text.find(ALLOCMARK_TORCH_IDENTITY_MARK);
  if (at == std::string::npos) return {};
  const std::string_view mark = std::string_view(text).substr(at, 300);
  return {.version = word_after(mark, ALLOCMARK_TORCH_IDENTITY_MARK),
          .library_id = word_after(mark, "libc10_cuda "),
          .interface_version = numbers_of(word_after(mark, "interface "))[0]};
}

bool is_torch_version(const std::string& text) {
  const std::array<int, 3> numbers = numbers_of(text);
  return text == std::to_string(numbers[0]) + "." + std::to_string(numbers[1]) + "." +
                     std::to_string(numbers[2]);
}

std::vector<std::string> torch_release_folders() {
  if (const char* const named = std::getenv(kFoldersVariable); named != nullptr && *named != '\0')
    return {named};
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {(bin.parent_path() / "torch").string(),
          (bin.parent_path().parent_path() / "torch").string()};
}

std::vector<TorchRelease> fetched_torch_releases() {
  std::vector<TorchRelease> releases;
  for (const std::string& folder : torch_release_folders()) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string version = entry.path().filename().string();
      const bool known =
          std::ranges::find(releases, version, &TorchRelease::version) != releases.end();
      if (known || !is_torch_version(version)) continue;
      releases.push_back(
          {.version = version, .plugin_path = (entry.path() / "liballocmark_torch.so").string()});
    }
  }
  std::ranges::sort(releases, {},
                    [](const TorchRelease& release) { return numbers_of(release.version); });
  return releases;
}

}  // namespace allocmark
