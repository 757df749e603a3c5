// Tar archives, .tar.zst, .tar.gz or .tar: bundles are written and read, goldens are read. Files in
// memory flow in or out. Reading a bundle never throws for what is in it: damage is an answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace allocmark {

struct ArchiveFile {
  std::string name;  // with its folders, as stored
  std::string text;
};

struct TarContents {
  std::vector<ArchiveFile> files;   // regular files, up to where the archive is damaged
  std::vector<std::string> others;  // names of what is no regular file: links, devices
  std::string damage;               // empty where the archive is whole
};

// Throws UsageError where there is no such file or its suffix is none of ours. No more than
// `size_bytes_max` is unpacked; more counts as damage.
[[nodiscard]] TarContents read_tar(const std::string& path, std::uint64_t size_bytes_max);

// What read_whole_tar unpacks at most.
inline constexpr std::uint64_t kWholeTarBytesMax = std::uint64_t{1} << 30;

// The regular files, in the archive's order. An archive that is damaged, cut short or larger than
// kWholeTarBytesMax is a UsageError that says so.
[[nodiscard]] std::vector<ArchiveFile> read_whole_tar(const std::string& path);

// The same files give the same bytes: no times, no owners, in the order given. Names have at most
// 100 bytes. Throws FileError where the disk refuses.
void write_tar(const std::string& path, const std::vector<ArchiveFile>& files);

}  // namespace allocmark
