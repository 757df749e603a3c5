// Tar archives, .tar.zst, .tar.gz or .tar: bundles are written and read, goldens are read. Files
// flow in or out, long ones beside the memory. Reading a bundle never throws for what is in it:
// damage is an answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {

struct ArchiveFile {
  std::string name;  // with its folders, as stored
  std::string text;
};

// The same where the text may be long.
struct StoredFile {
  std::string name;
  StoredText text;
};

struct TarContents {
  std::vector<StoredFile> files;     // regular files, up to where the archive is damaged
  std::vector<std::string> folders;  // names of folders
  std::vector<std::string> others;   // names of what is neither: links, devices
  std::string damage;                // empty where the archive is whole
};

// More entries than this count as damage.
inline constexpr std::size_t kTarEntryCountMax = 100'000;

// Throws FileError where there is no such file. What would unpack beyond the limits is not
// unpacked and counts as damage, as do bytes after the archive's end.
[[nodiscard]] TarContents read_tar(const std::string& path, const UnpackLimits& limits);

// The regular files, in the archive's order. An archive that is damaged, cut short or beyond the
// limits is a UsageError that says so.
[[nodiscard]] std::vector<ArchiveFile> read_whole_tar(const std::string& path);

// The same files give the same bytes: no times, no owners, in the order given. Names have at most
// 100 bytes. Throws FileError where the disk refuses.
void write_tar(const std::string& path, const std::vector<StoredFile>& files);

}  // namespace allocmark
