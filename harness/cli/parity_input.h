// What 'allocmark parity' reads: traces as operations, goldens from files, folders and archives.
// Bad files are UsageErrors that name them.
#pragma once

#include <string>
#include <vector>

#include "harness/bundle/archive.h"
#include "harness/parity/parity.h"

namespace allocmark {

// The whole of a file, packed or not; `what` says what is wrong where it is damaged.
[[nodiscard]] std::string read_packed(const std::string& path, const std::string& what);

// A workload or a trace file.
[[nodiscard]] std::vector<caching::ParityOperation> read_operations(const std::string& trace);

// The goldens that a path stands for: a file (also packed), the .txt files of a folder, or those in
// a .tar, .tar.gz or .tar.zst archive; by name.
[[nodiscard]] std::vector<ArchiveFile> read_goldens(const std::string& path);

}  // namespace allocmark
