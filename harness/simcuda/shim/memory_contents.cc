#include "harness/simcuda/shim/memory_contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace simcuda {
namespace {

constexpr std::uint64_t kHeapWindowFactor = 8;  // address space per byte of memory: room for holes
constexpr std::uint64_t kHeapWindowBytesMin = std::uint64_t{64} << 30;
constexpr std::uint64_t kHeapTop = 0x7e0000000000;  // below what the kernel hands out by itself
constexpr std::uint64_t kAreaLow = 0x302000000;     // where the driver starts
constexpr std::uint64_t kAreaHigh = 0x0f0000000000;
constexpr std::uint64_t kAreaSpareBytes = std::uint64_t{2}
                                          << 40;  // where the driver's place is taken

void* reserve(std::uint64_t address, std::uint64_t size_bytes, int extra_flags) {
  return mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra_flags, -1, 0);
}

// The wanted range if it is free, else any range as long as `spare_bytes`.
Range reserve_range(Range wanted, std::uint64_t spare_bytes) {
  void* place = reserve(wanted.lo, wanted.size_bytes(), MAP_FIXED_NOREPLACE);
  if (place == reinterpret_cast<void*>(wanted.lo)) {
    return wanted;
  }
  if (place != MAP_FAILED) {
    munmap(place, wanted.size_bytes());  // kernels before 4.17 take the address as advice
  }
  place = reserve(0, spare_bytes + kChunkBytes, 0);
  if (place == MAP_FAILED) {
    throw std::runtime_error("cannot reserve " + std::to_string(spare_bytes >> 30) +
                             " GiB of address space: " + std::strerror(errno) +
                             "; raise `ulimit -v` or lower SIMCUDA_CAPACITY_BYTES");
  }
  const std::uint64_t lo = round_up(reinterpret_cast<std::uint64_t>(place), kChunkBytes);
  return {lo, lo + round_down(spare_bytes, kChunkBytes)};
}

}  // namespace

MemoryContents::MemoryContents(DevicePlace place, std::uint64_t total_bytes) {
  const std::uint64_t index = static_cast<std::uint64_t>(place.index);
  const std::uint64_t heap_bytes =
      round_up(std::max(kHeapWindowFactor * total_bytes, kHeapWindowBytesMin), kChunkBytes);
  const std::uint64_t heap_top = kHeapTop - index * (heap_bytes + kChunkBytes);
  heap_.application = reserve_range({heap_top - heap_bytes, heap_top}, heap_bytes);
  const std::uint64_t share =
      round_down((kAreaHigh - kAreaLow) / static_cast<std::uint64_t>(place.count), kChunkBytes);
  const std::uint64_t area_low = kAreaLow + index * share;
  area_.application =
      reserve_range({area_low, area_low + share}, std::max(kAreaSpareBytes, 16 * total_bytes));
}

bool MemoryContents::holds(std::uint64_t address) const {
  const auto inside = [&](const Window& window) {
    return address >= window.application.lo && address < window.application.hi;
  };
  return inside(heap_) || inside(area_);
}

MemoryContents::Window* MemoryContents::window_of(std::uint64_t address) {
  for (Window* window : {&heap_, &area_}) {
    if (address >= window->application.lo && address < window->application.hi) {
      return window;
    }
  }
  return nullptr;
}

bool MemoryContents::make_mirror(Window& window) {
  if (window.mirror != 0) {
    return true;
  }
  void* place = mmap(nullptr, window.application.size_bytes() + kChunkBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    return false;
  }
  madvise(place, window.application.size_bytes() + kChunkBytes, MADV_DONTDUMP);
  window.mirror = round_up(reinterpret_cast<std::uint64_t>(place), kChunkBytes);
  return true;
}

void* MemoryContents::mirror(std::uint64_t address, std::uint64_t size_bytes) {
  Window* window = window_of(address);
  if (window == nullptr || size_bytes > window->application.hi - address || !make_mirror(*window)) {
    return nullptr;
  }
  if (window == &heap_) {
    for (std::uint64_t page = round_down(address, kPageBytes); page < address + size_bytes;
         page += kPageBytes) {
      touched_pages_.insert(page);
    }
  }
  return reinterpret_cast<void*>(window->mirror + (address - window->application.lo));
}

void MemoryContents::discard(Range range) {
  if (touched_pages_.empty()) {
    return;
  }
  for (std::uint64_t page = range.lo; page < range.hi; page += kPageBytes) {
    if (touched_pages_.erase(page) != 0) {
      madvise(reinterpret_cast<void*>(heap_.mirror + (page - heap_.application.lo)), kPageBytes,
              MADV_DONTNEED);
    }
  }
}

bool MemoryContents::attach(const Mapping& mapping) {
  if (attached_.contains(mapping.range.lo)) {
    return true;
  }
  Window* window = window_of(mapping.range.lo);
  if (window == nullptr || !make_mirror(*window)) {
    return false;
  }
  if (file_ < 0) {
    file_ = memfd_create("simcuda", MFD_CLOEXEC);
    if (file_ < 0) {
      return false;
    }
  }
  auto [place, is_new] = handle_offsets_.try_emplace(mapping.handle, file_end_bytes_);
  if (is_new) {
    file_end_bytes_ += mapping.range.size_bytes();
    if (ftruncate(file_, static_cast<off_t>(file_end_bytes_)) != 0) {
      return false;
    }
  }
  void* at = reinterpret_cast<void*>(window->mirror + (mapping.range.lo - window->application.lo));
  if (mmap(at, mapping.range.size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
           static_cast<off_t>(place->second + mapping.offset_bytes)) == MAP_FAILED) {
    return false;
  }
  attached_.emplace(mapping.range.lo, mapping.range);
  return true;
}

void MemoryContents::detach(Range range) {
  auto at = attached_.lower_bound(range.lo);
  while (at != attached_.end() && at->first < range.hi) {
    Window* window = window_of(at->first);
    mmap(reinterpret_cast<void*>(window->mirror + (at->first - window->application.lo)),
         at->second.size_bytes(), PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    at = attached_.erase(at);
  }
}

void MemoryContents::drop_handle(MemoryHandle handle, std::uint64_t size_bytes) {
  const auto found = handle_offsets_.find(handle);
  if (found == handle_offsets_.end()) {
    return;
  }
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(found->second),
            static_cast<off_t>(size_bytes));
  handle_offsets_.erase(found);
}

}  // namespace simcuda
