// Attachments of managed memory to streams. In: blocks and streams. Out: the errors of CUDA's
// manual. Where both sides may use managed memory at once, as here, an attachment moves nothing.
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t attach(ThreadState& thread, cudaStream_t stream, std::uint64_t address,
                   std::size_t size_bytes, unsigned flags) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (current_device(thread) == nullptr) return cudaErrorInvalidResourceHandle;
  if (ref.device == nullptr) return ref.error;
  const Range block = managed_block(reinterpret_cast<const void*>(address)).range;
  const bool is_block = block.lo != 0 && block.lo == address && size_bytes <= block.size_bytes();
  const bool is_flag = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost ||
                       (flags == cudaMemAttachSingle && ref.stream != nullptr);
  if (!is_block || !is_flag) return cudaErrorInvalidValue;
  thread.charge(CostId::MemsetAsync);
  if (const Captured captured = capture_forbids(ref)) return *captured;
  return cudaSuccess;
}

}  // namespace

SIMCUDA_PAIR(cudaStreamAttachMemAsync,
             (cudaStream_t stream, void* pointer, size_t size_bytes, unsigned int flags),
             cuStreamAttachMemAsync,
             (CUstream stream, CUdeviceptr pointer, size_t size_bytes, unsigned int flags),
             (number(stream), number(pointer), size_bytes, flags),
             attach(thread, stream, number(pointer), size_bytes, flags))
}  // namespace simcuda
