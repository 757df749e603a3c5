#include "harness/simcuda/shim/static_runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/simcuda/core/units.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/code_patch.h"
#include "harness/simcuda/shim/kernel_registrations.h"
#include "harness/simcuda/shim/older_runtime.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/stripped_runtime.h"

namespace simcuda {
namespace {

// A local symbol in every object of the static runtime's archive begins like this.
constexpr std::string_view kArchiveMark = "libcudart_static_";
// The runtime makes shared memory of this name.
constexpr std::string_view kRuntimeMark = "/cudart.shm.";

constexpr std::uint64_t kFunctionBytes = 16;  // functions start at multiples of it

// A file, readable while this lives; empty where it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    if (file >= 0 && fstat(file, &facts) == 0 && facts.st_size > 0) {
      size_bytes_ = static_cast<std::size_t>(facts.st_size);
      bytes_ = mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (file >= 0) {
      close(file);
    }
  }
  ~MappedFile() {
    if (bytes_ != MAP_FAILED) {
      munmap(bytes_, size_bytes_);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::string_view text() const {
    return bytes_ == MAP_FAILED ? std::string_view()
                                : std::string_view(static_cast<const char*>(bytes_), size_bytes_);
  }
  // `count` objects at `offset`, null where the file ends before.
  template <class T>
  [[nodiscard]] const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (bytes_ == MAP_FAILED || offset > size_bytes_ ||
        count > (size_bytes_ - offset) / sizeof(T)) {
      return nullptr;
    }
    return reinterpret_cast<const T*>(static_cast<const char*>(bytes_) + offset);
  }

 private:
  void* bytes_ = MAP_FAILED;
  std::size_t size_bytes_ = 0;
};

// The functions of the static runtime that a symbol table names; none where it has no such runtime.
std::vector<RuntimeFunction> runtime_functions(const MappedFile& file, const Elf64_Shdr& symbols,
                                               const Elf64_Shdr& strings,
                                               std::uint64_t load_address) {
  const std::uint64_t count = symbols.sh_size / sizeof(Elf64_Sym);
  const auto* symbol = file.at<Elf64_Sym>(symbols.sh_offset, count);
  const char* const names = file.at<char>(strings.sh_offset, strings.sh_size);
  if (symbol == nullptr || names == nullptr) return {};
  bool is_static_runtime = false;
  std::set<std::uint64_t> starts;
  std::vector<RuntimeFunction> functions;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (symbol[i].st_name >= strings.sh_size) continue;
    const char* const text = names + symbol[i].st_name;
    const std::string name(text, strnlen(text, strings.sh_size - symbol[i].st_name));
    is_static_runtime = is_static_runtime || name.starts_with(kArchiveMark);
    if (ELF64_ST_TYPE(symbol[i].st_info) != STT_FUNC || symbol[i].st_shndx == SHN_UNDEF) continue;
    const std::uint64_t address = load_address + symbol[i].st_value;
    starts.insert(address);
    if (name.starts_with("cuda") || name.starts_with("__cuda")) {
      const std::uint64_t end = address + symbol[i].st_size;
      functions.push_back({.address = address,
                           .room_bytes = round_up(end, kFunctionBytes) - address,
                           .name = name,
                           .is_known_by_code = false});
    }
  }
  for (RuntimeFunction& function : functions) {
    const auto next = starts.upper_bound(function.address);
    if (next != starts.end()) {
      function.room_bytes = std::min(function.room_bytes, *next - function.address);
    }
  }
  return is_static_runtime ? functions : std::vector<RuntimeFunction>{};
}

std::vector<RuntimeFunction> runtime_functions(const char* path, std::uint64_t load_address) {
  const MappedFile file(path);
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  for (unsigned i = 0; sections != nullptr && i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum) {
      return runtime_functions(file, sections[i], sections[sections[i].sh_link], load_address);
    }
  }
  return {};
}

struct RedirectedModule {
  std::string path;
  std::optional<Registrations> registrations;  // read when one is asked for
};

struct SeenModules {
  std::mutex mutex;
  std::set<std::string> seen;                     // load address and path
  std::map<std::uint64_t, bool> carries_runtime;  // by load address
  std::map<std::uint64_t, RedirectedModule> redirected;
  std::set<std::string> lacking;  // names of functions that modules have and simcuda has not
};
SeenModules& seen_modules() { return made_once<SeenModules>(); }

// The linker gives the program itself no name.
std::string path_of(const char* name) {
  std::error_code unreadable;
  return *name != '\0' ? name
                       : std::filesystem::read_symlink("/proc/self/exe", unreadable).string();
}

bool is_simcuda(const dl_phdr_info& module) {
  Dl_info ours{};
  return dladdr(reinterpret_cast<void*>(&redirect_static_runtimes), &ours) != 0 &&
         ours.dli_fbase == reinterpret_cast<void*>(module.dlpi_addr);
}

void cannot_redirect(const std::string& name, const dl_phdr_info& module, const char* reason) {
  std::fprintf(stderr, "simcuda: cannot redirect %s of the static CUDA runtime in %s: %s\n",
               name.c_str(), path_of(module.dlpi_name).c_str(), reason);
}

// By its symbol table, which names all functions, and its code, which names most.
StrippedRuntime runtime_in(const dl_phdr_info& module) {
  if (is_simcuda(module)) return {};
  std::vector<RuntimeFunction> by_symbol =
      runtime_functions(path_of(module.dlpi_name).c_str(), module.dlpi_addr);
  if (by_symbol.empty() && !may_carry_runtime(module)) return {};
  StrippedRuntime found = find_stripped_runtime(module);
  if (by_symbol.empty()) return found;
  std::set<std::uint64_t> by_code;
  for (const RuntimeFunction& function : found.functions) by_code.insert(function.address);
  for (RuntimeFunction& function : by_symbol) {
    function.is_known_by_code = by_code.contains(function.address);
  }
  found.functions = std::move(by_symbol);
  found.ambiguous.clear();
  return found;
}

const char* lasting_name(const std::string& name) {
  return seen_modules().lacking.insert(name).first->c_str();
}

// Returns 1 where simcuda's older library has to be loaded first.
int redirect_module(dl_phdr_info* module, std::size_t, void*) {
  SeenModules& all = seen_modules();
  const std::string key = std::to_string(module->dlpi_addr) + module->dlpi_name;
  if (all.seen.contains(key)) return 0;
  const StrippedRuntime runtime = runtime_in(*module);
  if (needs_older_library(runtime.version)) return 1;
  all.seen.insert(key);
  if (!has_functions_for(runtime.version)) return 0;
  const CodePatch code(runtime.functions);
  for (const RuntimeFunction& function : runtime.functions) {
    const void* const ours = function_for_runtime(runtime.version, function.name);
    if (ours == nullptr && !function.is_known_by_code) {
      continue;  // of the runtime's inside, or the program's own
    }
    const bool is_written = ours == nullptr ? code.write_lack(function, lasting_name(function.name))
                                            : code.write_jump(function, ours);
    if (is_written) {
      all.redirected[module->dlpi_addr].path = path_of(module->dlpi_name);
    } else {
      cannot_redirect(function.name, *module, "it is too short, or its memory is locked");
    }
  }
  for (const std::string& name : runtime.ambiguous) {
    cannot_redirect(name, *module, "two functions carry that name");
  }
  return 0;
}

Registrations registrations_of(std::uint64_t load_address) {
  struct Search {
    std::uint64_t load_address = 0;
    Registrations found;
  };
  Search search{.load_address = load_address, .found = {}};
  const auto visit = [](dl_phdr_info* module, std::size_t, void* wanted) {
    auto& asked = *static_cast<Search*>(wanted);
    if (module->dlpi_addr != asked.load_address) return 0;
    asked.found = read_registrations(*module);
    return 1;
  };
  dl_iterate_phdr(visit, &search);
  return search.found;
}

const link_map* module_around(const void* address) {
  Dl_info info{};
  link_map* module = nullptr;
  return dladdr1(address, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 ? nullptr
                                                                                          : module;
}

// The redirected module around the address, its registrations read; null where there is none. With
// the lock held.
RedirectedModule* redirected_around(const void* address, std::uint64_t* load_address) {
  const link_map* const module = module_around(address);
  if (module == nullptr) return nullptr;
  *load_address = module->l_addr;
  const auto found = seen_modules().redirected.find(module->l_addr);
  if (found == seen_modules().redirected.end()) return nullptr;
  RedirectedModule& redirected = found->second;
  if (!redirected.registrations) redirected.registrations = registrations_of(module->l_addr);
  return &redirected;
}

}  // namespace

// Called for each library that programs open, so modules are looked at once only.
void redirect_static_runtimes() {
  const auto look = [] {
    const std::lock_guard lock(seen_modules().mutex);
    return dl_iterate_phdr(&redirect_module, nullptr);
  };
  if (look() == 0) return;
  load_older_library();  // without the lock: to open it leads here again
  look();
}

bool carries_static_runtime(const void* address) {
  const link_map* const module = module_around(address);
  if (module == nullptr) return false;
  const std::lock_guard lock(seen_modules().mutex);
  const auto [known, is_new] = seen_modules().carries_runtime.try_emplace(module->l_addr, false);
  if (is_new) {
    const MappedFile file(path_of(module->l_name).c_str());
    known->second = file.text().find(kRuntimeMark) != std::string_view::npos;
  }
  return known->second;
}

std::string kernel_of_redirected_module(const void* function) {
  const std::lock_guard lock(seen_modules().mutex);
  std::uint64_t load_address = 0;
  const RedirectedModule* const module = redirected_around(function, &load_address);
  if (module == nullptr) return {};
  const auto address = reinterpret_cast<std::uint64_t>(function);
  const auto kernel = module->registrations->kernels.find(address);
  if (kernel != module->registrations->kernels.end()) return kernel->second;
  std::array<char, 32> place{};
  std::snprintf(place.data(), place.size(), "+0x%llx",
                static_cast<unsigned long long>(address - load_address));
  return module->path.substr(module->path.rfind('/') + 1) + place.data();
}

std::optional<VariableFacts> variable_of_redirected_module(const void* variable) {
  const std::lock_guard lock(seen_modules().mutex);
  std::uint64_t load_address = 0;
  const RedirectedModule* const module = redirected_around(variable, &load_address);
  if (module == nullptr) return std::nullopt;
  const auto& variables = module->registrations->variables;
  const auto found = variables.find(reinterpret_cast<std::uint64_t>(variable));
  return found == variables.end() ? std::nullopt : std::optional(found->second);
}

void explain_static_runtime(const void* caller) {
  if (const link_map* const module = module_around(caller); module != nullptr) {
    const std::lock_guard lock(seen_modules().mutex);
    // What is left of it records kernels, and does without the driver.
    if (seen_modules().redirected.contains(module->l_addr)) return;
  }
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  Dl_info module{};
  const bool found = dladdr(caller, &module) != 0 && module.dli_fname != nullptr;
  std::fprintf(stderr,
               "simcuda: %s carries the static CUDA runtime, which simcuda cannot take the place "
               "of (its functions were not recognised, or it was not started by simcuda-run); its "
               "calls fail as with a driver that is too old. Link the shared runtime: nvcc "
               "-cudart shared, CMAKE_CUDA_RUNTIME_LIBRARY Shared, or CUDA::cudart\n",
               found ? module.dli_fname : "a module");
}

// For simcuda-run's dlopen. Before our start-up code has looked once, our functions cannot be
// found.
SIMCUDA_EXPORT void simcu_redirect_static_runtimes() {
  {
    const std::lock_guard lock(seen_modules().mutex);
    if (seen_modules().seen.empty()) return;
  }
  if (std::getenv("SIMCUDA_REDIRECT_STATIC") != nullptr) redirect_static_runtimes();
}

}  // namespace simcuda
