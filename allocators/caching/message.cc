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

namespace {

// What comes after the figures, with the blank before it.
std::string advice(const OutOfMemory& failure) {
  const Rules& rules = *failure.rules;
  const bool turned_on = failure.expandable_segments;
  if (turned_on && rules.expandable_advice == ExpandableAdvice::None) return {};
  // Not where the whole device would be too small.
  if (turned_on && failure.segment_bytes > failure.reserve_bytes &&
      failure.segment_bytes <= failure.device.total_bytes) {
    return fmt::format(
        " This allocation exceeds the expandable-segment reserve of {} for this stream, and a "
        "single allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF "
        "expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that "
        "a segment is at least {}.",
        format_size(failure.reserve_bytes), format_size(failure.segment_bytes));
  }
  if (turned_on && rules.expandable_advice == ExpandableAdvice::AddressSpace) {
    return " expandable_segments is enabled. If instead the process is running out of virtual "
           "address space (VSZ), expandable segments may be over-reserving VA (each segment "
           "reserves ~9/8 of device memory, times the number of streams); reduce it via "
           "PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / "
           "expandable_segments_reserve_by_class.";
  }
  return fmt::format(
      " If reserved but unallocated memory is large try setting {}=expandable_segments:True to "
      "avoid fragmentation.  See documentation for Memory Management  ({})",
      rules.advice_variable, rules.advice_page);
}

}  // namespace

std::string out_of_memory_message(const OutOfMemory& failure) {
  if (failure.rejected) {
    return fmt::format(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
        "per_process_memory_fraction limit. Requested size: {}",
        format_size(failure.requested_bytes));
  }
  const std::string allowed =
      failure.limit_bytes ? format_size(*failure.limit_bytes) + " allowed; " : "";
  // PyTorch counts what private pools have cached as allocated.
  const std::uint64_t allocated_bytes = failure.allocated_bytes + failure.private_free_bytes;
  const std::string in_pools =
      failure.private_free_bytes > 0
          ? fmt::format("with {} allocated in private pools (e.g., CUDA Graphs), ",
                        format_size(failure.private_free_bytes))
          : "";
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. {}{}Of the allocated memory {} is allocated by PyTorch, {}and {} is reserved by "
      "PyTorch but unallocated.{}",
      format_size(failure.segment_bytes), format_size(failure.device.total_bytes),
      format_size(failure.device.free_bytes), failure.process_lines, allowed,
      format_size(allocated_bytes), in_pools, format_size(failure.reserved_bytes - allocated_bytes),
      advice(failure));
}

std::string out_of_memory_message(const AsyncOutOfMemory& failure) {
  if (failure.rules->cuts_pool_text) return "Allocation on device ";
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
