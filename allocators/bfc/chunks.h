// What a BFC heap consists of: regions (memory from the device), the chunks that cover them, and
// the bins of free chunks. Mechanics alone: who gets which chunk is decided in heap.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

namespace allocmark::bfc {

// Chunks are numbered, and numbers of deleted chunks are used again, the latest first: TensorFlow
// keeps such numbers in its list of timestamped chunks beyond the chunk's end.
using Handle = std::size_t;
inline constexpr Handle kNoChunk = SIZE_MAX;

inline constexpr std::uint64_t kGrainBytes = 256;
inline constexpr int kBinCount = 21;  // 256 B, 512 B, ... 256 MiB and more
inline constexpr int kNoBin = -1;

[[nodiscard]] constexpr std::uint64_t rounded(std::uint64_t size_bytes) {
  return (size_bytes + kGrainBytes - 1) / kGrainBytes * kGrainBytes;
}
[[nodiscard]] int bin_of(std::uint64_t size_bytes);

// Which end of the memory a chunk belongs to. All are Lower unless the heap serves both ends; Gap
// is then the one free chunk between them, which is in no bin. The order of the values is part of
// the order in a bin.
enum class Tag : std::uint8_t { Gap, Lower, Upper };

struct Chunk {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;  // of its last owner
  std::int64_t allocation_id = -1;    // -1: free
  Handle prev = kNoChunk;             // by address, in the same region
  Handle next = kNoChunk;
  int bin = kNoBin;
  std::uint64_t freed_at = 0;  // a timestamp; 0: none
  Tag tag = Tag::Lower;

  [[nodiscard]] bool in_use() const { return allocation_id != -1; }
};

struct Region {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

struct ChunksOptions {
  bool has_gap = false;           // memory of both ends, with one gap between them
  bool joins_regions = false;     // a region right behind another one becomes its part
  bool lower_descending = false;  // of free chunks with equal size the highest comes first
  bool upper_descending = false;
};

class Chunks {
 public:
  // A free chunk in a bin. In the order in which a request meets them.
  struct Place {
    std::uint64_t size_bytes;
    Tag tag;
    std::uint64_t rank;
    Handle handle;
    [[nodiscard]] bool operator<(const Place& other) const {
      if (size_bytes != other.size_bytes) return size_bytes < other.size_bytes;
      return tag != other.tag ? tag < other.tag : rank < other.rank;
    }
  };
  using Bin = std::set<Place>;

  explicit Chunks(const ChunksOptions& options) : options_(options) {}

  [[nodiscard]] Chunk& at(Handle handle) { return chunks_[handle]; }
  [[nodiscard]] const Chunk& at(Handle handle) const { return chunks_[handle]; }
  // kNoChunk where no chunk begins there.
  [[nodiscard]] Handle find(std::uint64_t address) const;
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }  // by address
  [[nodiscard]] const Bin& bin(int index) const { return bins_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] Handle gap() const { return gap_; }
  [[nodiscard]] std::uint64_t free_bytes_largest() const;

  // One free chunk that is in no bin yet.
  [[nodiscard]] Handle add_region(const Region& region);
  [[nodiscard]] bool region_in_use(const Region& region) const;
  // Forgets the region and its chunks, all free.
  void remove_region(std::size_t index);

  // Into its bin, or as the gap. Throws EnvironmentError at a second gap, where XLA ends the
  // process.
  void insert_free(Handle handle);
  void remove_free(Handle handle);
  // The first size_bytes stay `handle`, which is in no bin; what is left is a new free chunk, put
  // away. Gives the new chunk.
  Handle split(Handle handle, std::uint64_t size_bytes);
  // Joins the chunk with free neighbours, unless a timestamp holds either back. Gives what it is
  // part of then, in no bin.
  [[nodiscard]] Handle coalesce(Handle handle, bool ignores_timestamps);
  // A chunk just freed at the border of the gap belongs to it.
  void return_to_gap(Handle handle);

 private:
  [[nodiscard]] Place place_of(Handle handle) const;
  [[nodiscard]] Handle take_handle();
  void merge(Handle first, Handle second);
  void erase(Handle handle);
  [[nodiscard]] bool may_join(Handle handle, bool ignores_timestamps) const;

  ChunksOptions options_;
  std::vector<Chunk> chunks_;
  Handle unused_head_ = kNoChunk;  // a list through `next`
  std::array<Bin, kBinCount> bins_;
  Handle gap_ = kNoChunk;
  std::vector<Region> regions_;
  std::unordered_map<std::uint64_t, Handle> by_address_;
};

}  // namespace allocmark::bfc
