// What simulated device memory contains. The addresses that a program sees are reserved without any
// access, so that a host dereference faults as on a real host; behind them lies a readable mirror
// at a constant distance, which takes no memory until it is touched. Memory handles (virtual memory
// management) lie in a sparse file, so that two mappings of one handle show the same bytes. Not
// thread safe: the device's lock protects it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "harness/simcuda/core/virtual_memory.h"

namespace simcuda {

// Which of how many simulated devices: each has address ranges of its own.
struct DevicePlace {
  int index = 0;
  int count = 1;
};

class MemoryContents {
 public:
  // Reserves both windows; throws std::runtime_error where the system does not give the address
  // space.
  MemoryContents(DevicePlace place, std::uint64_t total_bytes);
  MemoryContents(const MemoryContents&) = delete;
  MemoryContents& operator=(const MemoryContents&) = delete;

  [[nodiscard]] Range heap_window() const { return heap_.application; }
  [[nodiscard]] Range area_window() const { return area_.application; }
  // How far the area lies from where the driver's is.
  [[nodiscard]] std::uint64_t area_moved_bytes() const { return area_moved_bytes_; }
  [[nodiscard]] bool holds(std::uint64_t address) const;

  // Mirror of a range inside one window, null where the system does not give the memory. Ranges of
  // mapped handles have to be attached first.
  [[nodiscard]] void* mirror(std::uint64_t address, std::uint64_t size_bytes);
  // The range's pages went back to the device: their contents may be dropped.
  void discard(Range range);
  // All of the range shows `value` from now on, in every view of it. The range has a mirror already
  // (mirror()). Takes memory of the machine only for what is written there later, and for ends that
  // are no whole pages.
  void fill(Range range, unsigned char value);

  // Makes the mirror of a mapping show its handle's bytes.
  [[nodiscard]] bool attach(const Mapping& mapping);
  void detach(Range range);
  // The handle's memory is gone.
  void drop_handle(MemoryHandle handle, std::uint64_t size_bytes);

  // Where bytes lie that another process can map, too.
  struct FilePlace {
    int file = -1;
    std::uint64_t offset_bytes = 0;
  };
  // Moves whole pages into the file of shared bytes, where they are not there yet. Contents stay.
  // Negative where the system does not do that, or the pages do not lie there in one piece.
  [[nodiscard]] FilePlace share(Range pages);
  // Whole pages of the same file that show nothing of the device.
  [[nodiscard]] FilePlace share_page();
  // The handle's bytes are those of a file from now on, before it is mapped. Owns the file.
  void put_into_file(MemoryHandle handle, FilePlace place);
  // Nothing where the handle has no file of its own.
  [[nodiscard]] FilePlace own_file(MemoryHandle handle) const;

 private:
  struct Window {
    Range application;
    Range mirrored;            // the part of it that the mirror shows
    std::uint64_t mirror = 0;  // 0: not made yet
    // Needs an address in `mirrored`.
    [[nodiscard]] void* at(std::uint64_t address) const {
      return reinterpret_cast<void*>(mirror + (address - mirrored.lo));
    }
  };
  void reserve_area(DevicePlace place);
  [[nodiscard]] Window* window_of(std::uint64_t address);
  [[nodiscard]] bool make_mirror(Window& window);
  // The whole page's mirror shows the value, without memory of its own; false where the system does
  // not do that.
  [[nodiscard]] bool show(const Window& window, std::uint64_t page, unsigned char value);
  void clear_page(const Window& window, std::uint64_t page);
  // A mapped handle's bytes, or a shared page's, which other mappings may show as well.
  [[nodiscard]] bool is_attached(std::uint64_t address) const;
  // Offset of so many new bytes of file_; nothing where the system gives none.
  [[nodiscard]] std::optional<std::uint64_t> grow_file(std::uint64_t size_bytes);
  // A file of one page whose bytes are all `value`; negative where there is none.
  [[nodiscard]] int pattern_file(unsigned char value);

  Window heap_;
  Window area_;
  std::uint64_t room_bytes_min_ = 0;  // of a window, and of a mirror
  std::uint64_t area_moved_bytes_ = 0;
  std::unordered_set<std::uint64_t> touched_pages_;  // heap pages that were ever viewed
  std::unordered_set<std::uint64_t> shown_pages_;    // whose mirror is a file of show()
  std::map<unsigned char, int> pattern_files_;
  std::map<std::uint64_t, Range> attached_;                        // by lo
  std::unordered_map<MemoryHandle, FilePlace> handle_places_;      // file -1: file_
  std::unordered_map<std::uint64_t, std::uint64_t> shared_pages_;  // their offsets in file_
  std::uint64_t file_end_bytes_ = 0;
  int file_ = -1;
};

}  // namespace simcuda
