// dlopen, in front of the C library's: a module that carries the static CUDA runtime, as CuPy's and
// cuDNN's do, is redirected to simcuda before its first call. In: what programs open. Out: what the
// C library answers. Preloaded by simcuda-run.
//
// The C library looks a bare name up in the paths of whoever calls it, which it knows by the return
// address. It gets one in the caller's module: a `ret` instruction, which leads back to us.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>

namespace {

struct Search {
  std::uint64_t address = 0;
  void* found = nullptr;
};

// The first byte that is a `ret` behind the address, in the same part of its module.
int find_return(dl_phdr_info* module, std::size_t, void* wanted) {
  constexpr unsigned char kReturn = 0xc3;
  auto& search = *static_cast<Search*>(wanted);
  for (unsigned i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const std::uint64_t begin = module->dlpi_addr + part.p_vaddr;
    const std::uint64_t end = begin + part.p_filesz;
    constexpr unsigned kCode = PF_R | PF_X;
    if (part.p_type != PT_LOAD || (part.p_flags & kCode) != kCode || search.address < begin ||
        search.address >= end) {
      continue;
    }
    auto* const last = reinterpret_cast<unsigned char*>(end);
    auto* const found = std::find(reinterpret_cast<unsigned char*>(search.address), last, kReturn);
    search.found = found == last ? nullptr : found;
    return 1;
  }
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("hidden"))) void* (*simcuda_real_dlopen)(const char*, int) = nullptr;

// Null where there is none: the C library is then left alone with the caller.
__attribute__((visibility("hidden"))) void* simcuda_return_beside(std::uint64_t caller) {
  if (simcuda_real_dlopen == nullptr) {
    simcuda_real_dlopen = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  }
  Search search{.address = caller, .found = nullptr};
  dl_iterate_phdr(&find_return, &search);
  return search.found;
}

__attribute__((visibility("hidden"))) void simcuda_after_open() {
  // Null where simcuda itself is not loaded.
  static const auto redirect =
      reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "simcu_redirect_static_runtimes"));
  if (redirect != nullptr) redirect();
}

}  // extern "C"

__asm__(
    ".text\n\t.globl dlopen\n\t.type dlopen, @function\n"
    "dlopen:\n\t"
    "push %rdi\n\tpush %rsi\n\tsub $8, %rsp\n\t"
    "mov 24(%rsp), %rdi\n\t"
    "call simcuda_return_beside\n\t"
    "add $8, %rsp\n\tpop %rsi\n\tpop %rdi\n\t"
    "test %rax, %rax\n\tje 1f\n\t"
    "lea 2f(%rip), %r10\n\tpush %r10\n\tpush %rax\n"
    "1:\tjmp *simcuda_real_dlopen(%rip)\n"
    "2:\tpush %rax\n\tcall simcuda_after_open\n\tpop %rax\n\tret\n\t"
    ".size dlopen, .-dlopen");
