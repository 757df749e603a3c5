/// @file
/// Unit tests of CUDA memory code without a GPU, in C++: counts of calls, faults and virtual time.
/// Header only, over simcu.h: simcuda's functions are looked up when the program runs, so a test
/// links the shared CUDA runtime and nothing else. A misspelt name, and a program that does not run
/// on simcuda, throw std::runtime_error. Times are in ns of the calling thread's virtual clock.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "simcu.h"

namespace simcu {

/// False where the program runs on a GPU instead.
[[nodiscard]] inline bool present() { return dlsym(RTLD_DEFAULT, "simcu_present") != nullptr; }

/// A function of simcu.h by its name, for SIMCU(). Throws std::runtime_error where there is none.
template <class Function>
[[nodiscard]] Function* find(const char* name) {
  void* const function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr) {
    throw std::runtime_error(std::string("simcuda is not loaded, or lacks ") + name +
                             "; start the program with: simcuda-run PROGRAM");
  }
  return reinterpret_cast<Function*>(function);
}
/// A function of simcu.h: SIMCU(simcu_view)(pointer, size_bytes).
#define SIMCU(name) (::simcu::find<decltype(name)>(#name))

/// Throws std::runtime_error with simcu_last_message() unless it held.
inline void require(bool held) {
  if (!held) throw std::runtime_error(SIMCU(simcu_last_message)());
}

/// Calls of one function ("cudaMalloc") by all threads since the object was made.
class CallCounter {
 public:
  /// Begins at 0. `api` is copied.
  explicit CallCounter(const char* api) : api_(api), before_(SIMCU(simcu_call_count)(api)) {
    require(before_ != SIMCU_NO_SUCH_CALL);
  }
  /// The calls until now.
  [[nodiscard]] std::uint64_t count() const {
    return SIMCU(simcu_call_count)(api_.c_str()) - before_;
  }

 private:
  std::string api_;
  std::uint64_t before_ = 0;
};

/// While it lives, the nth call (1 = the next) of `api` and the count - 1 after it fail with
/// `error`, a cudaError_t or CUresult. Its end takes back all faults, also those of others.
class Fault {
 public:
  /// Plans the fault; throws where simcu_fail_calls() refuses it.
  Fault(const char* api, std::uint64_t nth, int error, std::uint64_t count = 1) {
    require(SIMCU(simcu_fail_calls)(api, nth, count, error) == 0);
  }
  /// Takes back all faults.
  ~Fault() { SIMCU(simcu_fail_calls)(nullptr, 0, 0, 0); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

/// Virtual time of this thread since the object was made: what its CUDA calls cost on the profile's
/// GPU, and the time that they waited. The program's own code takes none.
class Stopwatch {
 public:
  /// Call it on the thread that made the object.
  [[nodiscard]] std::uint64_t elapsed_ns() const { return clock_->modelled_ns - start_ns_; }

 private:
  const SimcuThreadClock* clock_ = SIMCU(simcu_thread_clock)();
  std::uint64_t start_ns_ = clock_->modelled_ns;
};

}  // namespace simcu
