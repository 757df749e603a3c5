// Exported names that are other functions in disguise, for the generated files that list them. In:
// names. Out: symbols. Functions are not defined under those names, since only their types are
// known here.
#pragma once

namespace simcuda {

struct ThreadState;
// Stream 0 means the calling thread's own default stream while this lives.
class OwnNullStream {
 public:
  OwnNullStream();
  ~OwnNullStream();
  OwnNullStream(const OwnNullStream&) = delete;
  OwnNullStream& operator=(const OwnNullStream&) = delete;

 private:
  ThreadState& thread_;
  void* before_;
};

template <class Function, Function kFunction>
struct PerThread;
template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct PerThread<Result (*)(Arguments...), kFunction> {
  static Result call(Arguments... arguments) {
    const OwnNullStream own;
    return kFunction(arguments...);
  }
};

}  // namespace simcuda

#define SIMCUDA_SYMBOL(kind, name, target)                                                     \
  __asm__(".text\n\t." kind " " #name "\n\t.type " #name ", @function\n" #name ": jmp " target \
          "\n\t.size " #name ", .-" #name)

// The variant of a function for --default-stream per-thread.
#define PER_THREAD(name, function)                                                    \
  extern "C" {                                                                        \
  __attribute__((visibility("hidden"), used)) decltype(&function) simcuda_to_##name = \
      &simcuda::PerThread<decltype(&function), &function>::call;                      \
  }                                                                                   \
  SIMCUDA_SYMBOL("globl", name, "*simcuda_to_" #name "(%rip)");

// An old name of a function, unless it is defined elsewhere.
#define OLD_NAME(name, function) SIMCUDA_SYMBOL("weak", name, #function "@PLT");
