// A second, slow reading of the caching allocator's rules, to check the fast one against: segments
// are plain lists of blocks, every search looks at everything, figures are counted anew each time.
// Shares nothing with the allocator but the settings and the device interface.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "allocators/caching/settings.h"
#include "allocators/cuda/driver.h"

namespace allocmark::caching {

inline constexpr std::uint64_t kMega = 1u << 20;

// To the next multiple of a step.
inline std::uint64_t up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

class ReferenceModel {
 public:
  struct Piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t requested = 0;
    std::uint64_t born = 0;  // the how-manieth piece it is
    std::int64_t since = 0;  // the pool's search count when it became free
    int waits = 0;           // events to pass
    bool owned = false;
    bool mapped = true;
    std::set<Stream> uses{};
    [[nodiscard]] bool idle() const { return !owned && waits == 0 && uses.empty(); }
  };
  struct Segment {
    bool small = false;
    bool expandable = false;
    Stream stream = 0;
    std::uint64_t base = 0;
    std::uint64_t page = 0;
    std::uint64_t born = 0;       // the how-manieth segment it is
    std::vector<Piece> pieces{};  // by address
    std::map<std::uint64_t, PageHandle> pages{};
  };
  // All current values, small pool first.
  struct Figures {
    std::array<std::int64_t, 2> allocation{}, allocated_bytes{}, active{}, active_bytes{},
        requested_bytes{}, segment{}, reserved_bytes{}, inactive_split{}, inactive_split_bytes{};
  };

  ReferenceModel(Driver& driver, const Settings& first_settings,
                 std::optional<std::uint64_t> first_limit)
      : settings(first_settings), limit(first_limit), driver_(driver) {}

  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t request, Stream stream);
  void deallocate(std::uint64_t address);
  void record_stream(std::uint64_t address, Stream stream);
  void empty_cache();

  [[nodiscard]] Figures count() const;
  [[nodiscard]] const std::list<Segment>& segments() const { return segments_; }

  Settings settings;
  std::optional<std::uint64_t> limit;
  std::int64_t retries = 0, failures = 0, device_allocs = 0, device_frees = 0, sync_alls = 0,
               split_releases = 0;

 private:
  struct Place {
    Segment* segment = nullptr;
    std::size_t index = 0;
    [[nodiscard]] Piece& piece() const { return segment->pieces[index]; }
    [[nodiscard]] bool split() const { return segment->pieces.size() > 1; }
  };
  struct Need {
    std::uint64_t request, bytes, segment_bytes;
    bool small;
    Stream stream;
  };

  [[nodiscard]] std::uint64_t round(std::uint64_t request) const;
  [[nodiscard]] std::vector<Place> free_places(bool small, std::optional<Stream> stream);
  [[nodiscard]] std::optional<Place> find_cached(const Need& need);
  [[nodiscard]] std::optional<Place> ask_device(const Need& need, bool retry);
  [[nodiscard]] std::optional<Place> grow_expandable(const Need& need);
  [[nodiscard]] bool map(Segment& segment, std::size_t index, std::uint64_t bytes);
  void unmap(std::uint64_t address);
  void collect();
  bool release_oversize(const Need& need);
  void release_all();
  void release(const Place& place);
  std::uint64_t hand_out(Place place, const Need& need);
  void set_free(Segment& segment, std::uint64_t address);
  void merge(Segment& segment, std::uint64_t caller);
  void pass_event(std::uint64_t address);
  [[nodiscard]] Place at(std::uint64_t address);
  [[nodiscard]] std::uint64_t reserved() const;

  Driver& driver_;
  std::list<Segment> segments_;
  std::array<std::int64_t, 2> searches_{};
  std::uint64_t births_ = 0;
  std::map<Stream, std::deque<std::pair<Event, std::uint64_t>>> events_;
};

}  // namespace allocmark::caching
