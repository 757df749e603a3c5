// Stitched address ranges: the half of the vmm_stitch backend that owns physical memory. Physical
// chunks of one size are taken from the driver one by one and never move; a view is a range of
// addresses mapped onto some of them, wherever they lie. Chunks stay mapped in every view they were
// ever stitched into, so that going back to an earlier combination costs no driver call (the idea
// of GMLake, https://arxiv.org/abs/2401.08156). Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "allocators/cuda/driver.h"
#include "allocators/stitch/addresses.h"
#include "allocators/stitch/chunk_set.h"

namespace allocmark::stitch {

struct RangesOptions {
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  std::uint64_t limit_bytes = 0;  // of physical memory; 0 = what the device has
  std::uint64_t mapped_percent_max =
      400;  // mapped addresses per physical memory, before idle views go
  bool takes_from_others_first = false;  // other streams' free chunks before new ones
};

struct RangesCounts {
  std::uint64_t create_count = 0;    // physical chunks taken from the device
  std::uint64_t release_count = 0;   // given back
  std::uint64_t stitch_count = 0;    // views made
  std::uint64_t reuse_count = 0;     // requests served from an idle view, without a driver call
  std::uint64_t drop_count = 0;      // views unmapped
  std::uint64_t taken_count = 0;     // chunks that went from one stream to another
  std::uint64_t shortage_count = 0;  // times the device had no chunk more to give
};

struct View;

// Some chunks in a row of one view, in use.
struct Range {
  View* view = nullptr;
  std::uint64_t chunk_count = 0;  // from the view's first chunk on
  [[nodiscard]] std::uint64_t address() const;
  // The same in every run, unlike the address (addresses.h).
  [[nodiscard]] std::uint64_t order() const;
};

class Ranges {
 public:
  // The driver has to outlive this, and to be on the device that is used.
  Ranges(caching::Driver& driver, const RangesOptions& options);
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;
  // Waits for the device and gives everything back, used or not.
  ~Ranges();

  // A range of at least size_bytes (not 0) that work queued on `stream` from now on may use;
  // nothing where memory is out. In this order: the smallest idle view that is large enough; else a
  // new view over the stream's free chunks, filled up with new ones; where the device has none,
  // with those that other streams have freed, for which `stream` (not the host) waits. Blocks the
  // host where the driver does.
  [[nodiscard]] std::optional<Range> take(std::uint64_t size_bytes, caching::Stream stream);
  // The range's memory may be used again by work queued on `stream` from now on.
  void give(const Range& range, caching::Stream stream);
  // Blocks the host until the device is idle, then unmaps every unused view and gives back the
  // chunks that no view holds any more.
  void trim();

  [[nodiscard]] std::uint64_t chunk_bytes() const { return options_.chunk_bytes; }
  [[nodiscard]] std::uint64_t reserved_bytes() const;
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream stream) const;
  [[nodiscard]] std::uint64_t free_bytes_of_others(caching::Stream stream) const;
  [[nodiscard]] std::uint64_t mapped_bytes() const { return mapped_count_ * options_.chunk_bytes; }
  [[nodiscard]] std::uint64_t view_count() const { return views_.size(); }
  [[nodiscard]] const RangesCounts& counts() const { return counts_; }

 private:
  using StreamIndex = std::uint32_t;
  using ChunkIndex = std::uint32_t;

  // Chunks that are mapped into the same views have one list of them together: those of a large
  // block have few lists.
  using ViewList = std::shared_ptr<const std::vector<View*>>;
  struct Chunk {
    caching::PageHandle page = 0;
    bool exists = false;
    bool busy = false;
    StreamIndex stream = 0;  // whose work used it last
    ViewList views;          // all it is mapped into; null: none
  };
  // One stream and its free chunks, lowest index first: the same calls give the same chunks in
  // every run.
  struct StreamChunks {
    caching::Stream stream = 0;
    ChunkSet free;
  };

  [[nodiscard]] StreamIndex index_of(caching::Stream stream);
  [[nodiscard]] const StreamChunks* find(caching::Stream stream) const;
  [[nodiscard]] View* find_idle(std::uint64_t chunk_count, StreamIndex stream) const;
  [[nodiscard]] bool gather(std::uint64_t chunk_count, StreamIndex stream);
  void create_chunks(std::uint64_t wanted_count, StreamIndex stream);
  void take_from_others(std::uint64_t chunk_count, StreamIndex stream);
  [[nodiscard]] View* stitch(std::uint64_t chunk_count, StreamIndex stream);
  void map(View& view);
  void set_busy(const Range& range, bool busy);
  template <typename Change>
  void change_views(const View& view, const Change& change);
  void drop(View& view);
  void drop_oldest();
  void release(ChunkIndex index);

  caching::Driver& driver_;
  RangesOptions options_;
  std::uint64_t device_bytes_ = 0;
  Addresses addresses_;
  std::vector<Chunk> chunks_;
  std::vector<ChunkIndex> unused_indexes_;                // of chunks_ that were given back
  std::vector<StreamChunks> streams_;                     // in order of their first use
  std::map<std::uint64_t, std::unique_ptr<View>> views_;  // by id, which is their age
  // Views of which no chunk is in use, by (chunk count, id).
  std::map<std::pair<std::uint64_t, std::uint64_t>, View*> idle_;
  std::uint64_t chunk_count_ = 0;   // that exist
  std::uint64_t mapped_count_ = 0;  // sum over views
  std::uint64_t next_view_id_ = 0;
  std::uint64_t tick_ = 0;
  RangesCounts counts_;
};

struct View {
  std::uint64_t id = 0;
  Place place;
  std::vector<std::uint32_t> chunks;  // indexes, in address order
  std::uint64_t busy_count = 0;       // chunks of it in use, through this view or another
  std::uint64_t tick_last = 0;        // of its last use
  bool in_use = false;                // a range of it is handed out
};

inline std::uint64_t Range::address() const { return view->place.address; }
inline std::uint64_t Range::order() const { return view->place.order; }

}  // namespace allocmark::stitch
