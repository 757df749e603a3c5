// See own_process.h.
#include "base/own_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include "base/error.h"

namespace allocmark {

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [name](const auto& change) { return change.first == name; });
    if (!changed) {
      result.emplace_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    result.push_back(name + "=" + value);
  }
  return result;
}

std::string signal_name(int signal_number) {
  const char* abbreviation = sigabbrev_np(signal_number);
  const char* description = sigdescr_np(signal_number);
  if (abbreviation == nullptr || description == nullptr) {
    return fmt::format("signal {}", signal_number);
  }
  return fmt::format("SIG{} ({})", abbreviation, description);
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return "";
}

std::string own_program_path() {
  std::array<char, 4096> buffer;
  const ssize_t length = readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (length <= 0) {
    throw EnvironmentError({.what = "cannot read /proc/self/exe", .got = std::strerror(errno)});
  }
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

}  // namespace allocmark
