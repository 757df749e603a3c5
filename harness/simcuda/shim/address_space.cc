#include "harness/simcuda/shim/address_space.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kStepBytes = std::uint64_t{2} << 40;  // between the places that are tried
constexpr std::uint64_t kAddressLow = std::uint64_t{1} << 32;
constexpr std::uint64_t kAddressHigh = 0x7e0000000000;  // above, the kernel hands out addresses

// The system call itself: sanitizers intercept mmap, and ThreadSanitizer ends the program where
// the result is not in its own areas, even for memory that no instrumented code touches.
void* map(std::uint64_t address, std::uint64_t size_bytes, int protection, int extra_flags) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size_bytes, protection,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra_flags,
                                         -1, 0));
}

// Ranges between ThreadSanitizer's areas: it maps them without access, and nobody can map anything
// over them, so they serve as windows as they are.
std::vector<Range> closed_gaps() {
  std::vector<Range> gaps;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "r"),
                                                             &std::fclose);
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    unsigned long long lo = 0;
    unsigned long long hi = 0;
    unsigned long long inode = 1;
    char protection[5] = {};
    if (std::sscanf(line, "%llx-%llx %4s %*s %*s %llu", &lo, &hi, protection, &inode) == 4 &&
        std::strcmp(protection, "---p") == 0 && inode == 0) {
      gaps.push_back({lo, hi});
    }
  }
  return gaps;
}

// Windows that lie in closed gaps. Only the thread that starts the library comes here.
std::vector<Range>& windows_in_gaps() { return made_once<std::vector<Range>>(); }

bool take_gap(const std::vector<Range>& gaps, Range wanted) {
  const auto is_in_the_way = [&](const Range& taken) { return taken.overlaps(wanted); };
  const auto has_room = [&](const Range& gap) {
    return wanted.lo >= gap.lo && wanted.hi <= gap.hi;
  };
  if (std::ranges::any_of(windows_in_gaps(), is_in_the_way) ||
      std::ranges::none_of(gaps, has_room)) {
    return false;
  }
  windows_in_gaps().push_back(wanted);
  return true;
}

bool take_free(Range wanted) {
  void* place = map(wanted.lo, wanted.size_bytes(), PROT_NONE, MAP_FIXED_NOREPLACE);
  if (place == reinterpret_cast<void*>(wanted.lo)) return true;
  if (place != MAP_FAILED) {
    munmap(place, wanted.size_bytes());  // kernels before 4.17 take the address as advice
  }
  return false;
}

// As much as can be had, by halves; anywhere.
Range map_by_halves(std::uint64_t wanted_bytes, std::uint64_t least_bytes, int protection) {
  for (std::uint64_t size_bytes = round_down(wanted_bytes, kChunkBytes); size_bytes >= least_bytes;
       size_bytes = round_down(size_bytes / 2, kChunkBytes)) {
    void* place = map(0, size_bytes + kChunkBytes, protection, 0);
    if (place != MAP_FAILED) {
      const std::uint64_t lo = round_up(reinterpret_cast<std::uint64_t>(place), kChunkBytes);
      return {lo, lo + size_bytes};
    }
  }
  return {};
}

}  // namespace

std::optional<Range> reserve_moved(Range wanted) {
  const std::vector<Range> gaps = under_thread_sanitizer() ? closed_gaps() : std::vector<Range>{};
  for (std::uint64_t moved_bytes = 0; moved_bytes < kAddressHigh; moved_bytes += kStepBytes) {
    for (const bool up : {true, false}) {
      if ((up && wanted.hi + moved_bytes > kAddressHigh) ||
          (!up && (moved_bytes == 0 || wanted.lo < kAddressLow + moved_bytes))) {
        continue;
      }
      const std::uint64_t by_bytes = up ? moved_bytes : -moved_bytes;
      const Range range = {wanted.lo + by_bytes, wanted.hi + by_bytes};
      // ThreadSanitizer's own areas are needed for what a program maps: closed gaps come first.
      if (under_thread_sanitizer() ? take_gap(gaps, range) : take_free(range)) return range;
    }
  }
  return std::nullopt;
}

Range reserve_window(Range wanted, std::uint64_t least_bytes) {
  if (const std::optional<Range> range = reserve_moved(wanted); range) return *range;
  const Range range = map_by_halves(wanted.size_bytes(), least_bytes, PROT_NONE);
  if (range.empty()) {
    throw std::runtime_error("cannot reserve " + std::to_string(least_bytes >> 30) +
                             " GiB of address space: " + std::strerror(errno) +
                             "; raise `ulimit -v` or lower SIMCUDA_CAPACITY_BYTES");
  }
  return range;
}

bool reserve_exactly(Range wanted) { return take_free(wanted); }

Range map_mirror(std::uint64_t wanted_bytes, std::uint64_t least_bytes) {
  const Range range = map_by_halves(wanted_bytes, least_bytes, PROT_READ | PROT_WRITE);
  if (!range.empty()) {
    madvise(reinterpret_cast<void*>(range.lo), range.size_bytes(), MADV_DONTDUMP);
  }
  return range;
}

}  // namespace simcuda
