#include "harness/simcuda/launcher/elf_facts.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace simcuda {
namespace {

// A copy of the object at `offset`; nothing where the file ends before.
template <class T>
std::optional<T> read_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void read_dynamic(std::string_view bytes, const Elf64_Shdr& dynamic, const Elf64_Shdr& strings,
                  ElfFacts& facts) {
  for (std::uint64_t at = 0; at < dynamic.sh_size; at += sizeof(Elf64_Dyn)) {
    const auto entry = read_at<Elf64_Dyn>(bytes, dynamic.sh_offset + at);
    if (!entry || entry->d_tag == DT_NULL) return;
    facts.has_rpath = facts.has_rpath || entry->d_tag == DT_RPATH;
    const std::uint64_t name_at = strings.sh_offset + entry->d_un.d_val;
    if (entry->d_tag == DT_NEEDED && name_at < bytes.size()) {
      const std::string_view rest = bytes.substr(name_at, 256);
      facts.needed.emplace_back(rest.substr(0, rest.find('\0')));
    }
  }
}

}  // namespace

ElfFacts read_elf_facts(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  const std::string_view bytes = content;
  ElfFacts facts;
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return facts;
  }
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section || section->sh_type != SHT_DYNAMIC) continue;
    const auto strings =
        read_at<Elf64_Shdr>(bytes, header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
    if (strings) {
      read_dynamic(bytes, *section, *strings, facts);
    }
  }
  return facts;
}

}  // namespace simcuda
