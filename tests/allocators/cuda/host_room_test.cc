// The room for the host's memory. Goal: what the host maps later goes where the room was, and no
// range that the driver takes fits there. Method: the kernel gives the highest place that is free.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "allocators/cuda/host_room.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::uintptr_t place_of_mapping(std::size_t size_bytes) {
  void* const begin =
      mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(begin != MAP_FAILED);
  munmap(begin, size_bytes);
  return reinterpret_cast<std::uintptr_t>(begin);
}

// Takes the holes that earlier tests of the process left above the place of the room, and are too
// small for it: they would come first.
class FilledHoles {
 public:
  explicit FilledHoles(std::size_t size_bytes) : size_bytes_(size_bytes) {
    while (place_of_mapping(size_bytes) >= place_of_mapping(HostRoom::kBytes) + HostRoom::kBytes) {
      holes_.push_back(
          mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      REQUIRE(holes_.back() != MAP_FAILED);
    }
  }
  ~FilledHoles() {
    for (void* const hole : holes_) munmap(hole, size_bytes_);
  }
  FilledHoles(const FilledHoles&) = delete;
  FilledHoles& operator=(const FilledHoles&) = delete;

 private:
  std::size_t size_bytes_;
  std::vector<void*> holes_;
};

}  // namespace

TEST_CASE("later mappings go to the room, and a driver's range does not") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const FilledHoles filled(40 * kMiB);
  std::uintptr_t begin = 0;
  {
    const HostRoom room;
    begin = reinterpret_cast<std::uintptr_t>(room.begin());
    REQUIRE(begin != 0);
    // Where something lies below it, as a driver does.
    CHECK(place_of_mapping(HostRoom::kBytes) < begin);
  }
  const std::uintptr_t host = place_of_mapping(40 * kMiB);
  CHECK(host >= begin);
  CHECK(host + 40 * kMiB <= begin + HostRoom::kBytes);
  // The least that the driver reserves for a chunk of 32 MiB at a multiple of 32 MiB.
  CHECK(place_of_mapping(64 * kMiB - 4096) < begin);
}

TEST_CASE("a hole above the room is taken first where it is not filled") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  constexpr std::size_t kHoleBytes = 44 * kMiB;
  const FilledHoles before(40 * kMiB);
  // A hole with something below it.
  constexpr std::size_t kBelowBytes = 4 * kMiB;
  void* const below = mmap(nullptr, kBelowBytes + kHoleBytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(below != MAP_FAILED);
  munmap(static_cast<char*>(below) + kBelowBytes, kHoleBytes);
  std::uintptr_t begin = 0;
  const auto place_after_room = [&begin] {
    const HostRoom room;
    begin = reinterpret_cast<std::uintptr_t>(room.begin());
  };
  place_after_room();
  CHECK(place_of_mapping(40 * kMiB) >= begin + HostRoom::kBytes);
  {
    const FilledHoles filled(40 * kMiB);
    place_after_room();
    CHECK(place_of_mapping(40 * kMiB) < begin + HostRoom::kBytes);
  }
  munmap(below, kBelowBytes);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("large blocks of the C library come from its heap") {
  const HostRoom room;
  void* const block = std::malloc(64u << 20);
  REQUIRE(block != nullptr);
  CHECK(block < sbrk(0));
  CHECK(reinterpret_cast<std::uintptr_t>(block) + (64u << 20) <=
        reinterpret_cast<std::uintptr_t>(sbrk(0)));
  std::free(block);
}
#endif

}  // namespace allocmark
