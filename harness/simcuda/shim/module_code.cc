#include "harness/simcuda/shim/module_code.h"

#include <algorithm>

namespace simcuda {
namespace {

// DWARF's pointer encodings, as unwind tables use them.
constexpr std::uint8_t kOmitted = 0xff;
constexpr std::uint8_t kUnsigned4 = 0x03;
constexpr std::uint8_t kTableOfSigned4 = 0x3b;  // relative to the table
constexpr std::uint8_t kRelativeSigned4 = 0x1b;

std::uint64_t encoded_bytes(std::uint8_t encoding) {
  switch (encoding & 0x0f) {
    case 0x02:
    case 0x0a:
      return 2;
    case 0x03:
    case 0x0b:
      return 4;
    default:
      return 8;
  }
}

// Reads what has no fixed length; `at` moves behind it. False at the end.
bool skip_leb(std::span<const unsigned char> bytes, std::uint64_t& at) {
  while (at < bytes.size()) {
    if ((bytes[at++] & 0x80) == 0) return true;
  }
  return false;
}

// An entry's rules are those that all functions begin with. A part that was split off begins in the
// middle, with rules of its own.
bool begins_as_entry(std::span<const unsigned char> rules) {
  for (const unsigned char rule : rules) {
    if (rule != 0) return (rule >> 6) == 1 || (rule >= 2 && rule <= 4);  // DW_CFA_advance_loc
  }
  return true;
}

// Where the operand that ends the instruction leads; empty where the code ends before.
std::optional<std::uint64_t> relative(CodeBytes code, std::uint64_t operand_at,
                                      std::uint64_t start) {
  std::int32_t distance = 0;
  if (operand_at + sizeof distance > code.size()) return std::nullopt;
  std::memcpy(&distance, code.data() + operand_at, sizeof distance);
  return start + operand_at + sizeof distance +
         static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
}

bool is_relative(unsigned char operand) { return (operand & 0xc7) == 0x05; }

bool is_wide(unsigned char prefix) { return (prefix & 0xfb) == 0x48; }

// mov, movq
std::optional<std::uint64_t> read_address(CodeBytes code, std::uint64_t at, std::uint64_t start) {
  if (at + 8 > code.size()) return std::nullopt;
  if (is_wide(code[at]) && code[at + 1] == 0x8b && is_relative(code[at + 2])) {
    return relative(code, at + 3, start);
  }
  const bool is_movq = code[at] == 0xf3 && code[at + 1] == 0x0f && code[at + 2] == 0x7e;
  return is_movq && is_relative(code[at + 3]) ? relative(code, at + 4, start) : std::nullopt;
}

}  // namespace

std::uint64_t dynamic_value(const dl_phdr_info& module, std::int64_t tag) {
  const ModuleCode code(module);
  for (unsigned i = 0; i < module.dlpi_phnum; ++i) {
    if (module.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = module.dlpi_addr + module.dlpi_phdr[i].p_vaddr;;
         at += sizeof(ElfW(Dyn))) {
      const std::optional<ElfW(Dyn)> entry = code.read<ElfW(Dyn)>(at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == tag) return entry->d_un.d_val;
    }
  }
  return 0;
}

std::optional<std::uint64_t> loaded_address(CodeBytes code, std::uint64_t at, std::uint64_t start) {
  const bool is_load = at + 7 <= code.size() && is_wide(code[at]) && code[at + 1] == 0x8d &&
                       is_relative(code[at + 2]);
  return is_load ? relative(code, at + 3, start) : std::nullopt;
}

std::optional<std::uint64_t> referred_address(const ModuleCode& module, CodeBytes code,
                                              std::uint64_t at, std::uint64_t start) {
  if (const std::optional<std::uint64_t> loaded = loaded_address(code, at, start)) return loaded;
  const std::optional<std::uint64_t> place = read_address(code, at, start);
  return place ? module.read<std::uint64_t>(*place) : std::nullopt;
}

std::optional<std::uint64_t> called_function(const ModuleCode& module, CodeBytes code,
                                             std::uint64_t at, std::uint64_t start) {
  constexpr unsigned char kCall = 0xe8;
  if (at >= code.size() || code[at] != kCall) return std::nullopt;
  const std::optional<std::uint64_t> to = relative(code, at + 1, start);
  return to && module.index_of(*to) != module.function_count() ? to : std::nullopt;
}

ModuleCode::ModuleCode(const dl_phdr_info& module) {
  std::uint64_t header = 0;
  for (unsigned i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    const std::uint64_t begin = module.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && (part.p_flags & PF_R) != 0) {
      parts_.push_back({.begin = begin, .end = begin + part.p_memsz});
    }
    if (part.p_type == PT_GNU_EH_FRAME) header = begin;
  }
  if (header != 0) find_table(header);
}

void ModuleCode::find_table(std::uint64_t header) {
  constexpr std::uint64_t kHeaderBytes = 12;
  const std::span<const unsigned char> head = bytes(header, kHeaderBytes);
  if (head.empty() || head[0] != 1 || head[1] != kRelativeSigned4 || head[2] != kUnsigned4 ||
      head[3] != kTableOfSigned4) {
    return;
  }
  const std::uint64_t count = read<std::uint32_t>(header + 8).value_or(0);
  const std::span<const unsigned char> rows =
      bytes(header + kHeaderBytes, count * sizeof(TableRow));
  if (rows.empty()) return;
  header_ = header;
  rows_ = rows.data();
  function_count_ = count;
}

std::span<const unsigned char> ModuleCode::bytes_up_to(std::uint64_t address,
                                                       std::uint64_t count_max) const {
  for (const Part& part : parts_) {
    if (address >= part.begin && address < part.end) {
      return {reinterpret_cast<const unsigned char*>(address),
              std::min(count_max, part.end - address)};
    }
  }
  return {};
}

std::span<const unsigned char> ModuleCode::bytes(std::uint64_t address, std::uint64_t count) const {
  const std::span<const unsigned char> found = bytes_up_to(address, count);
  return found.size() == count ? found : std::span<const unsigned char>();
}

std::string_view ModuleCode::text_at(std::uint64_t address, std::uint64_t count_max) const {
  const std::span<const unsigned char> found = bytes_up_to(address, count_max);
  const std::string_view all(reinterpret_cast<const char*>(found.data()), found.size());
  const std::size_t end = all.find('\0');
  return end == std::string_view::npos ? std::string_view() : all.substr(0, end);
}

std::span<const unsigned char> ModuleCode::code_from(std::uint64_t start) {
  const std::uint64_t index = index_of(start);
  if (index == function_count_) return {};
  const std::optional<CodeRange> range = function(index);
  return range ? bytes(start, range->size_bytes) : std::span<const unsigned char>();
}

ModuleCode::TableRow ModuleCode::row(std::uint64_t index) const {
  TableRow found;
  std::memcpy(&found, rows_ + index * sizeof found, sizeof found);
  return found;
}

std::uint64_t ModuleCode::start_of(std::uint64_t index) const {
  return header_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(row(index).start));
}

std::uint64_t ModuleCode::index_of(std::uint64_t start) const {
  std::uint64_t low = 0;
  std::uint64_t high = function_count_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (start_of(middle) < start) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < function_count_ && start_of(low) == start ? low : function_count_;
}

// How the descriptions that share this one (DWARF's CIE) write addresses.
std::uint8_t ModuleCode::pointer_encoding(std::uint64_t common) {
  const auto [known, is_new] = encodings_.try_emplace(common, kOmitted);
  if (!is_new) return known->second;
  const std::uint64_t size_bytes = 4 + std::uint64_t{read<std::uint32_t>(common).value_or(0)};
  const std::span<const unsigned char> all = bytes(common, size_bytes);
  std::uint64_t at = 9;
  if (all.size() <= at || all[at] != 'z') return kOmitted;
  const auto* const letters = reinterpret_cast<const char*>(all.data()) + at;
  const std::uint64_t letter_count = strnlen(letters, all.size() - at);
  at += letter_count + 1;
  // Two alignments, the return address's register, the length of what follows.
  for (int i = 0; i < 4; ++i) {
    if (!skip_leb(all, at)) return kOmitted;
  }
  for (std::uint64_t i = 1; i < letter_count && at < all.size(); ++i) {
    if (letters[i] == 'R') return known->second = all[at];
    if (letters[i] == 'P') at += encoded_bytes(all[at]);
    if (letters[i] == 'P' || letters[i] == 'L') ++at;
  }
  return kOmitted;
}

std::optional<CodeRange> ModuleCode::function(std::uint64_t index) {
  const std::uint64_t start = start_of(index);
  const std::uint64_t description =
      header_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(row(index).description));
  const std::optional<std::uint32_t> rest_bytes = read<std::uint32_t>(description);
  const std::optional<std::uint32_t> to_common = read<std::uint32_t>(description + 4);
  if (!rest_bytes || !to_common) return std::nullopt;
  if (pointer_encoding(description + 4 - *to_common) != kRelativeSigned4) return std::nullopt;
  const std::span<const unsigned char> all = bytes(description, 4 + std::uint64_t{*rest_bytes});
  constexpr std::uint64_t kFixedBytes = 16;  // length, common, start, size
  if (all.size() <= kFixedBytes) return std::nullopt;
  std::int32_t to_start = 0;
  std::uint32_t size_bytes = 0;
  std::memcpy(&to_start, all.data() + 8, sizeof to_start);
  std::memcpy(&size_bytes, all.data() + 12, sizeof size_bytes);
  if (description + 8 + static_cast<std::uint64_t>(static_cast<std::int64_t>(to_start)) != start ||
      bytes(start, size_bytes).empty()) {
    return std::nullopt;
  }
  const std::uint64_t rules_at = kFixedBytes + 1 + all[kFixedBytes];
  return CodeRange{.start = start,
                   .size_bytes = size_bytes,
                   .is_entry = rules_at <= all.size() && begins_as_entry(all.subspan(rules_at))};
}

}  // namespace simcuda
