#include "harness/simcuda/shim/memory_contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <vector>

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
// Pages that show a file, each a mapping of the process, of which Linux allows 65,530.
constexpr std::size_t kShownPageCountMax = 16384;
constexpr std::uint64_t kHostPageBytes = 4096;

// Writes a page into a sparse file. Zeros take no memory there.
bool write_page(int file, const unsigned char* bytes, off_t place) {
  static constexpr std::array<unsigned char, kHostPageBytes> kZeros{};
  for (std::uint64_t at = 0; at < kPageBytes; at += kHostPageBytes) {
    if (std::memcmp(bytes + at, kZeros.data(), kHostPageBytes) == 0) continue;
    if (pwrite(file, bytes + at, kHostPageBytes, place + static_cast<off_t>(at)) !=
        static_cast<ssize_t>(kHostPageBytes)) {
      return false;
    }
  }
  return true;
}

// Memory of the machine, taken when touched, in the place of what was there.
void map_empty(void* place, std::uint64_t size_bytes) {
  mmap(place, size_bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

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
  return heap_.application.holds(address) || area_.application.holds(address);
}

MemoryContents::Window* MemoryContents::window_of(std::uint64_t address) {
  for (Window* window : {&heap_, &area_}) {
    if (window->application.holds(address)) return window;
  }
  return nullptr;
}

// The heap grows downwards from its window's end, the area upwards from its start: a mirror that is
// smaller than its window lies there.
bool MemoryContents::make_mirror(Window& window) {
  if (window.mirror != 0) return true;
  // ThreadSanitizer leaves 1 to 6 TiB for all that a program maps.
  const std::uint64_t wanted_bytes =
      under_thread_sanitizer() ? room_bytes_min_ : window.application.size_bytes();
  const Range mirror = map_mirror(wanted_bytes, room_bytes_min_);
  if (mirror.empty()) return false;
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
  if (touched_pages_.empty()) return;
  for (std::uint64_t page = range.lo; page < range.hi; page += kPageBytes) {
    if (touched_pages_.erase(page) != 0) clear_page(heap_, page);
  }
}

void MemoryContents::clear_page(const Window& window, std::uint64_t page) {
  if (shown_pages_.erase(page) == 0 && shared_pages_.erase(page) == 0) {
    madvise(window.at(page), kPageBytes, MADV_DONTNEED);
    return;
  }
  map_empty(window.at(page), kPageBytes);
}

bool MemoryContents::is_attached(std::uint64_t address) const {
  if (shared_pages_.contains(round_down(address, kPageBytes))) return true;
  const auto found = last_up_to(attached_, address);
  return found != attached_.end() && found->second.hi > address;
}

int MemoryContents::pattern_file(unsigned char value) {
  const auto [place, is_new] = pattern_files_.try_emplace(value, -1);
  if (!is_new) return place->second;
  const int file = memfd_create("simcuda fill", MFD_CLOEXEC);
  if (file < 0) return -1;
  const std::vector<unsigned char> bytes(kPageBytes, value);
  if (write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    close(file);
    return -1;
  }
  place->second = file;
  return file;
}

bool MemoryContents::show(const Window& window, std::uint64_t page, unsigned char value) {
  if (value == 0) {
    clear_page(window, page);
    return true;
  }
  if (!shown_pages_.contains(page) && shown_pages_.size() >= kShownPageCountMax) return false;
  const int file = pattern_file(value);
  if (file < 0 || mmap(window.at(page), kPageBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, 0) == MAP_FAILED) {
    return false;
  }
  shown_pages_.insert(page);
  return true;
}

void MemoryContents::fill(Range range, unsigned char value) {
  const Window& window = *window_of(range.lo);
  // In one go where all of it is alike.
  const Range pages = {round_up(range.lo, kHostPageBytes), round_down(range.hi, kHostPageBytes)};
  const bool is_plain = shown_pages_.empty() && attached_.empty() && shared_pages_.empty();
  if (value == 0 && is_plain && !pages.empty() &&
      madvise(window.at(pages.lo), pages.size_bytes(), MADV_DONTNEED) == 0) {
    std::memset(window.at(range.lo), 0, pages.lo - range.lo);
    std::memset(window.at(pages.hi), 0, range.hi - pages.hi);
    return;
  }
  while (range.lo < range.hi) {
    const std::uint64_t page = round_down(range.lo, kPageBytes);
    const Range piece = {range.lo, std::min(range.hi, page + kPageBytes)};
    range.lo = piece.hi;
    const bool is_shared = is_attached(piece.lo);
    if (!is_shared && piece.size_bytes() == kPageBytes && show(window, page, value)) continue;
    // Zeros of a part: the system's pages in it are given back, and read as zeros.
    const Range inner = {round_up(piece.lo, kHostPageBytes), round_down(piece.hi, kHostPageBytes)};
    const bool gives_back =
        value == 0 && inner.lo < inner.hi && (is_shared || !shown_pages_.contains(page)) &&
        madvise(window.at(inner.lo), inner.size_bytes(), is_shared ? MADV_REMOVE : MADV_DONTNEED) ==
            0;
    if (!gives_back) {
      std::memset(window.at(piece.lo), value, piece.size_bytes());
      continue;
    }
    std::memset(window.at(piece.lo), 0, inner.lo - piece.lo);
    std::memset(window.at(inner.hi), 0, piece.hi - inner.hi);
  }
}

bool MemoryContents::attach(const Mapping& mapping) {
  if (attached_.contains(mapping.range.lo)) return true;
  Window* window = window_of(mapping.range.lo);
  if (window == nullptr || !make_mirror(*window) || mapping.range.lo < window->mirrored.lo ||
      mapping.range.hi > window->mirrored.hi) {
    return false;
  }
  if (!handle_places_.contains(mapping.handle)) {
    const std::optional<std::uint64_t> offset = grow_file(mapping.range.size_bytes());
    if (!offset) return false;
    handle_places_[mapping.handle] = {.file = -1, .offset_bytes = *offset};
  }
  const FilePlace& place = handle_places_[mapping.handle];
  if (mmap(window->at(mapping.range.lo), mapping.range.size_bytes(), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, place.file < 0 ? file_ : place.file,
           static_cast<off_t>(place.offset_bytes + mapping.offset_bytes)) == MAP_FAILED) {
    return false;
  }
  attached_.emplace(mapping.range.lo, mapping.range);
  return true;
}

void MemoryContents::detach(Range range) {
  auto at = attached_.lower_bound(range.lo);
  while (at != attached_.end() && at->first < range.hi) {
    Window* window = window_of(at->first);
    map_empty(window->at(at->first), at->second.size_bytes());
    at = attached_.erase(at);
  }
}

void MemoryContents::drop_handle(MemoryHandle handle, std::uint64_t size_bytes) {
  const auto found = handle_places_.find(handle);
  if (found == handle_places_.end()) return;
  const FilePlace& place = found->second;
  if (place.file >= 0) {
    close(place.file);
  } else {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(place.offset_bytes), static_cast<off_t>(size_bytes));
  }
  handle_places_.erase(found);
}

std::optional<std::uint64_t> MemoryContents::grow_file(std::uint64_t size_bytes) {
  if (file_ < 0) file_ = memfd_create("simcuda", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(file_end_bytes_ + size_bytes)) != 0) {
    return std::nullopt;
  }
  const std::uint64_t offset_bytes = file_end_bytes_;
  file_end_bytes_ += size_bytes;
  return offset_bytes;
}

MemoryContents::FilePlace MemoryContents::share(Range pages) {
  Window* const window = window_of(pages.lo);
  if (window == nullptr || mirror(pages.lo, pages.size_bytes()) == nullptr) return {};
  if (const auto first = shared_pages_.find(pages.lo); first != shared_pages_.end()) {
    for (std::uint64_t page = pages.lo; page < pages.hi; page += kPageBytes) {
      const auto found = shared_pages_.find(page);
      if (found == shared_pages_.end() || found->second - first->second != page - pages.lo) {
        return {};
      }
    }
    return {.file = file_, .offset_bytes = first->second};
  }
  const std::optional<std::uint64_t> offset = grow_file(pages.size_bytes());
  if (!offset) return {};
  for (std::uint64_t page = pages.lo; page < pages.hi; page += kPageBytes) {
    void* const bytes = window->at(page);
    const off_t place = static_cast<off_t>(*offset + (page - pages.lo));
    if (!write_page(file_, static_cast<const unsigned char*>(bytes), place) ||
        mmap(bytes, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, place) ==
            MAP_FAILED) {
      return {};
    }
    shown_pages_.erase(page);
    shared_pages_[page] = static_cast<std::uint64_t>(place);
  }
  return {.file = file_, .offset_bytes = *offset};
}

MemoryContents::FilePlace MemoryContents::share_page() {
  const std::optional<std::uint64_t> offset = grow_file(kPageBytes);
  return offset ? FilePlace{.file = file_, .offset_bytes = *offset} : FilePlace{};
}

void MemoryContents::put_into_file(MemoryHandle handle, FilePlace place) {
  handle_places_[handle] = place;
}

MemoryContents::FilePlace MemoryContents::own_file(MemoryHandle handle) const {
  const auto found = handle_places_.find(handle);
  return found == handle_places_.end() ? FilePlace{} : found->second;
}

}  // namespace simcuda
