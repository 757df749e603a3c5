#include "tests/allocators/caching/reference_model.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kMega = 1u << 20;

std::uint64_t up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

std::uint64_t ReferenceModel::round(std::uint64_t request) const {
  if (request < 512) return 512;
  std::size_t interval = 0;
  while (interval < 15 && request >= (kMega << (interval + 1))) ++interval;
  const std::uint64_t divisions = settings.roundup_power2_divisions[interval];
  if (divisions < 2 || request <= 512 * divisions) return up(request, 512);
  std::uint64_t power = 1;
  while (power * 2 <= request) power *= 2;
  return up(request, power / divisions);
}

std::vector<ReferenceModel::Place> ReferenceModel::free_places(bool small,
                                                               std::optional<Stream> stream) {
  std::vector<Place> places;
  for (Segment& segment : segments_) {
    if (segment.small != small || (stream && segment.stream != *stream)) continue;
    for (std::size_t i = 0; i < segment.pieces.size(); ++i) {
      if (segment.pieces[i].idle() && segment.pieces[i].mapped) places.push_back({&segment, i});
    }
  }
  const TieBreak tie_break = settings.rules->tie_break;
  const auto rank = [tie_break](const Place& place) {
    const std::uint64_t age = tie_break == TieBreak::BlockOrder     ? place.piece().born
                              : tie_break == TieBreak::SegmentOrder ? place.segment->born
                                                                    : 0;
    return std::tuple(place.segment->stream, place.piece().bytes, age, place.piece().address);
  };
  std::ranges::sort(places, {}, rank);
  return places;
}

std::optional<ReferenceModel::Place> ReferenceModel::find_cached(const Need& need) {
  if (limit && settings.garbage_collection_threshold > 0) ++searches_[need.small ? 0 : 1];
  std::vector<Place> places = free_places(need.small, need.stream);
  std::erase_if(places, [&](const Place& place) { return place.piece().bytes < need.bytes; });
  const auto grown = [](const Place& place) {
    const bool hole = place.index + 1 < place.segment->pieces.size() &&
                      !place.segment->pieces[place.index + 1].mapped;
    return place.piece().bytes + (hole ? place.segment->pieces[place.index + 1].bytes : 0);
  };
  std::size_t i = 0;
  if (settings.expandable_segments) {
    while (i + 1 < places.size() && places[i].segment->expandable &&
           grown(places[i + 1]) < grown(places[i]))
      ++i;
  } else {
    while (i < places.size() && places[i].segment->expandable) ++i;
  }
  if (i >= places.size()) return std::nullopt;
  const std::uint64_t bytes = places[i].piece().bytes;
  if (need.bytes < settings.max_split_size_bytes && bytes >= settings.max_split_size_bytes)
    return std::nullopt;
  if (need.bytes >= settings.max_split_size_bytes &&
      bytes >= need.bytes + settings.max_non_split_rounding_bytes) {
    return std::nullopt;
  }
  return places[i];
}

std::optional<std::uint64_t> ReferenceModel::allocate(std::uint64_t request, Stream stream) {
  for (auto& [queue_stream, queue] : events_) {
    while (!queue.empty() && driver_.event_done(queue.front().first)) {
      const auto [event, address] = queue.front();
      queue.pop_front();
      driver_.destroy_event(event);
      pass_event(address);
    }
  }
  const std::uint64_t bytes = round(request);
  const bool small = bytes <= kMega;
  const std::uint64_t segment_bytes = small                ? 2 * kMega
                                      : bytes < 10 * kMega ? settings.large_segment_size_bytes
                                                           : up(bytes, 2 * kMega);
  const Need need{request, bytes, segment_bytes, small, stream};
  std::optional<Place> place = find_cached(need);
  if (!place) {
    if (limit && settings.garbage_collection_threshold > 0) collect();
    place = ask_device(need, false);
    if (!place && release_oversize(need)) place = ask_device(need, false);
    if (!place) {
      release_all();
      place = ask_device(need, true);
    }
  }
  if (!place) {
    ++failures;
    return std::nullopt;
  }
  return hand_out(*place, need);
}

std::uint64_t ReferenceModel::hand_out(Place place, const Need& need) {
  const std::uint64_t rest = place.piece().bytes - need.bytes;
  const bool cut = need.small || settings.expandable_segments
                       ? rest >= 512
                       : need.bytes < settings.max_split_size_bytes && rest > kMega;
  std::vector<Piece>& pieces = place.segment->pieces;
  if (cut) {
    Piece front{.address = place.piece().address, .bytes = need.bytes, .born = ++births_};
    Piece& remainder = place.piece();
    remainder.address += need.bytes;
    remainder.bytes = rest;
    remainder.since = searches_[need.small ? 0 : 1];
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(place.index), front);
  }
  place.piece().owned = true;
  place.piece().requested = need.request;
  return place.piece().address;
}

std::uint64_t ReferenceModel::reserved() const {
  const Figures figures = count();
  return static_cast<std::uint64_t>(figures.reserved_bytes[0] + figures.reserved_bytes[1]);
}

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

// Joins all neighbours of a kind. Of two the younger stamp stays, for the younger one caused the
// joining; the piece at `caller` is the one that all others become.
void ReferenceModel::merge(Segment& segment, std::uint64_t caller) {
  std::vector<Piece>& pieces = segment.pieces;
  const std::uint64_t born = at(caller).piece().born;
  for (std::size_t i = 0; i + 1 < pieces.size();) {
    if (!pieces[i].idle() || !pieces[i + 1].idle() || pieces[i].mapped != pieces[i + 1].mapped) {
      ++i;
      continue;
    }
    pieces[i].bytes += pieces[i + 1].bytes;
    pieces[i].since = std::max(pieces[i].since, pieces[i + 1].since);
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  at(caller).piece().born = born;
}

ReferenceModel::Place ReferenceModel::at(std::uint64_t address) {
  for (Segment& segment : segments_) {
    for (std::size_t i = 0; i < segment.pieces.size(); ++i) {
      const Piece& piece = segment.pieces[i];
      if (piece.address <= address && address < piece.address + piece.bytes) return {&segment, i};
    }
  }
  return {};
}

void ReferenceModel::deallocate(std::uint64_t address) {
  const Place place = at(address);
  Piece& piece = place.piece();
  piece.owned = false;
  const std::set<Stream> uses = std::move(piece.uses);
  piece.uses.clear();
  for (const Stream stream : uses) {
    const Event event = driver_.create_event();
    driver_.record_event(event, stream);
    events_[stream].emplace_back(event, address);
    ++piece.waits;
  }
  if (piece.waits == 0) set_free(*place.segment, address);
}

void ReferenceModel::set_free(Segment& segment, std::uint64_t address) {
  at(address).piece().since = searches_[segment.small ? 0 : 1];
  merge(segment, address);
}

void ReferenceModel::pass_event(std::uint64_t address) {
  const Place place = at(address);
  if (--place.piece().waits == 0) set_free(*place.segment, address);
}

void ReferenceModel::record_stream(std::uint64_t address, Stream stream) {
  const Place place = at(address);
  if (place.segment->stream != stream) place.piece().uses.insert(stream);
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

ReferenceModel::Figures ReferenceModel::count() const {
  Figures figures;
  for (const Segment& segment : segments_) {
    const std::size_t k = segment.small ? 0 : 1;
    figures.segment[k] += segment.expandable ? 0 : 1;
    for (const Piece& piece : segment.pieces) {
      if (!piece.mapped) continue;
      const auto bytes = static_cast<std::int64_t>(piece.bytes);
      figures.reserved_bytes[k] += bytes;
      figures.allocation[k] += piece.owned ? 1 : 0;
      figures.allocated_bytes[k] += piece.owned ? bytes : 0;
      if (!piece.idle()) {
        ++figures.active[k];
        figures.active_bytes[k] += bytes;
        figures.requested_bytes[k] += static_cast<std::int64_t>(piece.requested);
      } else if (!segment.expandable && segment.pieces.size() > 1) {
        ++figures.inactive_split[k];
        figures.inactive_split_bytes[k] += bytes;
      }
    }
  }
  return figures;
}

}  // namespace allocmark::caching
