// Reads a bundle. Damage and bad names are answers; only a path that is no bundle is an error.
#include "harness/core/bundled/bundle_files.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/run/conditions.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

TarContents read_folder(const std::string& path) {
  TarContents contents;
  std::uint64_t size_bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = kBundleFolder + entry.path().lexically_relative(path).string();
    const fs::file_type type = entry.symlink_status().type();
    if (type == fs::file_type::directory) {
      contents.folders.push_back(name);
    } else if (type != fs::file_type::regular) {
      contents.others.push_back(name);
    } else {
      contents.files.push_back({name, StoredText::of_file(entry.path().string(), kBundleInput)});
      size_bytes += contents.files.back().text.size_bytes();
    }
    if (size_bytes <= UnpackLimits().size_bytes_max) continue;
    contents.damage = fmt::format("it holds more than {} bytes", UnpackLimits().size_bytes_max);
    break;
  }
  std::sort(contents.files.begin(), contents.files.end(),
            [](const StoredFile& a, const StoredFile& b) { return a.name < b.name; });
  return contents;
}

// Those that are read a piece at a time, or not at all.
constexpr std::string_view kLongFiles[] = {
    "results.jsonl", "base.results.jsonl",    kBundleRounds, "report.html", "report.md",
    "table.csv",     "google_benchmark.json", "table.txt",   "timelines/"};

// Of a file of a bundle; others are read whole.
std::uint64_t size_bytes_max(std::string_view name) {
  const bool is_long = std::ranges::any_of(
      kLongFiles, [&](std::string_view known) { return name.starts_with(known); });
  return is_long ? kBundleInput.size_bytes_max : kPlanInput.size_bytes_max;
}

// Empty where the name may be unpacked: relative, plain, within the bundle's folder.
std::string unsafe_reason(const std::string& name) {
  if (name.empty()) return "an empty name";
  if (name.front() == '/') return "an absolute path";
  if (!name.starts_with(kBundleFolder)) return fmt::format("not in {}", kBundleFolder);
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part.empty() || part == "." || part == "..") return "a path that leads elsewhere";
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char byte) {
    return std::isalnum(byte) != 0 || byte == '.' || byte == '_' || byte == '-' || byte == '/';
  });
  return plain && name.back() != '/' ? "" : "characters that a name here never has";
}

}  // namespace

TarContents read_bundle(const std::string& path) {
  if (fs::is_directory(path)) return read_folder(path);
  if (!fs::exists(path)) {
    throw FileError({.what = "there is no bundle of this name",
                     .where = path,
                     .wanted = "a file of 'allocmark bundle', or the folder it was unpacked to",
                     .next = "check the path"});
  }
  const bool known =
      path.ends_with(".tar.zst") || path.ends_with(".tar.gz") || path.ends_with(".tar");
  if (!known || !fs::is_regular_file(path)) {
    throw UsageError({.what = "this is no bundle",
                      .where = path,
                      .wanted = "a file of 'allocmark bundle' (.tar.zst, .tar.gz or .tar), or the "
                                "folder it was unpacked to",
                      .got = "another kind of file",
                      .next = "check the path"});
  }
  return read_tar(path, {});
}

OpenedBundle open_bundle(TarContents contents) {
  OpenedBundle bundle{.damage = std::move(contents.damage)};
  for (const std::string& name : contents.others) {
    bundle.unsafe_names.push_back(name + ": a link or device, not a file");
  }
  for (std::string name : contents.folders) {
    while (name.ends_with('/')) name.pop_back();
    // The bundle's own folder is one, without anything behind its slash.
    const std::string reason = unsafe_reason(name + "/x");
    if (!reason.empty()) bundle.unsafe_names.push_back(name + ": " + reason);
  }
  for (StoredFile& file : contents.files) {
    const std::string reason = unsafe_reason(file.name);
    const std::string name =
        reason.empty() ? file.name.substr(std::string_view(kBundleFolder).size()) : "";
    if (!reason.empty()) {
      bundle.unsafe_names.push_back(file.name + ": " + reason);
    } else if (file.text.size_bytes() > size_bytes_max(name)) {
      bundle.too_large.push_back(fmt::format("{} has {}, more than the {} that such a file has",
                                             name, format_bytes(file.text.size_bytes()),
                                             format_bytes(size_bytes_max(name))));
    } else if (!bundle.files.try_emplace(name, std::move(file.text)).second) {
      bundle.unsafe_names.push_back(file.name + ": is there twice");
    }
  }
  return bundle;
}

RunFile bundled_run(const BundleFiles& files, const std::string& prefix, CellDetail detail) {
  const std::string name = prefix + "results.jsonl";
  RunFile run = parse_run_file(files.at(name).bytes(), name, detail);
  const auto conditions = files.find(prefix + "conditions.json");
  if (conditions != files.end()) {
    add_conditions(conditions->second.whole(), conditions->first, &run.environment);
  }
  return run;
}

}  // namespace allocmark
