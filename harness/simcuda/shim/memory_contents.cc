#include "harness/simcuda/shim/memory_contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "harness/simcuda/shim/address_space.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kHeapWindowFactor = 8;  // address space per byte of memory: room for holes
constexpr std::uint64_t kHeapWindowBytesMin = std::uint64_t{64} << 30;
constexpr std::uint64_t kHeapTop = 0x7e0000000000;  // below what the kernel hands out by itself
constexpr std::uint64_t kAreaLow = 0x302000000;     // where the driver starts
// Where the area may end: far up, as PyTorch reserves 9/8 of the device for each stream there, and
// low enough that its mirror finds room beside it, or where the driver's ends.
constexpr std::array<std::uint64_t, 2> kAreaHighs = {0x280000000000, 0x0f0000000000};
// Windows and mirrors of less than this many times the memory are not worth having: holes need
// room.
constexpr std::uint64_t kRoomFactorMin = 2;

}  // namespace

MemoryContents::MemoryContents(DevicePlace place, std::uint64_t total_bytes) {
  const std::uint64_t index = static_cast<std::uint64_t>(place.index);
  const std::uint64_t heap_bytes =
      round_up(std::max(kHeapWindowFactor * total_bytes, kHeapWindowBytesMin), kChunkBytes);
  const std::uint64_t heap_top = kHeapTop - index * (heap_bytes + kChunkBytes);
  room_bytes_min_ = round_up(kRoomFactorMin * total_bytes, kChunkBytes);
  heap_.application = reserve_window({heap_top - heap_bytes, heap_top}, room_bytes_min_);
  reserve_area(place);
}

// The largest that lies where the driver's does; else the largest elsewhere, as AddressSanitizer's
// own area begins at 2 GiB; else the smallest, wherever it can be.
void MemoryContents::reserve_area(DevicePlace place) {
  const auto wanted_to = [&](std::uint64_t high) {
    const std::uint64_t share =
        round_down((high - kAreaLow) / static_cast<std::uint64_t>(place.count), kChunkBytes);
    const std::uint64_t area_low = kAreaLow + static_cast<std::uint64_t>(place.index) * share;
    return Range{area_low, area_low + share};
  };
  const auto take = [&](Range wanted, Range got) {
    area_.application = got;
    area_moved_bytes_ = got.lo - wanted.lo;
  };
  if (!under_thread_sanitizer()) {
    for (const std::uint64_t high : kAreaHighs) {
      const Range wanted = wanted_to(high);
      if (reserve_exactly(wanted)) return take(wanted, wanted);
    }
    const Range wanted = wanted_to(kAreaHighs.front());
    if (const std::optional<Range> got = reserve_moved(wanted)) return take(wanted, *got);
  }
  const Range wanted = wanted_to(kAreaHighs.back());
  take(wanted, reserve_window(wanted, room_bytes_min_));
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

// The heap grows downwards from its window's end, the area upwards from its start: a mirror that is
// smaller than its window lies there.
bool MemoryContents::make_mirror(Window& window) {
  if (window.mirror != 0) {
    return true;
  }
  // ThreadSanitizer leaves 1 to 6 TiB for all that a program maps.
  const std::uint64_t wanted_bytes =
      under_thread_sanitizer() ? room_bytes_min_ : window.application.size_bytes();
  const Range mirror = map_mirror(wanted_bytes, room_bytes_min_);
  if (mirror.empty()) {
    return false;
  }
  window.mirror = mirror.lo;
  window.mirrored = window.application;
  if (&window == &heap_) {
    window.mirrored.lo = window.mirrored.hi - mirror.size_bytes();
  } else {
    window.mirrored.hi = window.mirrored.lo + mirror.size_bytes();
  }
  return true;
}

void* MemoryContents::mirror(std::uint64_t address, std::uint64_t size_bytes) {
  Window* window = window_of(address);
  if (window == nullptr || !make_mirror(*window) || address < window->mirrored.lo ||
      address > window->mirrored.hi || size_bytes > window->mirrored.hi - address) {
    return nullptr;
  }
  if (window == &heap_) {
    for (std::uint64_t page = round_down(address, kPageBytes); page < address + size_bytes;
         page += kPageBytes) {
      touched_pages_.insert(page);
    }
  }
  return window->at(address);
}

void MemoryContents::discard(Range range) {
  if (touched_pages_.empty()) {
    return;
  }
  for (std::uint64_t page = range.lo; page < range.hi; page += kPageBytes) {
    if (touched_pages_.erase(page) != 0) {
      madvise(heap_.at(page), kPageBytes, MADV_DONTNEED);
    }
  }
}

bool MemoryContents::attach(const Mapping& mapping) {
  if (attached_.contains(mapping.range.lo)) {
    return true;
  }
  Window* window = window_of(mapping.range.lo);
  if (window == nullptr || !make_mirror(*window) || mapping.range.lo < window->mirrored.lo ||
      mapping.range.hi > window->mirrored.hi) {
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
  if (mmap(window->at(mapping.range.lo), mapping.range.size_bytes(), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file_,
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
    mmap(window->at(at->first), at->second.size_bytes(), PROT_READ | PROT_WRITE,
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
