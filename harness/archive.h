// Reads .tar.xz archives (goldens are kept in them). A path in, names and contents out; an archive
// that is cut short or damaged is a UsageError that says so.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

struct ArchiveFile {
  std::string name;  // with its folders, as stored
  std::string text;
};

// The regular files, in the archive's order.
[[nodiscard]] std::vector<ArchiveFile> read_tar_xz(const std::string& path);

}  // namespace allocmark
