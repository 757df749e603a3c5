// The stable id of a cell, as results/FORMAT.md documents it: FNV-1a (64 bits) over the key's
// fields as netstrings.
#include "results/schema.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "results/utf8.h"

namespace allocmark {
namespace {

std::string netstring(std::string_view text) {
  const std::string stored = valid_utf8(text);
  return fmt::format("{}:{},", stored.size(), stored);
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  }
  return hash;
}

}  // namespace

std::string CellKey::id() const {
  std::string bytes = netstring(workload) + netstring(allocator) + netstring(conf) +
                      netstring(device) + netstring(capacity) + netstring(std::to_string(seed)) +
                      netstring(on_oom);
  const bool has_files = !workload_files.empty();
  if (!workload_definition.empty() || has_files) bytes += netstring(workload_definition);
  if (has_files) bytes += netstring(workload_files);
  return fmt::format("{:016x}", fnv1a(bytes));
}

std::string CellKey::id_by_name() const {
  CellKey named = *this;
  named.workload_definition.clear();
  named.workload_files.clear();
  return named.id();
}

}  // namespace allocmark
