// The texts of PyTorch's out-of-memory errors, letter for letter.
#include <fmt/format.h>

#include <string>

#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "base/bytes.h"

namespace allocmark::caching {

std::string format_size(std::uint64_t size_bytes) {
  if (size_bytes <= kKiB) return fmt::format("{} bytes", size_bytes);
  const auto value = static_cast<double>(size_bytes);
  if (size_bytes <= kMiB) return fmt::format("{:.2f} KiB", value / static_cast<double>(kKiB));
  if (size_bytes <= kGiB) return fmt::format("{:.2f} MiB", value / static_cast<double>(kMiB));
  return fmt::format("{:.2f} GiB", value / static_cast<double>(kGiB));
}

// The advice at the end is given even where expandable_segments is already on (PyTorch's issue
// 173049).
std::string out_of_memory_message(const OutOfMemory& failure) {
  const std::string allowed =
      failure.limit_bytes ? format_size(*failure.limit_bytes) + " allowed; " : "";
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. {}{}Of the "
      "allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated. "
      "If reserved but "
      "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
      "avoid "
      "fragmentation.  See documentation for Memory Management  "
      "(https://docs.pytorch.org/docs/stable/notes/"
      "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
      format_size(failure.segment_bytes), format_size(failure.device.total_bytes),
      format_size(failure.device.free_bytes), failure.process_lines, allowed,
      format_size(failure.allocated_bytes),
      format_size(failure.reserved_bytes - failure.allocated_bytes));
}

std::string out_of_memory_message(const AsyncOutOfMemory& failure) {
  const std::uint64_t limit_bytes = failure.limit_bytes.value_or(kUnlimited);
  return fmt::format(
      "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
      "Currently allocated     : {}\n"
      "Requested               : {}\n"
      "Device limit            : {}\n"
      "Free (according to CUDA): {}\n"
      "PyTorch limit (set by user-supplied memory fraction)\n"
      "                        : {}",
      format_size(failure.allocated_bytes), format_size(failure.requested_bytes),
      format_size(failure.device.total_bytes), format_size(failure.device.free_bytes),
      format_size(limit_bytes));
}

}  // namespace allocmark::caching
