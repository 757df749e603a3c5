// A loaded module's memory and the functions in it, by its unwind table (.eh_frame_hdr). In: what
// the dynamic linker says of the module. Out: bytes, and where functions start and end, stripped or
// not.
#pragma once

#include <link.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace simcuda {

struct CodeRange {
  std::uint64_t start = 0;
  std::uint64_t size_bytes = 0;
  bool is_entry = false;  // callers enter here: it is no part split off another function
};

class ModuleCode {
 public:
  explicit ModuleCode(const dl_phdr_info& module);

  // Empty where they do not lie in one part of the module that can be read.
  [[nodiscard]] std::span<const unsigned char> bytes(std::uint64_t address,
                                                     std::uint64_t count) const;
  template <class T>
  [[nodiscard]] std::optional<T> read(std::uint64_t address) const {
    const std::span<const unsigned char> found = bytes(address, sizeof(T));
    if (found.empty()) return std::nullopt;
    T value;
    std::memcpy(&value, found.data(), sizeof value);
    return value;
  }
  // From `address` on, as far as the part reaches and `count_max` allows.
  [[nodiscard]] std::span<const unsigned char> bytes_up_to(std::uint64_t address,
                                                           std::uint64_t count_max) const;

  // The text that begins there; empty where it does not end within `count_max` bytes.
  [[nodiscard]] std::string_view text_at(std::uint64_t address, std::uint64_t count_max) const;

  // In order of address; 0 where the module has no table of the usual form.
  [[nodiscard]] std::uint64_t function_count() const { return function_count_; }
  [[nodiscard]] std::uint64_t start_of(std::uint64_t index) const;
  [[nodiscard]] std::optional<CodeRange> function(std::uint64_t index);
  // The function that starts at the address; function_count() where none does.
  [[nodiscard]] std::uint64_t index_of(std::uint64_t start) const;
  // The whole code of that function; empty where none starts there, or its table is not understood.
  [[nodiscard]] std::span<const unsigned char> code_from(std::uint64_t start);

 private:
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct TableRow {  // relative to the table's header
    std::int32_t start = 0;
    std::int32_t description = 0;
  };
  [[nodiscard]] TableRow row(std::uint64_t index) const;
  void find_table(std::uint64_t header);
  [[nodiscard]] std::uint8_t pointer_encoding(std::uint64_t common);

  std::vector<Part> parts_;
  std::uint64_t header_ = 0;
  const unsigned char* rows_ = nullptr;
  std::uint64_t function_count_ = 0;
  std::map<std::uint64_t, std::uint8_t> encodings_;  // by address of what descriptions share
};

// What the module's dynamic section says of `tag`; 0 where it says nothing.
[[nodiscard]] std::uint64_t dynamic_value(const dl_phdr_info& module, std::int64_t tag);

// What the x86-64 instruction at `at` refers to by its own place; `start`: the code's address.
// Empty where another instruction stands there.
using CodeBytes = std::span<const unsigned char>;
[[nodiscard]] std::optional<std::uint64_t> loaded_address(CodeBytes code, std::uint64_t at,
                                                          std::uint64_t start);  // lea
// What the instruction loads: an address, or, as older code has it, what is where an address is.
[[nodiscard]] std::optional<std::uint64_t> referred_address(const ModuleCode& module,
                                                            CodeBytes code, std::uint64_t at,
                                                            std::uint64_t start);
// The function of the module that the instruction calls.
[[nodiscard]] std::optional<std::uint64_t> called_function(const ModuleCode& module, CodeBytes code,
                                                           std::uint64_t at, std::uint64_t start);

}  // namespace simcuda
