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
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/simcuda/core/units.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/function_names.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

// A local symbol in every object of the static runtime's archive begins like this.
constexpr std::string_view kArchiveMark = "libcudart_static_";
// The runtime makes shared memory of this name.
constexpr std::string_view kRuntimeMark = "/cudart.shm.";

// jmp *0(%rip), and then the address that it reads.
constexpr std::array<unsigned char, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};
constexpr std::uint64_t kJumpBytes = kJump.size() + sizeof(void*);

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

struct Function {
  std::uint64_t address = 0;
  std::uint64_t room_bytes = 0;  // to the next function, padding included
  std::string name;
};

// The functions of the static runtime that a symbol table names; none where it has no such runtime.
std::vector<Function> runtime_functions(const MappedFile& file, const Elf64_Shdr& symbols,
                                        const Elf64_Shdr& strings, std::uint64_t load_address) {
  const std::uint64_t count = symbols.sh_size / sizeof(Elf64_Sym);
  const auto* symbol = file.at<Elf64_Sym>(symbols.sh_offset, count);
  const char* const names = file.at<char>(strings.sh_offset, strings.sh_size);
  if (symbol == nullptr || names == nullptr) {
    return {};
  }
  bool is_static_runtime = false;
  std::set<std::uint64_t> starts;
  std::vector<Function> functions;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (symbol[i].st_name >= strings.sh_size) {
      continue;
    }
    const char* const text = names + symbol[i].st_name;
    const std::string name(text, strnlen(text, strings.sh_size - symbol[i].st_name));
    is_static_runtime = is_static_runtime || name.starts_with(kArchiveMark);
    if (ELF64_ST_TYPE(symbol[i].st_info) != STT_FUNC || symbol[i].st_shndx == SHN_UNDEF) {
      continue;
    }
    const std::uint64_t address = load_address + symbol[i].st_value;
    starts.insert(address);
    if (name.starts_with("cuda") || name.starts_with("__cuda")) {
      const std::uint64_t end = address + symbol[i].st_size;
      functions.push_back({.address = address,
                           .room_bytes = round_up(end, kFunctionBytes) - address,
                           .name = name});
    }
  }
  for (Function& function : functions) {
    const auto next = starts.upper_bound(function.address);
    if (next != starts.end()) {
      function.room_bytes = std::min(function.room_bytes, *next - function.address);
    }
  }
  return is_static_runtime ? functions : std::vector<Function>{};
}

std::vector<Function> runtime_functions(const char* path, std::uint64_t load_address) {
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

bool write_jump(std::uint64_t from, const void* to) {
  const std::uint64_t page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t lo = from & ~(page_bytes - 1);
  void* const pages = reinterpret_cast<void*>(lo);
  const std::uint64_t size_bytes = from + kJumpBytes - lo;
  if (mprotect(pages, size_bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return false;
  }
  std::memcpy(reinterpret_cast<void*>(from), kJump.data(), kJump.size());
  std::memcpy(reinterpret_cast<void*>(from + kJump.size()), &to, sizeof to);
  return mprotect(pages, size_bytes, PROT_READ | PROT_EXEC) == 0;
}

struct SeenModules {
  std::mutex mutex;
  std::set<std::string> seen;                     // load address and path
  std::map<std::uint64_t, bool> carries_runtime;  // by load address
};
SeenModules& seen_modules() { return made_once<SeenModules>(); }

int redirect_module(dl_phdr_info* module, std::size_t, void*) {
  const char* const path = *module->dlpi_name == '\0' ? "/proc/self/exe" : module->dlpi_name;
  if (!seen_modules().seen.insert(std::to_string(module->dlpi_addr) + path).second) return 0;
  for (const Function& function : runtime_functions(path, module->dlpi_addr)) {
    const void* const ours = own_function(function.name);
    if (ours == nullptr) {
      continue;  // of the runtime's inside, or the program's own
    }
    if (function.room_bytes < kJumpBytes || !write_jump(function.address, ours)) {
      std::fprintf(stderr, "simcuda: cannot redirect %s of the static CUDA runtime in %s\n",
                   function.name.c_str(), path);
    }
  }
  return 0;
}

}  // namespace

// Called for each library that programs open, so modules are looked at once only.
void redirect_static_runtimes() {
  const std::lock_guard lock(seen_modules().mutex);
  dl_iterate_phdr(&redirect_module, nullptr);
}

bool carries_static_runtime(const void* address) {
  Dl_info info{};
  link_map* module = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 ||
      module == nullptr) {
    return false;
  }
  const std::lock_guard lock(seen_modules().mutex);
  const auto [known, is_new] = seen_modules().carries_runtime.try_emplace(module->l_addr, false);
  if (is_new) {
    const MappedFile file(*module->l_name == '\0' ? "/proc/self/exe" : module->l_name);
    known->second = file.text().find(kRuntimeMark) != std::string_view::npos;
  }
  return known->second;
}

void explain_static_runtime(const void* caller) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) {
    return;
  }
  Dl_info module{};
  const bool found = dladdr(caller, &module) != 0 && module.dli_fname != nullptr;
  std::fprintf(stderr,
               "simcuda: %s carries the static CUDA runtime, which simcuda cannot take the place "
               "of (it was stripped, or not started by simcuda-run); its calls fail as with a "
               "driver that is too old. Link the shared runtime: nvcc "
               "-cudart shared, CMAKE_CUDA_RUNTIME_LIBRARY Shared, or CUDA::cudart\n",
               found ? module.dli_fname : "a module");
}

// For simcuda-run's dlopen.
SIMCUDA_EXPORT void simcu_redirect_static_runtimes() {
  if (std::getenv("SIMCUDA_REDIRECT_STATIC") != nullptr) redirect_static_runtimes();
}

}  // namespace simcuda
