#include "tests/allocators/caching/golden_files.h"

#include <zlib.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "workloads/trace/archive.h"

namespace allocmark::caching {
std::string read_gzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string result;
  std::array<char, 1 << 16> buffer{};
  int count = 0;
  while ((count = gzread(file, buffer.data(), buffer.size())) > 0)
    result.append(buffer.data(), count);
  gzclose(file);
  if (count < 0) throw std::runtime_error(path + " is no whole .gz file");
  return result;
}

std::map<std::string, std::string> read_goldens(const std::string& program) {
  const std::string folder = "tests/golden/caching/";
  const bool is_gzip = std::filesystem::exists(folder + program + ".tar.gz");
  std::map<std::string, std::string> files;
  for (ArchiveFile& file : read_whole_tar(folder + program + (is_gzip ? ".tar.gz" : ".tar.zst")))
    files[file.name] = std::move(file.text);
  return files;
}

std::vector<ParityOperation> parse_trace(const std::string& text) {
  static const std::map<std::string, ParityOperationKind> kKinds = {
      {"alloc", ParityOperationKind::Alloc},   {"free", ParityOperationKind::Free},
      {"record", ParityOperationKind::Record}, {"busy", ParityOperationKind::Busy},
      {"sync", ParityOperationKind::Sync},     {"empty_cache", ParityOperationKind::EmptyCache},
      {"mark", ParityOperationKind::Mark}};
  std::vector<ParityOperation> trace;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::array<std::string, 4> field;
    for (std::string& item : field) std::getline(fields, item, ',');
    ParityOperation operation{.kind = kKinds.at(field[0])};
    if (operation.kind != ParityOperationKind::Mark) {
      operation.id = std::stoull(field[1]);
      operation.size_bytes = std::stoull(field[2]);
      operation.stream = static_cast<std::uint32_t>(std::stoul(field[3]));
    }
    trace.push_back(operation);
  }
  return trace;
}

}  // namespace allocmark::caching
