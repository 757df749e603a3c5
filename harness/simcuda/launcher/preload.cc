// dlopen, in front of the C library's: a module that carries the static CUDA runtime, as CuPy's and
// cuda-python's do, is redirected to simcuda before its first call. In: what programs open. Out:
// what the C library answers. Preloaded by simcuda-run.
//
// The C library looks a bare name up in the paths of whoever calls it, so such calls are passed on
// as they are. A path is the same for every caller.
#include <dlfcn.h>

#include <cstring>

extern "C" {

__attribute__((visibility("hidden"))) void* (*simcuda_real_dlopen)(const char*, int) = nullptr;

__attribute__((visibility("hidden"))) bool simcuda_opens_path(const char* name) {
  if (simcuda_real_dlopen == nullptr) {
    simcuda_real_dlopen = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  }
  return name != nullptr && std::strchr(name, '/') != nullptr;
}

__attribute__((visibility("hidden"))) void* simcuda_open_path(const char* name, int flags) {
  void* const module = simcuda_real_dlopen(name, flags);
  // Null where simcuda itself is not loaded.
  static const auto redirect =
      reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "simcu_redirect_static_runtimes"));
  if (module != nullptr && redirect != nullptr) redirect();
  return module;
}

}  // extern "C"

__asm__(
    ".text\n\t.globl dlopen\n\t.type dlopen, @function\n"
    "dlopen:\n\t"
    "push %rdi\n\tpush %rsi\n\tsub $8, %rsp\n\t"
    "call simcuda_opens_path\n\t"
    "add $8, %rsp\n\tpop %rsi\n\tpop %rdi\n\t"
    "test %al, %al\n\tjne simcuda_open_path\n\t"
    "jmp *simcuda_real_dlopen(%rip)\n\t"
    ".size dlopen, .-dlopen");
