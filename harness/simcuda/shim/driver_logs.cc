// The driver's log of errors, to which nothing is written here. In: callbacks. Out: handles of
// them, and an empty log.
#include <cstdio>
#include <mutex>
#include <set>

#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct Callbacks {
  std::mutex mutex;
  std::set<std::uintptr_t> live;
  std::uintptr_t next = 1;
};
Callbacks& callbacks() { return made_once<Callbacks>(); }

CUresult add_callback(CUlogsCallback callback, CUlogsCallbackHandle* handle) {
  if (callback == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callbacks& all = callbacks();
  const std::lock_guard lock(all.mutex);
  all.live.insert(all.next);
  *handle = reinterpret_cast<CUlogsCallbackHandle>(all.next++);
  return CUDA_SUCCESS;
}

CUresult remove_callback(CUlogsCallbackHandle handle) {
  Callbacks& all = callbacks();
  const std::lock_guard lock(all.mutex);
  return all.live.erase(number(handle)) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult give_end(CUlogIterator* end, unsigned int flags) {
  if (end == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *end = 0;
  return CUDA_SUCCESS;
}

CUresult write_file(const char* path, unsigned int flags) {
  if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult write_text(char* buffer, size_t* size_bytes, unsigned int flags) {
  if (buffer == nullptr || size_bytes == nullptr || *size_bytes == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *buffer = '\0';
  *size_bytes = 0;
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_DRIVER(cuLogsRegisterCallback,
               (CUlogsCallback callback, void* /*data*/, CUlogsCallbackHandle* handle), (),
               add_callback(callback, handle))
SIMCUDA_DRIVER(cuLogsUnregisterCallback, (CUlogsCallbackHandle handle), (number(handle)),
               remove_callback(handle))
SIMCUDA_DRIVER(cuLogsCurrent, (CUlogIterator * end, unsigned int flags), (flags),
               give_end(end, flags))
SIMCUDA_DRIVER(cuLogsDumpToFile, (CUlogIterator* /*begin*/, const char* path, unsigned int flags),
               (flags), write_file(path, flags))
SIMCUDA_DRIVER(cuLogsDumpToMemory,
               (CUlogIterator* /*begin*/, char* buffer, size_t* size_bytes, unsigned int flags),
               (flags), write_text(buffer, size_bytes, flags))

}  // namespace simcuda
