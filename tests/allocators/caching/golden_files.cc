#include "tests/allocators/caching/golden_files.h"

#include <lzma.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace allocmark::caching {
namespace {

std::string read_xz(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  const std::string packed((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, UINT64_MAX, 0) != LZMA_OK)
    throw std::runtime_error("liblzma does not start");
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string result;
  std::array<char, 1 << 16> buffer{};
  lzma_ret code = LZMA_OK;
  while (code == LZMA_OK) {
    stream.next_out = reinterpret_cast<std::uint8_t*>(buffer.data());
    stream.avail_out = buffer.size();
    code = lzma_code(&stream, LZMA_FINISH);
    result.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (code != LZMA_STREAM_END) throw std::runtime_error(path + " is no whole .xz file");
  return result;
}

}  // namespace

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

// The old tar header is all that is needed: name at 0, size in octal at 124, kind at 156.
std::map<std::string, std::string> read_tar_xz(const std::string& path) {
  constexpr std::size_t kRecord = 512;
  const std::string tar = read_xz(path);
  std::map<std::string, std::string> files;
  for (std::size_t at = 0; at + kRecord <= tar.size() && tar[at] != '\0';) {
    const std::string name = tar.substr(at, 100).c_str();
    const std::size_t size = std::stoull(tar.substr(at + 124, 12), nullptr, 8);
    const char kind = tar[at + 156];
    if (kind == '0' || kind == '\0') files[name] = tar.substr(at + kRecord, size);
    at += kRecord + (size + kRecord - 1) / kRecord * kRecord;
  }
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
