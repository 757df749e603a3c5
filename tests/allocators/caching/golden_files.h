// Reads the recorded traces (.ops.csv.gz) and goldens for the tests of this folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/tools/parity/parity.h"

namespace allocmark::caching {

// The whole of a gzip file; fails the test where it cannot be read.
[[nodiscard]] std::string read_gzip(const std::string& path);

// The recorded answers to a program, name of the file -> contents.
[[nodiscard]] std::map<std::string, std::string> read_goldens(const std::string& program);

// The text format of traces: op,id,size,stream.
[[nodiscard]] std::vector<ParityOperation> parse_trace(const std::string& text);

}  // namespace allocmark::caching
