// Looks into a shared library that someone else wrote before anything depends on it: a child
// process loads it and looks for functions, so that a library that crashes or hangs while it is
// loaded costs that child and not us.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

struct LibraryProbe {
  std::string path;                  // as given; relative to the working directory
  std::vector<std::string> symbols;  // functions it must have
  int timeout_ms = 20'000;           // for loading
};

// What is wrong with the library ("no such file"); empty where it loads and has every function. May
// block until the timeout.
[[nodiscard]] std::string library_problem(const LibraryProbe& probe);

// Whether the file brings a CUDA runtime of its own, which nothing can take the place of: no
// simulated device is seen by it. False where it cannot be read.
[[nodiscard]] bool carries_cuda_runtime(const std::string& path);

// The path of a module of this process that does, empty where none does; and the same of a process
// that loads the library, which is a child. Such a library works as long as the code that it calls
// there asks nothing of the device, as that of RMM's headers.
[[nodiscard]] std::string loaded_runtime_carrier();
[[nodiscard]] std::string runtime_carrier_of(const std::string& path);

// The path as dlopen takes it: without a slash it would look in the system's folders instead.
[[nodiscard]] std::string loadable_path(const std::string& path);

}  // namespace allocmark
