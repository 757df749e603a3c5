// Functions of the driver as programs find them that are linked to libcuda, and the thread's
// context.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <thread>

#include "tests/catch.h"

namespace conformance {

inline void* libcuda() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

// As programs do that are linked to libcuda: by the name that the header gives the function.
template <class Function>
Function symbol(const char* name) {
  void* const found = dlsym(libcuda(), name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function>(found);
}
#define DRIVER_NAME_2(name) #name
#define DRIVER_NAME(name) DRIVER_NAME_2(name)
#define DRIVER(name) \
  const auto name##_found = conformance::symbol<decltype(&name)>(DRIVER_NAME(name))

inline CUcontext current_context() {
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent);
  REQUIRE(cuCtxGetCurrent_found(&context) == CUDA_SUCCESS);
  return context;
}

// A thread that has no context yet.
template <class Body>
void on_new_thread(Body body) {
  std::thread thread(body);
  thread.join();
}

}  // namespace conformance
