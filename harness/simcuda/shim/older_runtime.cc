#include "harness/simcuda/shim/older_runtime.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <string_view>

#include "harness/simcuda/shim/function_names.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/one_of.h"

namespace simcuda {
namespace {

constexpr unsigned kOurMajor = CUDART_VERSION / 1000;
constexpr unsigned kOlderMajor = 12;

// Functions that changed from CUDA 12 to 13. CUDA 13 took over CUDA 12's `_v2` under the plain
// name, except for two.
bool has_changed(std::string_view name) {
  return is_one_of(name, "cudaEventElapsedTime", "cudaGetDeviceProperties",
                   "cudaGraphAddDependencies", "cudaGraphAddNode", "cudaGraphGetEdges",
                   "cudaGraphNodeGetDependencies", "cudaGraphNodeGetDependentNodes",
                   "cudaGraphRemoveDependencies", "cudaMemAdvise", "cudaMemPrefetchAsync",
                   "cudaSignalExternalSemaphoresAsync", "cudaStreamGetCaptureInfo",
                   "cudaStreamUpdateCaptureDependencies", "cudaWaitExternalSemaphoresAsync");
}
bool has_changed_twice(std::string_view name) {
  return is_one_of(name, "cudaGetDeviceProperties", "cudaStreamGetCaptureInfo");
}

struct OlderLibrary {
  std::atomic<bool> was_tried{false};
  std::atomic<void*> handle{nullptr};
};
OlderLibrary& older_library() {
  static OlderLibrary library;
  return library;
}

bool is_older(unsigned version) { return kOurMajor == 13 && version / 1000 == kOlderMajor; }

// "cudaMemAdvise_v2_ptsz": name "cudaMemAdvise", is_second, variant "_ptsz".
struct NameParts {
  std::string_view name;
  bool is_second = false;
  std::string_view variant;
};
NameParts parts_of(std::string_view name) {
  NameParts parts{.name = name, .is_second = false, .variant = {}};
  for (const std::string_view variant : {"_ptsz", "_ptds"}) {
    if (!parts.name.ends_with(variant)) continue;
    parts.name.remove_suffix(variant.size());
    parts.variant = variant;
  }
  parts.is_second = parts.name.ends_with("_v2");
  if (parts.is_second) parts.name.remove_suffix(3);
  return parts;
}

}  // namespace

bool needs_older_library(unsigned version) {
  return is_older(version) && !older_library().was_tried;
}

void load_older_library() {
  if (older_library().was_tried.exchange(true)) return;
  older_library().handle =
      dlopen((folder_of_this_library() + "/libcudart.so.12").c_str(), RTLD_NOW | RTLD_LOCAL);
}

bool has_functions_for(unsigned version) {
  return version == 0 || version / 1000 == kOurMajor ||
         (is_older(version) && older_library().handle != nullptr);
}

void* function_for_runtime(unsigned version, const std::string& name) {
  if (!has_functions_for(version)) return nullptr;
  if (!is_older(version)) return own_function(name);
  void* const older = older_library().handle;
  if (void* const found = dlsym(older, name.c_str()); found != nullptr) return found;
  const NameParts parts = parts_of(name);
  if (!has_changed(parts.name)) return own_function(name);
  if (!parts.is_second || has_changed_twice(parts.name)) return nullptr;
  return own_function(std::string(parts.name) + std::string(parts.variant));
}

}  // namespace simcuda
