// CuPy 14's memory pool (cupy.cuda.MemoryPool): which free chunk a request gets, and when memory is
// taken from the device and given back. Requests flow in, addresses flow out; memory comes from a
// Source. Not thread-safe.
//
// In short: sizes are rounded up to 512 B. Every stream has chunks of its own. A request takes the
// smallest free chunk of its stream that is large enough, and what is left of it becomes a free
// chunk, however small. Without one, the device is asked for exactly the size. A freed chunk is
// joined with its free neighbours at once. Where the device refuses, all chunks that are whole go
// back to it, of all streams, and it is asked again, twice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace allocmark::cupy {

// Where memory comes from.
class Source {
 public:
  virtual ~Source() = default;
  // The address, or nothing where there is no memory. The heap owns it until give().
  [[nodiscard]] virtual std::optional<std::uint64_t> take(std::uint64_t size_bytes) = 0;
  virtual void give(std::uint64_t address) = 0;
};

struct Request {
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  // Of equally large free chunks CuPy takes the one whose Python object lies lowest in the host's
  // memory, which says nothing. The heap takes the one that was freed last; where one of them
  // begins at this address, that one.
  std::uint64_t wanted_address = 0;
};

// A piece of a segment, which is what the device was asked for at once.
struct Chunk {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  std::uint64_t freed_number = 0;  // 0: in use
  Chunk* prev = nullptr;           // of the same segment, by address
  Chunk* next = nullptr;
  [[nodiscard]] bool is_free() const { return freed_number != 0; }
  [[nodiscard]] bool is_whole() const { return prev == nullptr && next == nullptr; }
};

struct HeapCounters {
  std::uint64_t used_bytes = 0;   // in use, rounded
  std::uint64_t total_bytes = 0;  // of the device, as CuPy counts
  std::uint64_t take_count = 0;   // from the device
  std::uint64_t give_count = 0;
  std::uint64_t retry_count = 0;  // times the device was asked again
};

class Heap {
 public:
  // The source must outlive the heap. `limit_bytes`: of all memory taken; 0: none. Where a request
  // would exceed it, whole free chunks go back first, but not for one that is larger than the
  // limit by itself.
  explicit Heap(Source& source, std::uint64_t limit_bytes = 0)
      : source_(source), limit_bytes_(limit_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  // Gives back all memory, also of chunks in use.
  ~Heap();

  // The address; nothing where there is no memory. The size must be above 0 and below 2^63.
  [[nodiscard]] std::optional<std::uint64_t> allocate(const Request& request);
  // False where the address is none that allocate() gave and that was not given back since.
  [[nodiscard]] bool deallocate(std::uint64_t address);
  // Gives whole free chunks back to the device.
  void free_all_blocks();

  [[nodiscard]] const HeapCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t limit_bytes() const { return limit_bytes_; }
  [[nodiscard]] std::uint64_t free_bytes(std::uint64_t stream) const;
  [[nodiscard]] std::uint64_t free_bytes_largest(std::uint64_t stream) const;
  [[nodiscard]] std::uint64_t free_count() const;
  // The first chunk of every segment, by address.
  [[nodiscard]] std::vector<const Chunk*> segments() const;

 private:
  // Smallest first, of one size those that were freed last.
  struct ByFit {
    bool operator()(const Chunk* a, const Chunk* b) const {
      return std::pair(a->size_bytes, ~a->freed_number) <
             std::pair(b->size_bytes, ~b->freed_number);
    }
  };
  using Arena = std::set<Chunk*, ByFit>;

  [[nodiscard]] Chunk* take_free(const Request& request);
  [[nodiscard]] Chunk* take_from_device(const Request& request);
  // Under the limit, after giving back what can go.
  [[nodiscard]] bool has_room(std::uint64_t size_bytes);
  void split(Chunk* chunk, std::uint64_t size_bytes);
  // Joins a chunk with the one behind it.
  void join(Chunk* chunk);
  void put_free(Chunk* chunk);
  void take_out(Chunk* chunk);
  Chunk* add(const Chunk& chunk);

  Source& source_;
  std::uint64_t limit_bytes_;
  std::map<std::uint64_t, Arena> arenas_;                             // by stream
  std::unordered_map<std::uint64_t, std::unique_ptr<Chunk>> chunks_;  // all, by address
  std::uint64_t freed_count_ = 0;
  HeapCounters counters_;
};

}  // namespace allocmark::cupy
