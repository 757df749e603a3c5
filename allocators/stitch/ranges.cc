// Chunks, views and who may use them; see ranges.h.
#include "allocators/stitch/ranges.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace allocmark::stitch {
namespace {

// So many idle views are looked at for one request before a new one is stitched.
constexpr int kCandidateCountMax = 64;
// A region larger than this may not be had where many allocators share a process.
constexpr std::uint64_t kRegionBytesMax = kTiB;

std::uint64_t usable_bytes(caching::Driver& driver, const RangesOptions& options) {
  const std::uint64_t total_bytes = driver.device_total_bytes();
  return options.limit_bytes == 0 ? total_bytes : std::min(total_bytes, options.limit_bytes);
}

// Room for all that may be mapped, and as much again as there is memory, since places are used up
// in pieces.
std::uint64_t region_bytes(const RangesOptions& options, std::uint64_t device_bytes) {
  const std::uint64_t wanted_bytes = device_bytes / 100 * (options.mapped_percent_max + 100);
  const std::uint64_t chunk_count = std::min(wanted_bytes, kRegionBytesMax) / options.chunk_bytes;
  return (chunk_count + 1) * options.chunk_bytes;
}

}  // namespace

Ranges::Ranges(caching::Driver& driver, const RangesOptions& options)
    : driver_(driver),
      options_(options),
      device_bytes_(usable_bytes(driver, options)),
      addresses_(driver, region_bytes(options, device_bytes_)) {}

Ranges::~Ranges() {
  try {
    driver_.wait_for_device();
    while (!views_.empty()) drop(*views_.begin()->second);
    for (ChunkIndex index = 0; index < chunks_.size(); ++index) {
      if (chunks_[index].exists) driver_.release_page(chunks_[index].page);
    }
  } catch (const std::exception&) {
    // The context is gone, and the memory with it.
  }
}

std::optional<Range> Ranges::take(std::uint64_t size_bytes, caching::Stream stream) {
  if (size_bytes > device_bytes_) return std::nullopt;
  const std::uint64_t chunk_count = (size_bytes - 1) / options_.chunk_bytes + 1;
  const StreamIndex index = index_of(stream);
  View* view = find_idle(chunk_count, index);
  if (view != nullptr) {
    ++counts_.reuse_count;
  } else {
    if (!gather(chunk_count, index)) return std::nullopt;
    view = stitch(chunk_count, index);
  }
  const Range range{.view = view, .chunk_count = chunk_count};
  view->in_use = true;
  view->tick_last = ++tick_;
  set_busy(range, true);
  return range;
}

void Ranges::give(const Range& range, caching::Stream stream) {
  const StreamIndex index = index_of(stream);
  for (std::uint64_t i = 0; i < range.chunk_count; ++i) {
    chunks_[range.view->chunks[i]].stream = index;
  }
  range.view->in_use = false;
  set_busy(range, false);
}

// Marks the chunks, and with them every view that shares one.
void Ranges::set_busy(const Range& range, bool busy) {
  std::uint64_t begin = 0;  // of the chunks in a row that share a list
  for (std::uint64_t i = 0; i < range.chunk_count; ++i) {
    const ChunkIndex index = range.view->chunks[i];
    Chunk& chunk = chunks_[index];
    chunk.busy = busy;
    ChunkSet& free = streams_[chunk.stream].free;
    if (busy) {
      free.erase(index);
    } else {
      free.insert(index);
    }
    const bool is_last = i + 1 == range.chunk_count;
    if (!is_last && chunks_[range.view->chunks[i + 1]].views == chunk.views) continue;
    const std::uint64_t count = i + 1 - begin;
    begin = i + 1;
    for (View* const view : *chunk.views) {
      const std::pair key(view->chunks.size(), view->id);
      if (busy && view->busy_count == 0) idle_.erase(key);
      view->busy_count += busy ? count : -count;
      if (!busy && view->busy_count == 0) idle_.emplace(key, view);
    }
  }
}

// Changes the lists of the view's chunks; chunks that shared one do so afterwards.
template <typename Change>
void Ranges::change_views(const View& view, const Change& change) {
  std::map<ViewList, ViewList> changed;
  for (const ChunkIndex index : view.chunks) {
    ViewList& views = chunks_[index].views;
    const auto [found, is_new] = changed.try_emplace(views);
    if (is_new) {
      auto list = views == nullptr ? std::make_shared<std::vector<View*>>()
                                   : std::make_shared<std::vector<View*>>(*views);
      change(*list);
      if (!list->empty()) found->second = std::move(list);
    }
    views = found->second;
  }
}

Ranges::StreamIndex Ranges::index_of(caching::Stream stream) {
  for (StreamIndex index = 0; index < streams_.size(); ++index) {
    if (streams_[index].stream == stream) return index;
  }
  streams_.push_back({.stream = stream, .free = {}});
  return static_cast<StreamIndex>(streams_.size() - 1);
}

const Ranges::StreamChunks* Ranges::find(caching::Stream stream) const {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const StreamChunks& each) { return each.stream == stream; });
  return found == streams_.end() ? nullptr : &*found;
}

View* Ranges::find_idle(std::uint64_t chunk_count, StreamIndex stream) const {
  int candidate_count = 0;
  for (auto at = idle_.lower_bound({chunk_count, 0});
       at != idle_.end() && candidate_count < kCandidateCountMax; ++at, ++candidate_count) {
    View* const view = at->second;
    // Chunks of other streams could only be used after waiting for them.
    const auto end = view->chunks.begin() + static_cast<std::ptrdiff_t>(chunk_count);
    if (std::all_of(view->chunks.begin(), end,
                    [&](ChunkIndex index) { return chunks_[index].stream == stream; })) {
      return view;
    }
  }
  return nullptr;
}

// Sees that the stream has so many free chunks; false where the memory is not there.
bool Ranges::gather(std::uint64_t chunk_count, StreamIndex stream) {
  const auto missing_count = [&] {
    const std::uint64_t have = streams_[stream].free.size();
    return have < chunk_count ? chunk_count - have : 0;
  };
  if (options_.takes_from_others_first) take_from_others(chunk_count, stream);
  if (missing_count() == 0) return true;
  create_chunks(missing_count(), stream);
  if (missing_count() == 0) return true;
  ++counts_.shortage_count;
  std::uint64_t free_count = 0;
  for (const StreamChunks& each : streams_) free_count += each.free.size();
  if (free_count < chunk_count) return false;
  take_from_others(chunk_count, stream);
  return true;
}

// New free chunks for the stream: as many as wanted, or none.
void Ranges::create_chunks(std::uint64_t wanted_count, StreamIndex stream) {
  const std::uint64_t wanted_bytes = wanted_count * options_.chunk_bytes;
  const bool over_limit =
      options_.limit_bytes != 0 && reserved_bytes() + wanted_bytes > options_.limit_bytes;
  // Asked first, because a thousand chunks taken and given back in vain take long.
  if (over_limit || driver_.memory().free_bytes < wanted_bytes) return;
  std::vector<ChunkIndex> created;
  for (std::uint64_t i = 0; i < wanted_count; ++i) {
    const std::optional<caching::PageHandle> page = driver_.create_page(options_.chunk_bytes);
    if (!page) {
      for (const ChunkIndex index : created) release(index);
      return;
    }
    ChunkIndex index = static_cast<ChunkIndex>(chunks_.size());
    if (unused_indexes_.empty()) {
      chunks_.emplace_back();
    } else {
      index = unused_indexes_.back();
      unused_indexes_.pop_back();
    }
    chunks_[index] = {.page = *page, .exists = true, .busy = false, .stream = stream, .views = {}};
    streams_[stream].free.insert(index);
    created.push_back(index);
    ++chunk_count_;
    ++counts_.create_count;
  }
}

// Moves free chunks of other streams to this one, which then waits for the work that those streams
// have queued so far: the host does not.
void Ranges::take_from_others(std::uint64_t chunk_count, StreamIndex stream) {
  for (StreamIndex other = 0; other < streams_.size(); ++other) {
    ChunkSet& from = streams_[other].free;
    ChunkSet& to = streams_[stream].free;
    if (other == stream || from.empty() || to.size() >= chunk_count) continue;
    const caching::Event event = driver_.create_event();
    try {
      driver_.record_event(event, streams_[other].stream);
      driver_.make_stream_wait(streams_[stream].stream, event);
    } catch (...) {
      driver_.destroy_event(event);
      throw;
    }
    driver_.destroy_event(event);
    while (!from.empty() && to.size() < chunk_count) {
      const ChunkIndex index = from.first();
      from.erase(index);
      to.insert(index);
      chunks_[index].stream = stream;
      ++counts_.taken_count;
    }
  }
}

// A new view over the stream's first free chunks.
View* Ranges::stitch(std::uint64_t chunk_count, StreamIndex stream) {
  if ((mapped_count_ + chunk_count) * 100 > chunk_count_ * options_.mapped_percent_max) {
    drop_oldest();
  }
  auto view = std::make_unique<View>();
  view->id = next_view_id_++;
  view->chunks.reserve(chunk_count);
  streams_[stream].free.each_of_first(chunk_count,
                                      [&](ChunkIndex index) { view->chunks.push_back(index); });
  map(*view);
  View* const made = view.get();
  change_views(*made, [&](std::vector<View*>& list) { list.push_back(made); });
  idle_.emplace(std::pair(chunk_count, made->id), made);
  views_.emplace(made->id, std::move(view));
  mapped_count_ += chunk_count;
  ++counts_.stitch_count;
  return made;
}

void Ranges::map(View& view) {
  const std::uint64_t size_bytes = view.chunks.size() * options_.chunk_bytes;
  view.place = addresses_.take(size_bytes);
  const std::uint64_t address = view.place.address;
  std::uint64_t mapped_bytes = 0;
  try {
    for (const ChunkIndex index : view.chunks) {
      driver_.map_page(address + mapped_bytes, options_.chunk_bytes, chunks_[index].page);
      mapped_bytes += options_.chunk_bytes;
    }
    driver_.allow_access(address, size_bytes);
  } catch (...) {
    // What was mapped goes again, so that a failed stitch changes nothing.
    if (mapped_bytes != 0) driver_.unmap_page(address, mapped_bytes);
    addresses_.give(view.place, size_bytes);
    throw;
  }
}

// The device must be done with the view.
void Ranges::drop(View& view) {
  const std::uint64_t size_bytes = view.chunks.size() * options_.chunk_bytes;
  driver_.unmap_page(view.place.address, size_bytes);
  addresses_.give(view.place, size_bytes);
  change_views(view, [&](std::vector<View*>& list) { std::erase(list, &view); });
  mapped_count_ -= view.chunks.size();
  ++counts_.drop_count;
  idle_.erase({view.chunks.size(), view.id});
  views_.erase(view.id);
}

// Unmaps the views that were not used for longest until half of what is allowed is mapped. The
// device may still run work that uses one of them, so it is waited for; halving makes that rare.
void Ranges::drop_oldest() {
  std::vector<View*> unused;
  for (const auto& [id, view] : views_) {
    if (!view->in_use) unused.push_back(view.get());
  }
  if (unused.empty()) return;
  std::sort(unused.begin(), unused.end(), [](const View* a, const View* b) {
    return std::pair(a->tick_last, a->id) < std::pair(b->tick_last, b->id);
  });
  driver_.wait_for_device();
  for (View* const view : unused) {
    if (mapped_count_ * 200 <= chunk_count_ * options_.mapped_percent_max) return;
    drop(*view);
  }
}

void Ranges::release(ChunkIndex index) {
  Chunk& chunk = chunks_[index];
  driver_.release_page(chunk.page);
  streams_[chunk.stream].free.erase(index);
  chunk = {};
  unused_indexes_.push_back(index);
  --chunk_count_;
  ++counts_.release_count;
}

void Ranges::trim() {
  driver_.wait_for_device();
  std::vector<View*> unused;
  for (const auto& [id, view] : views_) {
    if (!view->in_use) unused.push_back(view.get());
  }
  for (View* const view : unused) drop(*view);
  for (ChunkIndex index = 0; index < chunks_.size(); ++index) {
    const Chunk& chunk = chunks_[index];
    if (chunk.exists && !chunk.busy && chunk.views == nullptr) release(index);
  }
}

std::uint64_t Ranges::reserved_bytes() const { return chunk_count_ * options_.chunk_bytes; }

std::uint64_t Ranges::free_bytes(caching::Stream stream) const {
  const StreamChunks* const found = find(stream);
  return found == nullptr ? 0 : found->free.size() * options_.chunk_bytes;
}

std::uint64_t Ranges::free_bytes_of_others(caching::Stream stream) const {
  std::uint64_t count = 0;
  for (const StreamChunks& each : streams_) {
    if (each.stream != stream) count += each.free.size();
  }
  return count * options_.chunk_bytes;
}

}  // namespace allocmark::stitch
