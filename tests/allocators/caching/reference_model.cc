#include "tests/allocators/caching/reference_model.h"

#include <algorithm>
#include <tuple>

namespace allocmark::caching {

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
