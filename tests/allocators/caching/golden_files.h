// Reads the recorded traces (.ops.csv.gz) and goldens (.tar.xz) for the tests of this folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/parity/parity.h"

namespace allocmark::caching {

// The whole of a gzip file; fails the test where it cannot be read.
[[nodiscard]] std::string read_gzip(const std::string& path);

// The files in a .tar.xz, name -> contents.
[[nodiscard]] std::map<std::string, std::string> read_tar_xz(const std::string& path);

// The text format of traces: op,id,size,stream.
[[nodiscard]] std::vector<ParityOperation> parse_trace(const std::string& text);

}  // namespace allocmark::caching
