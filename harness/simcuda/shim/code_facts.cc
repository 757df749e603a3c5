#include "harness/simcuda/shim/code_facts.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "harness/simcuda/shim/fat_binary.h"

namespace simcuda {
namespace {

constexpr std::uint16_t kMachine = 190;  // EM_CUDA
// Records of .nv.info sections.
constexpr unsigned kRegisters = 0x2f;
constexpr unsigned kFrameBytes = 0x11;
constexpr unsigned kParameter = 0x17;
constexpr unsigned kThreadsMax = 0x05;
constexpr unsigned kSized = 4;  // the record's form that has data
// From 9.0 on the system takes the first of a block's shared memory.
constexpr int kReservedSince = 90;
constexpr std::size_t kReservedSharedBytes = 1024;

KernelFacts* kernel_named(CodeFacts& facts, std::string_view name) {
  const auto found = std::ranges::find(facts.kernels, name, &KernelFacts::name);
  return found == facts.kernels.end() ? nullptr : &*found;
}

// ---- a binary of one architecture

class Binary {
 public:
  explicit Binary(const unsigned char* bytes)
      : bytes_(bytes), header_(read_value<Elf64_Ehdr>(bytes)) {}

  [[nodiscard]] CodeFacts read() const {
    CodeFacts facts;
    facts.kind = CodeFacts::Kind::Read;
    // Where it stands has changed with version 8 of the format.
    facts.architecture = static_cast<int>(
        header_.e_ident[EI_ABIVERSION] >= 8 ? header_.e_flags >> 8 & 0xff : header_.e_flags & 0xff);
    for_each_section([&](const Elf64_Shdr& section, std::string_view name) {
      if (section.sh_type == SHT_SYMTAB) read_symbols(section, facts);
      if (name == ".nv.constant3") facts.constant_bytes = static_cast<int>(section.sh_size);
    });
    for_each_section([&](const Elf64_Shdr& section, std::string_view name) {
      read_section(section, name, facts);
    });
    return facts;
  }

 private:
  template <class Each>
  void for_each_section(Each&& each) const {
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      const Elf64_Shdr section = section_at(i);
      each(section, text_at(section_at(header_.e_shstrndx), section.sh_name));
    }
  }
  [[nodiscard]] Elf64_Shdr section_at(std::size_t index) const {
    return read_value<Elf64_Shdr>(bytes_ + header_.e_shoff + index * sizeof(Elf64_Shdr));
  }
  [[nodiscard]] std::string_view text_at(const Elf64_Shdr& strings, std::size_t offset) const {
    return reinterpret_cast<const char*>(bytes_ + strings.sh_offset + offset);
  }
  [[nodiscard]] Elf64_Sym symbol_at(const Elf64_Shdr& symbols, std::size_t index) const {
    return read_value<Elf64_Sym>(bytes_ + symbols.sh_offset + index * sizeof(Elf64_Sym));
  }

  void read_symbols(const Elf64_Shdr& symbols, CodeFacts& facts) const {
    const Elf64_Shdr strings = section_at(symbols.sh_link);
    for (std::size_t i = 0; i < symbols.sh_size / sizeof(Elf64_Sym); ++i) {
      const Elf64_Sym symbol = symbol_at(symbols, i);
      const std::string_view name = text_at(strings, symbol.st_name);
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= header_.e_shnum) continue;
      if (type == STT_FUNC && (symbol.st_other & kIsEntry) != 0) {
        facts.kernels.emplace_back().name = std::string(name);
      }
      if (type == STT_OBJECT) read_variable(symbol, name, facts);
    }
  }
  // Of global memory, or of the constants that a program names.
  void read_variable(const Elf64_Sym& symbol, std::string_view name, CodeFacts& facts) const {
    const Elf64_Shdr section = section_at(symbol.st_shndx);
    const std::string_view place = text_at(section_at(header_.e_shstrndx), section.sh_name);
    if (!place.starts_with(".nv.global") && place != ".nv.constant3") return;
    VariableFacts& variable =
        facts.variables.emplace_back(VariableFacts{std::string(name), symbol.st_size, {}});
    if (section.sh_type != SHT_NOBITS) {
      const unsigned char* const first = bytes_ + section.sh_offset + symbol.st_value;
      variable.first_bytes.assign(first, first + symbol.st_size);
    }
  }

  void read_section(const Elf64_Shdr& section, std::string_view name, CodeFacts& facts) const {
    constexpr std::string_view kShared = ".nv.shared.";
    constexpr std::string_view kInfo = ".nv.info.";
    if (name.starts_with(kShared)) {
      KernelFacts* const kernel = kernel_named(facts, name.substr(kShared.size()));
      const std::size_t reserved =
          facts.architecture >= kReservedSince ? kReservedSharedBytes : std::size_t{0};
      if (kernel != nullptr) {
        kernel->shared_bytes =
            static_cast<int>(section.sh_size - std::min<std::size_t>(section.sh_size, reserved));
      }
    } else if (name == ".nv.info") {
      for_each_record(section, [&](unsigned what, const unsigned char* data) {
        if (what == kRegisters || what == kFrameBytes) read_total(section, what, data, facts);
      });
    } else if (name.starts_with(kInfo)) {
      if (KernelFacts* const kernel = kernel_named(facts, name.substr(kInfo.size()))) {
        read_kernel(section, *kernel);
      }
    }
  }
  // The table that the section names, or the file's one: cuBLAS has images that name none.
  [[nodiscard]] Elf64_Shdr symbols_of(const Elf64_Shdr& info) const {
    Elf64_Shdr found = section_at(info.sh_link);
    if (found.sh_type != SHT_SYMTAB) found = {};
    for_each_section([&](const Elf64_Shdr& section, std::string_view) {
      if (found.sh_type != SHT_SYMTAB && section.sh_type == SHT_SYMTAB) found = section;
    });
    return found;
  }
  // A record of all kernels: the kernel's symbol, and a number.
  void read_total(const Elf64_Shdr& info, unsigned what, const unsigned char* data,
                  CodeFacts& facts) const {
    const Elf64_Shdr symbols = symbols_of(info);
    const std::uint32_t index = read_value<std::uint32_t>(data);
    if (index >= symbols.sh_size / sizeof(Elf64_Sym)) return;
    const Elf64_Sym symbol = symbol_at(symbols, index);
    KernelFacts* const kernel =
        kernel_named(facts, text_at(section_at(symbols.sh_link), symbol.st_name));
    if (kernel == nullptr) return;
    (what == kRegisters ? kernel->register_count : kernel->local_bytes) =
        read_value<std::int32_t>(data + 4);
  }
  void read_kernel(const Elf64_Shdr& info, KernelFacts& kernel) const {
    for_each_record(info, [&](unsigned what, const unsigned char* data) {
      if (what == kThreadsMax) {
        kernel.threads_max = read_value<std::int32_t>(data) * read_value<std::int32_t>(data + 4) *
                             read_value<std::int32_t>(data + 8);
      } else if (what == kParameter) {
        const std::size_t ordinal = read_value<std::uint16_t>(data + 4);
        if (kernel.parameters.size() <= ordinal) kernel.parameters.resize(ordinal + 1);
        kernel.parameters[ordinal] = {read_value<std::uint16_t>(data + 6),
                                      read_value<std::uint32_t>(data + 8) >> 18};
      }
    });
  }
  template <class Each>
  void for_each_record(const Elf64_Shdr& info, Each&& each) const {
    const unsigned char* const begin = bytes_ + info.sh_offset;
    for (std::size_t at = 0; at + 4 <= info.sh_size;) {
      const unsigned form = begin[at];
      const unsigned what = begin[at + 1];
      const std::size_t size = read_value<std::uint16_t>(begin + at + 2);
      at += 4;
      if (form != kSized) continue;
      each(what, begin + at);
      at += size;
    }
  }

  static constexpr unsigned kIsEntry = 0x10;  // in st_other: a kernel, no function of the device
  const unsigned char* bytes_;
  Elf64_Ehdr header_;
};

// ---- PTX

// A name of PTX: letters, digits, _, $ and %.
bool is_name_part(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '$' ||
         letter == '%';
}

class Ptx {
 public:
  explicit Ptx(std::string_view text) : text_(without_comments(text)) {}

  [[nodiscard]] CodeFacts read() const {
    CodeFacts facts;
    facts.kind = CodeFacts::Kind::Read;
    const std::size_t target = text_.find(".target");
    const std::size_t digits =
        target == std::string::npos ? target : text_.find_first_of("0123456789", target);
    if (digits != std::string::npos) facts.architecture = std::atoi(text_.c_str() + digits);
    int depth = 0;
    std::size_t begin = 0;  // of the statement
    for (std::size_t at = 0; at < text_.size(); ++at) {
      if (text_[at] == '{' && depth++ == 0 && !is_variable(begin, at)) {
        read_kernel(std::string_view(text_).substr(begin, at - begin), facts);
      }
      if (text_[at] == '}' && --depth == 0 && !is_variable(begin, at)) begin = at + 1;
      if (text_[at] != ';' || depth != 0) continue;
      read_variable(std::string_view(text_).substr(begin, at - begin), facts);
      begin = at + 1;
    }
    return facts;
  }

 private:
  static std::string without_comments(std::string_view text) {
    std::string clean;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text.substr(at, 2) == "//") {
        at = std::min(text.find('\n', at), text.size() - 1);
      } else if (text.substr(at, 2) == "/*") {
        at = std::min(text.find("*/", at + 2), text.size() - 2) + 1;
        continue;
      }
      clean += text[at];
    }
    return clean;
  }
  // First values stand in braces, too.
  [[nodiscard]] bool is_variable(std::size_t begin, std::size_t end) const {
    return text_.substr(begin, end - begin).find('=') != std::string::npos;
  }
  static std::string_view word_at(std::string_view text, std::size_t at) {
    at = std::min(at, text.size());
    while (at < text.size() && !is_name_part(text[at])) ++at;
    std::size_t end = at;
    while (end < text.size() && is_name_part(text[end])) ++end;
    return text.substr(at, end - at);
  }
  static std::size_t bytes_of_type(std::string_view type) {
    const std::string_view bits =
        type.substr(std::min(type.find_first_of("0123456789"), type.size()));
    const std::size_t size = static_cast<std::size_t>(std::atoi(std::string(bits).c_str())) / 8;
    return std::max<std::size_t>(size, 1);
  }
  // Number after the word, or else 0.
  static std::size_t number_after(std::string_view text, std::string_view word) {
    const std::size_t at = text.find(word);
    return at == std::string_view::npos
               ? 0
               : static_cast<std::size_t>(
                     std::atoll(std::string(text.substr(at + word.size(), 24)).c_str()));
  }

  // `.param .align 8 .b8 name[16]`, or `.global .u32 name`: how many bytes.
  struct Declared {
    std::string_view name;
    std::size_t element_bytes = 1;
    std::size_t size_bytes = 1;
    std::size_t align_bytes = 1;
  };
  static Declared declared(std::string_view text) {
    Declared result;
    std::size_t end = text.find('=');
    if (end == std::string_view::npos) end = text.size();
    text = text.substr(0, end);
    std::size_t count = 1;
    for (std::size_t at = text.find('['); at != std::string_view::npos;
         at = text.find('[', at + 1)) {
      count *= static_cast<std::size_t>(std::atoll(std::string(text.substr(at + 1, 24)).c_str()));
    }
    std::string_view head = text.substr(0, std::min(text.find('['), text.size()));
    while (!head.empty() && !is_name_part(head.back())) head.remove_suffix(1);
    std::size_t name_at = head.size();
    while (name_at > 0 && is_name_part(head[name_at - 1])) --name_at;
    result.name = head.substr(name_at);
    const std::size_t dot = head.rfind('.', name_at);
    if (dot != std::string_view::npos) result.element_bytes = bytes_of_type(word_at(head, dot));
    result.size_bytes = result.element_bytes * count;
    result.align_bytes = std::max(number_after(text, ".align"), result.element_bytes);
    return result;
  }

  static void read_kernel(std::string_view head, CodeFacts& facts) {
    const std::size_t entry = head.find(".entry");
    if (entry == std::string_view::npos) return;
    KernelFacts& kernel = facts.kernels.emplace_back();
    kernel.name = std::string(word_at(head, entry + 6));
    if (const std::size_t at = head.find(".maxntid"); at != std::string_view::npos) {
      int dimensions[3] = {1, 1, 1};
      std::sscanf(std::string(head.substr(at + 8)).c_str(), "%d , %d , %d", &dimensions[0],
                  &dimensions[1], &dimensions[2]);
      kernel.threads_max = dimensions[0] * dimensions[1] * dimensions[2];
    }
    std::size_t offset = 0;
    const std::size_t last = std::min(head.find(')'), head.size());
    for (std::size_t at = head.find(".param"); at < last; at = head.find(".param", at + 1)) {
      const std::size_t end = std::min(head.find_first_of(",)", at), head.size());
      const Declared parameter = declared(head.substr(at, end - at));
      offset = (offset + parameter.align_bytes - 1) / parameter.align_bytes * parameter.align_bytes;
      kernel.parameters.push_back({offset, parameter.size_bytes});
      offset += parameter.size_bytes;
    }
  }

  static void read_variable(std::string_view statement, CodeFacts& facts) {
    const std::size_t global = statement.find(".global");
    const std::size_t constant = statement.find(".const");
    const std::size_t begin = std::min(global, constant);
    if (begin == std::string_view::npos || statement.find(".extern") != std::string_view::npos) {
      return;
    }
    const Declared found = declared(statement.substr(begin));
    VariableFacts& variable =
        facts.variables.emplace_back(VariableFacts{std::string(found.name), found.size_bytes, {}});
    if (constant < global) facts.constant_bytes += static_cast<int>(found.size_bytes);
    if (const std::size_t values = statement.find('='); values != std::string_view::npos) {
      variable.first_bytes = bytes_of_values(statement.substr(values), found.element_bytes);
    }
  }
  // Numbers, and floating-point ones by their bits (0f3F800000).
  static std::vector<unsigned char> bytes_of_values(std::string_view text,
                                                    std::size_t element_bytes) {
    std::vector<unsigned char> bytes;
    for (std::size_t at = 0; at < text.size();) {
      const bool negative = text[at] == '-';
      const std::string_view word = word_at(text, at);
      if (word.empty()) break;
      if (negative || is_name_part(text[at])) {
        const bool is_float = word.size() > 2 && word[0] == '0' && (word[1] | 0x20) != 'x' &&
                              std::isalpha(static_cast<unsigned char>(word[1])) != 0;
        const std::string digits(is_float ? word.substr(2) : word);
        std::uint64_t value = std::strtoull(digits.c_str(), nullptr, is_float ? 16 : 0);
        if (negative) value = 0 - value;
        const auto* const raw = reinterpret_cast<const unsigned char*>(&value);
        bytes.insert(bytes.end(), raw, raw + std::min<std::size_t>(element_bytes, sizeof value));
        at = static_cast<std::size_t>(word.data() - text.data()) + word.size();
      } else {
        ++at;
      }
    }
    return bytes;
  }

  std::string text_;
};

// PTX is text that begins with a comment, a space or a directive.
bool begins_ptx(const unsigned char* bytes) {
  const unsigned char* at = bytes;
  while (std::isspace(*at) != 0) ++at;
  return *at == '.' || (*at == '/' && (at[1] == '/' || at[1] == '*'));
}

}  // namespace

CodeFacts read_code(const void* data) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  if (begins_ptx(bytes)) return Ptx(static_cast<const char*>(data)).read();
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    const auto header = read_value<Elf64_Ehdr>(bytes);
    return header.e_machine == kMachine ? Binary(bytes).read() : CodeFacts{};
  }
  const auto magic = read_value<std::uint32_t>(bytes);
  if (magic == kFatMagic) return read_fat_binary(bytes);
  if (magic == kFatWrapperMagic) return read_code(read_value<const void*>(bytes + 8));
  return {};
}

}  // namespace simcuda
