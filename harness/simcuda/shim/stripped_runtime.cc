#include "harness/simcuda/shim/stripped_runtime.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "harness/simcuda/shim/kernel_registrations.h"
#include "harness/simcuda/shim/module_code.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kFunctionNameBytesMax = 96;
// Fewer functions with one first call in common are no runtime: it has 378 (12.0) to 443 (13.5).
constexpr std::uint64_t kFunctionsMin = 100;
// The runtime's functions lie together. Behind so many others there are no more.
constexpr std::uint64_t kOthersMax = 2000;

// The name of a CUDA function at the address; empty where another text or none is.
std::string_view name_at(const ModuleCode& module, std::uint64_t address) {
  const std::string_view name = module.text_at(address, kFunctionNameBytesMax);
  const std::size_t prefix_bytes = name.starts_with("cuda")     ? 4
                                   : name.starts_with("__cuda") ? 6
                                                                : 0;
  if (prefix_bytes == 0 || name.size() <= prefix_bytes ||
      std::isupper(static_cast<unsigned char>(name[prefix_bytes])) == 0) {
    return {};
  }
  const bool is_word = std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_';
  });
  return is_word ? name : std::string_view();
}

// A name that the instruction refers to.
std::string_view named_at(const ModuleCode& module, CodeBytes code, std::uint64_t at,
                          std::uint64_t start) {
  const std::optional<std::uint64_t> address = referred_address(module, code, at, start);
  return address ? name_at(module, *address) : std::string_view();
}

// Whether an instruction that begins so can be one of those: all of a module's code is asked.
bool may_refer(unsigned char first, unsigned char second) {
  return ((first & 0xfb) == 0x48 && (second == 0x8d || second == 0x8b)) ||
         (first == 0xf3 && second == 0x0f);
}

// The one name that the code refers to; empty where it has none or several.
std::string_view only_name(const ModuleCode& module, CodeBytes code, std::uint64_t start) {
  std::string_view only;
  for (std::uint64_t at = 0; at + 1 < code.size(); ++at) {
    if (!may_refer(code[at], code[at + 1])) continue;
    const std::string_view name = named_at(module, code, at, start);
    if (name.empty() || name == only) continue;
    if (!only.empty()) return {};
    only = name;
  }
  return only;
}

// Functions of the module that the code calls, in order; `visit` returns false to stop.
template <class Visit>
void each_call(const ModuleCode& module, CodeBytes code, std::uint64_t start, const Visit& visit) {
  for (std::uint64_t at = 0; at < code.size(); ++at) {
    const std::optional<std::uint64_t> to = called_function(module, code, at, start);
    if (to && !visit(*to)) return;
  }
}

std::vector<std::uint64_t> first_calls(const ModuleCode& module, CodeBytes code,
                                       std::uint64_t start, std::size_t count) {
  std::vector<std::uint64_t> calls;
  each_call(module, code, start, [&](std::uint64_t to) {
    calls.push_back(to);
    return calls.size() < count;
  });
  return calls;
}

std::uint64_t first_call(const ModuleCode& module, CodeBytes code, std::uint64_t start) {
  const std::vector<std::uint64_t> calls = first_calls(module, code, start, 1);
  return calls.empty() ? 0 : calls.front();
}

// Functions with a name, by what they call first.
using Groups = std::map<std::uint64_t, std::vector<RuntimeFunction>>;

Groups named_functions(ModuleCode& module) {
  Groups groups;
  std::uint64_t largest = 0;
  std::uint64_t others = 0;
  std::uint64_t end = ~std::uint64_t{0};
  // From the end, where linkers put the runtime's archive.
  for (std::uint64_t i = module.function_count(); i-- > 0;) {
    const std::optional<CodeRange> range = module.function(i);
    const std::uint64_t next = std::exchange(end, module.start_of(i));
    if (groups.contains(largest) && groups[largest].size() >= kFunctionsMin &&
        ++others > kOthersMax) {
      break;
    }
    if (!range || !range->is_entry) continue;
    const CodeBytes code = module.bytes(range->start, range->size_bytes);
    const std::string_view name = only_name(module, code, range->start);
    const std::uint64_t first = name.empty() ? 0 : first_call(module, code, range->start);
    if (first == 0) continue;
    groups[first].push_back({.address = range->start,
                             .room_bytes = std::min(range->size_bytes, next - range->start),
                             .name = std::string(name),
                             .is_known_by_code = true});
    if (!groups.contains(largest) || groups[first].size() > groups[largest].size()) largest = first;
    if (first == largest) others = 0;
  }
  return groups;
}

// Texts of the module's dynamic symbols.
std::string_view dynamic_strings(const dl_phdr_info& module) {
  std::uint64_t address = dynamic_value(module, DT_STRTAB);
  if (address < module.dlpi_addr) address += module.dlpi_addr;  // where the linker may not write
  const CodeBytes found = ModuleCode(module).bytes(address, dynamic_value(module, DT_STRSZ));
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

std::vector<std::uint64_t> first_two_calls(ModuleCode& module, std::uint64_t start) {
  return first_calls(module, module.code_from(start), start, 2);
}

const RuntimeFunction* named(const StrippedRuntime& runtime, std::string_view name) {
  const auto found = std::ranges::find(runtime.functions, name, &RuntimeFunction::name);
  return found == runtime.functions.end() ? nullptr : &*found;
}

// cudaGetExportTable has no name. It stands before __cudaRegisterFatBinary, which the module's
// start-up code calls, and first calls a function that begins as all that need the driver do: it
// finds the runtime's state and starts it. Taken only where all of this holds.
void add_export_table(const dl_phdr_info& info, ModuleCode& module, StrippedRuntime& found) {
  const RuntimeFunction* const usual = named(found, "cudaMalloc");
  const std::uint64_t next = register_binary_function(info);
  const std::uint64_t index = module.index_of(next);
  if (usual == nullptr || index == module.function_count() || index == 0) return;
  const std::vector<std::uint64_t> start_up = first_two_calls(module, usual->address);
  const std::vector<std::uint64_t> of_next = first_two_calls(module, next);
  const std::optional<CodeRange> range = module.function(index - 1);
  if (!range || !range->is_entry || start_up.size() != 2 || of_next.empty() ||
      of_next.front() != start_up.front()) {
    return;
  }
  const std::vector<std::uint64_t> inner = first_two_calls(module, range->start);
  if (inner.empty() || inner.front() == start_up.front() ||
      first_two_calls(module, inner.front()) != start_up) {
    return;
  }
  found.functions.push_back({.address = range->start,
                             .room_bytes = std::min(range->size_bytes, next - range->start),
                             .name = "cudaGetExportTable",
                             .is_known_by_code = true});
}

}  // namespace

bool may_carry_runtime(const dl_phdr_info& module) {
  // Its shared memory, and its search for functions by version.
  constexpr std::array kImports = {std::string_view("\0shm_unlink", 12),
                                   std::string_view("\0shmat", 7), std::string_view("\0dlvsym", 8)};
  const std::string_view strings = dynamic_strings(module);
  return std::all_of(kImports.begin(), kImports.end(), [&](std::string_view wanted) {
    return strings.find(wanted) != std::string_view::npos;
  });
}

StrippedRuntime find_stripped_runtime(const dl_phdr_info& info) {
  ModuleCode module(info);
  Groups groups = named_functions(module);
  if (groups.empty()) return {};
  const auto by_size = [](const Groups::value_type& one, const Groups::value_type& other) {
    return one.second.size() < other.second.size();
  };
  const std::vector<RuntimeFunction> all =
      std::move(std::max_element(groups.begin(), groups.end(), by_size)->second);
  std::map<std::string_view, int> counts;
  for (const RuntimeFunction& function : all) ++counts[function.name];
  if (counts.size() < kFunctionsMin) return {};
  StrippedRuntime found;
  for (const RuntimeFunction& function : all) {
    if (counts[function.name] == 1) found.functions.push_back(function);
  }
  for (const auto& [name, count] : counts) {
    if (count > 1) found.ambiguous.emplace_back(name);
  }
  // Wrappers of the runtime, which have its names, too, show no version.
  const RuntimeFunction* const get_version = named(found, "cudaRuntimeGetVersion");
  if (get_version != nullptr) found.version = runtime_version(info, get_version->address);
  if (found.version == 0) return {};
  add_export_table(info, module, found);
  return found;
}

unsigned runtime_version(const dl_phdr_info& info, std::uint64_t get_version) {
  ModuleCode module(info);
  std::set<unsigned> versions;
  // movl $13000, (%rdi) stands in a small function that it calls.
  const auto look = [&](std::uint64_t start) {
    const CodeBytes code = module.code_from(start);
    for (std::uint64_t at = 0; at + 6 <= code.size(); ++at) {
      std::uint32_t value = 0;
      std::memcpy(&value, code.data() + at + 2, sizeof value);
      if (code[at] == 0xc7 && code[at + 1] == 0x07 && value >= 10000 && value < 100000 &&
          value % 10 == 0) {
        versions.insert(value);
      }
    }
    return true;
  };
  each_call(module, module.code_from(get_version), get_version, look);
  return versions.size() == 1 ? *versions.begin() : 0;
}

}  // namespace simcuda
