#include "harness/simcuda/shim/kernel_registrations.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/simcuda/shim/fat_binary.h"
#include "harness/simcuda/shim/module_code.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kKernelNameBytesMax = 16384;

std::string_view word_at(const ModuleCode& module, std::uint64_t address) {
  const std::string_view word = module.text_at(address, kKernelNameBytesMax);
  const bool is_word = std::all_of(word.begin(), word.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '$' || letter == '.';
  });
  return is_word ? word : std::string_view();
}

// What the arguments of a call may be, from the instructions before it.
struct SeenArguments {
  std::uint64_t function = 0;
  std::uint64_t variable = 0;
  std::string_view name;
  std::size_t size_bytes = 0;
};

void note_address(const ModuleCode& module, std::uint64_t address, SeenArguments& arguments) {
  if (module.index_of(address) != module.function_count()) {
    arguments.function = address;
  } else if (const std::string_view word = word_at(module, address); !word.empty()) {
    arguments.name = word;
  } else {
    arguments.variable = address;
  }
}

// mov $size, %r9d
std::size_t sixth_argument(CodeBytes code, std::uint64_t at) {
  std::uint32_t value = 0;
  if (at + 6 > code.size() || code[at] != 0x41 || code[at + 1] != 0xb9) return 0;
  std::memcpy(&value, code.data() + at + 2, sizeof value);
  return value;
}

void note_call(const SeenArguments& arguments, Registrations& found) {
  if (arguments.name.empty()) return;
  if (arguments.function != 0) {
    found.kernels.emplace(arguments.function, arguments.name);
  } else if (arguments.variable != 0 && arguments.size_bytes != 0) {
    found.variables.emplace(arguments.variable, VariableFacts{.name = std::string(arguments.name),
                                                              .size_bytes = arguments.size_bytes,
                                                              .first_bytes = {}});
  }
}

// __cudaRegisterFunction(handle, function, name, name, -1, ...) and
// __cudaRegisterVar(handle, variable, name, name, is_external, size, ...).
void read_start_up(const ModuleCode& module, CodeBytes code, std::uint64_t start,
                   Registrations& found) {
  bool has_binary = false;
  SeenArguments arguments;
  for (std::uint64_t at = 0; at < code.size(); ++at) {
    if (const std::optional<std::uint64_t> address = referred_address(module, code, at, start)) {
      has_binary = has_binary || module.read<std::uint32_t>(*address) == kFatWrapperMagic;
      note_address(module, *address, arguments);
    }
    if (const std::size_t size_bytes = sixth_argument(code, at); size_bytes != 0) {
      arguments.size_bytes = size_bytes;
    }
    if (!called_function(module, code, at, start)) continue;
    if (has_binary) note_call(arguments, found);
    arguments = {};
  }
}

// Addresses of start-up functions: of the list that the linker runs, and of the older one behind
// it (.ctors), which begins with -1 and ends with 0. cuBLAS has both.
std::vector<std::uint64_t> start_up_functions(const dl_phdr_info& info, const ModuleCode& module) {
  std::vector<std::uint64_t> found;
  const auto word = [&](std::uint64_t at) {
    return module.read<std::uint64_t>(info.dlpi_addr + at).value_or(0);
  };
  const std::uint64_t begin = dynamic_value(info, DT_INIT_ARRAY);
  const std::uint64_t end = begin + dynamic_value(info, DT_INIT_ARRAYSZ);
  for (std::uint64_t at = begin; at < end; at += sizeof at) found.push_back(word(at));
  std::uint64_t at = dynamic_value(info, DT_FINI_ARRAY) + dynamic_value(info, DT_FINI_ARRAYSZ);
  if (at == 0 || word(at) != ~std::uint64_t{0}) return found;
  for (at += sizeof at; word(at) != 0; at += sizeof at) found.push_back(word(at));
  return found;
}

// Calls `visit` with the code of each of the module's start-up functions, and its address.
template <class Visit>
void each_start_up(const dl_phdr_info& info, ModuleCode& module, const Visit& visit) {
  for (const std::uint64_t start : start_up_functions(info, module)) {
    if (const CodeBytes code = module.code_from(start); !code.empty()) visit(code, start);
  }
}

// The function that is called behind the first mention of a fat binary; 0: none.
std::uint64_t call_behind_binary(const ModuleCode& module, CodeBytes code, std::uint64_t start) {
  bool has_binary = false;
  for (std::uint64_t at = 0; at < code.size(); ++at) {
    const std::optional<std::uint64_t> address = loaded_address(code, at, start);
    has_binary =
        has_binary || (address && module.read<std::uint32_t>(*address) == kFatWrapperMagic);
    const std::optional<std::uint64_t> to = called_function(module, code, at, start);
    if (has_binary && to) return *to;
  }
  return 0;
}

}  // namespace

Registrations read_registrations(const dl_phdr_info& info) {
  ModuleCode module(info);
  Registrations found;
  each_start_up(info, module, [&](CodeBytes code, std::uint64_t start) {
    read_start_up(module, code, start, found);
  });
  return found;
}

std::uint64_t register_binary_function(const dl_phdr_info& info) {
  ModuleCode module(info);
  std::uint64_t found = 0;
  each_start_up(info, module, [&](CodeBytes code, std::uint64_t start) {
    if (found == 0) found = call_behind_binary(module, code, start);
  });
  return found;
}

}  // namespace simcuda
