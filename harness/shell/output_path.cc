// See output_path.h.
#include "harness/shell/output_path.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include "base/error.h"

namespace allocmark {

namespace fs = std::filesystem;

void add_force(CLI::App* app, bool* force) {
  app->add_flag("--force", *force, "Replace a file that is there already");
}

void check_output_file(const std::string& path, bool force, const std::string& option) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(path, ignored).parent_path();
  const auto refuse = [&](const std::string& what, const std::string& next) {
    throw FileError({.what = what,
                     .where = option,
                     .wanted = "a file in a folder that can be written",
                     .got = path,
                     .next = next});
  };
  if (fs::is_directory(path, ignored)) refuse("this is a folder", "give the name of a file");
  if (!fs::is_directory(folder, ignored)) {
    refuse("the folder of this file does not exist", "mkdir -p " + folder.string());
  }
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) return;
  if (access(folder.c_str(), W_OK) != 0) {
    refuse("the folder of this file cannot be written", "choose another one");
  }
  if (!fs::exists(path, ignored) || force) return;
  throw UsageError({.what = "the file exists already",
                    .where = option,
                    .wanted = "a new file",
                    .got = path,
                    .next = "add --force to replace it"});
}

void make_output_folder(const std::string& path, const std::string& option) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  throw FileError({.what = "the folder cannot be made",
                   .where = option,
                   .wanted = "a folder that can be written",
                   .got = fmt::format("{}: {}", path, error.message()),
                   .next = "choose another one"});
}

}  // namespace allocmark
