// What the slow reading of the rules takes from the device, and gives back.
#include <algorithm>
#include <cmath>
#include "tests/allocators/caching/reference_model.h"

namespace allocmark::caching {

std::optional<ReferenceModel::Place> ReferenceModel::ask_device(const Need& need, bool retry) {
  retries += retry ? 1 : 0;
  if (limit && reserved() + need.segment_bytes > *limit) return std::nullopt;
  if (settings.expandable_segments) return grow_expandable(need);
  const std::optional<std::uint64_t> address = driver_.allocate(need.segment_bytes, need.stream);
  if (!address) return std::nullopt;
  ++device_allocs;
  segments_.push_back(
      {.small = need.small, .stream = need.stream, .base = *address, .born = ++births_});
  segments_.back().pieces.push_back(
      {.address = *address, .bytes = need.segment_bytes, .born = births_});
  return Place{&segments_.back(), 0};
}

std::optional<ReferenceModel::Place> ReferenceModel::grow_expandable(const Need& need) {
  std::vector<Place> holes;
  for (Segment& segment : segments_) {
    if (!segment.expandable || segment.small != need.small || segment.stream != need.stream)
      continue;
    for (std::size_t i = 0; i < segment.pieces.size(); ++i) {
      if (!segment.pieces[i].mapped) holes.push_back({&segment, i});
    }
  }
  std::ranges::sort(holes, {}, [](const Place& place) { return place.piece().address; });
  std::optional<Place> start;
  for (const Place& hole : holes) {
    std::size_t first = hole.index;
    if (first > 0 && hole.segment->pieces[first - 1].idle()) --first;
    std::uint64_t room = 0;
    for (std::size_t i = first; i < hole.segment->pieces.size() && hole.segment->pieces[i].idle();
         ++i) {
      room += hole.segment->pieces[i].bytes;
    }
    if (room < need.bytes) continue;
    start = Place{hole.segment, first};
    break;
  }
  if (!start) {
    const std::uint64_t page = need.small ? 2 * kMega : settings.large_segment_size_bytes;
    const std::uint64_t total = driver_.device_total_bytes();
    const std::uint64_t bytes = up(total + total / 8, page);
    const std::uint64_t base = driver_.reserve_address(bytes);
    segments_.push_back({.small = need.small,
                         .expandable = true,
                         .stream = need.stream,
                         .base = base,
                         .page = page,
                         .born = ++births_});
    segments_.back().pieces.push_back(
        {.address = base, .bytes = bytes, .born = births_, .mapped = false});
    start = Place{&segments_.back(), 0};
  }
  Segment& segment = *start->segment;
  const std::uint64_t address = start->piece().address;
  while (true) {
    const Place here = at(address);
    if (here.piece().mapped && here.piece().bytes >= need.bytes) return here;
    const bool begins = !here.piece().mapped;
    const std::size_t hole = begins ? here.index : here.index + 1;
    const std::uint64_t wanted = begins ? need.bytes : need.bytes - here.piece().bytes;
    if (!map(segment, hole, std::min(wanted, segment.pieces[hole].bytes))) return std::nullopt;
  }
}

bool ReferenceModel::map(Segment& segment, std::size_t index, std::uint64_t bytes) {
  const std::uint64_t address = segment.pieces[index].address;
  const std::uint64_t mapped_bytes = up(bytes, segment.page);
  std::vector<PageHandle> pages;
  for (std::uint64_t done = 0; done < mapped_bytes; done += segment.page) {
    const std::optional<PageHandle> page = driver_.create_page(segment.page);
    if (!page) {
      for (const PageHandle created : pages) driver_.release_page(created);
      return false;
    }
    pages.push_back(*page);
  }
  for (std::size_t i = 0; i < pages.size(); ++i)
    segment.pages[address + i * segment.page] = pages[i];
  ++device_allocs;
  if (mapped_bytes < segment.pieces[index].bytes) {
    const Piece rest{.address = address + mapped_bytes,
                     .bytes = segment.pieces[index].bytes - mapped_bytes,
                     .born = ++births_,
                     .mapped = false};
    segment.pieces[index].bytes = mapped_bytes;
    segment.pieces.insert(segment.pieces.begin() + static_cast<std::ptrdiff_t>(index) + 1, rest);
  }
  segment.pieces[index].mapped = true;
  segment.pieces[index].since = searches_[segment.small ? 0 : 1];
  merge(segment, address);
  return true;
}

void ReferenceModel::release(const Place& place) {
  driver_.free(place.segment->base);
  ++device_frees;
  segments_.remove_if([&](const Segment& segment) { return &segment == place.segment; });
}

void ReferenceModel::collect() {
  const std::uint64_t kept = static_cast<std::uint64_t>(
      std::trunc(settings.garbage_collection_threshold * static_cast<double>(*limit)));
  if (reserved() <= kept) return;
  const std::uint64_t target = reserved() - kept;
  std::uint64_t reclaimed = 0;
  bool progress = true;
  while (reclaimed < target && progress) {
    progress = false;
    std::vector<Place> places = free_places(false, std::nullopt);
    std::erase_if(places, [](const Place& place) { return place.split(); });
    if (places.empty()) return;
    double sum = 0;
    for (const Place& place : places)
      sum += static_cast<double>(searches_[1] - place.piece().since);
    const double average = sum / static_cast<double>(places.size());
    for (const Place& place : places) {
      if (place.segment->expandable ||
          static_cast<double>(searches_[1] - place.piece().since) < average)
        continue;
      reclaimed += place.piece().bytes;
      progress = true;
      release(place);
    }
  }
}

bool ReferenceModel::release_oversize(const Need& need) {
  if (settings.max_split_size_bytes == kUnlimited) return false;
  const std::uint64_t wanted = std::max(need.bytes, settings.max_split_size_bytes);
  const std::vector<Place> places = free_places(need.small, need.stream);
  std::size_t i = 0;
  while (i < places.size() && places[i].piece().bytes < wanted) ++i;
  std::vector<Place> chosen;
  std::uint64_t bytes = 0;
  if (i < places.size() && !places[i].segment->expandable) {
    chosen.push_back(places[i]);
    bytes = wanted;
  } else {
    while (i > 0 && bytes < wanted &&
           places[i - 1].piece().bytes >= settings.max_split_size_bytes) {
      --i;
      if (places[i].segment->expandable) continue;
      chosen.push_back(places[i]);
      bytes += places[i].piece().bytes;
    }
  }
  for (const Place& place : chosen) {
    if (place.split()) {
      ++split_releases;
    } else {
      release(place);
    }
  }
  return bytes >= wanted;
}

void ReferenceModel::empty_cache() { release_all(); }

void ReferenceModel::release_all() {
  ++sync_alls;
  for (auto& [stream, queue] : events_) {
    for (; !queue.empty(); queue.pop_front()) {
      driver_.wait_for_event(queue.front().first);
      driver_.destroy_event(queue.front().first);
      pass_event(queue.front().second);
    }
  }
  for (const bool small : {false, true}) {
    std::vector<std::uint64_t> expandable;
    for (const Place& place : free_places(small, std::nullopt)) {
      if (place.segment->expandable) expandable.push_back(place.piece().address);
    }
    for (const Place& place : free_places(small, std::nullopt)) {
      if (!place.segment->expandable && !place.split()) release(place);
    }
    for (const std::uint64_t address : expandable) unmap(address);
  }
}

void ReferenceModel::unmap(std::uint64_t address) {
  const Place place = at(address);
  Segment& segment = *place.segment;
  const Piece whole = place.piece();
  const std::uint64_t first = segment.base + up(whole.address - segment.base, segment.page);
  const std::uint64_t end =
      segment.base + (whole.address + whole.bytes - segment.base) / segment.page * segment.page;
  if (first >= end) return;
  for (std::uint64_t page = first; page < end; page += segment.page) {
    driver_.release_page(segment.pages.at(page));
    segment.pages.erase(page);
  }
  ++device_frees;
  std::vector<Piece> parts;
  const std::int64_t now = searches_[segment.small ? 0 : 1];
  if (whole.address < first)
    parts.push_back({.address = whole.address,
                     .bytes = first - whole.address,
                     .born = ++births_,
                     .since = now});
  parts.push_back({.address = first, .bytes = end - first, .born = whole.born, .mapped = false});
  const std::uint64_t whole_end = whole.address + whole.bytes;
  if (end < whole_end)
    parts.push_back({.address = end, .bytes = whole_end - end, .born = ++births_, .since = now});
  const auto position = segment.pieces.begin() + static_cast<std::ptrdiff_t>(place.index);
  segment.pieces.insert(segment.pieces.erase(position), parts.begin(), parts.end());
  merge(segment, first);
  if (segment.pieces.size() > 1) return;
  driver_.free_address(segment.base, 0);
  segments_.remove_if([&](const Segment& entry) { return &entry == &segment; });
}

}  // namespace allocmark::caching
