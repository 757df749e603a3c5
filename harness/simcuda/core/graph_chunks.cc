// The part of GraphMemory about chunks: which memory lies behind the addresses of a graph.
#include <algorithm>

#include "harness/simcuda/core/graph_memory.h"

namespace simcuda {

Outcome GraphMemory::map(ArenaId arena, StreamId stream, std::uint64_t now_ns) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end()) return {.status = Status::InvalidHandle};
  Outcome outcome;
  std::vector<bool> in_use(chunks_.size());
  const auto can_stay = [&](std::size_t chunk) {
    return chunk != kNoChunk && chunks_[chunk].pin_count == 0 && chunks_[chunk].stream == stream;
  };
  found->second.each_chunk([&](std::size_t& place) {
    if (can_stay(place)) {
      in_use[place] = true;
    } else {
      drop(place);
    }
  });
  for (Segment& segment : found->second.segments) {
    for (std::size_t& place : segment.chunks) {
      if (place != kNoChunk) continue;
      const std::size_t chunk = choose_chunk(stream, now_ns, in_use, outcome.work);
      if (chunk == kNoChunk) {
        outcome.status = Status::OutOfMemory;
        note_usage();
        return outcome;
      }
      in_use.resize(chunks_.size());
      in_use[chunk] = true;
      place = chunk;
      ++chunks_[chunk].mapping_count;
      ++outcome.work.chunks_mapped;
    }
  }
  note_usage();
  return outcome;
}

// The driver maps memory of the same stream's graphs first, then what lies idle, then new memory.
// At last it takes what another stream's graphs still use, and makes the stream wait for them.
std::size_t GraphMemory::choose_chunk(StreamId stream, std::uint64_t now_ns,
                                      const std::vector<bool>& in_use, Work& work) {
  const auto usable = [&](std::size_t chunk) {
    return chunks_[chunk].reserved && chunks_[chunk].pin_count == 0 &&
           (chunk >= in_use.size() || !in_use[chunk]);
  };
  const auto first = [&](auto fits) {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (usable(i) && fits(chunks_[i])) return i;
    }
    return kNoChunk;
  };
  std::size_t chosen = first([&](const Chunk& at) { return at.stream == stream; });
  if (chosen == kNoChunk) {
    chosen = first([&](const Chunk& at) { return at.mapping_count == 0 && is_done(at, now_ns); });
  }
  if (chosen == kNoChunk) chosen = take_chunk(work);
  if (chosen == kNoChunk) chosen = first([&](const Chunk& at) { return is_done(at, now_ns); });
  if (chosen == kNoChunk) chosen = first([](const Chunk&) { return true; });
  if (chosen == kNoChunk) return chosen;
  Chunk& chunk = chunks_[chosen];
  if (chunk.stream != stream && !is_done(chunk, now_ns)) {
    streams_.wait_unnoted(stream, chunk.stream, chunk.position, now_ns);
    work.stream_waits = true;
  }
  chunk.stream = stream;
  return chosen;
}

std::size_t GraphMemory::take_chunk(Work& work) {
  if (!memory_.take_chunk()) {
    on_shortage_(work);
    if (!memory_.take_chunk()) return kNoChunk;
  }
  ++work.chunks_taken;
  const auto spare = std::find_if(chunks_.begin(), chunks_.end(),
                                  [](const Chunk& chunk) { return !chunk.reserved; });
  const auto index = static_cast<std::size_t>(spare - chunks_.begin());
  if (spare == chunks_.end()) chunks_.emplace_back();
  chunks_[index] = {.reserved = true};
  return index;
}

bool GraphMemory::is_done(const Chunk& chunk, std::uint64_t now_ns) {
  return chunk.position == 0 || streams_.finished(chunk.stream, now_ns) >= chunk.position;
}

void GraphMemory::drop(std::size_t& place) {
  if (place == kNoChunk) return;
  --chunks_[place].mapping_count;
  place = kNoChunk;
}

void GraphMemory::ran(ArenaId arena, StreamId stream) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end()) return;
  const Position position = streams_.position(stream);
  found->second.each_chunk([&](std::size_t chunk) {
    if (chunk == kNoChunk) return;
    chunks_[chunk].stream = stream;
    chunks_[chunk].position = position;
  });
}

void GraphMemory::unmap(ArenaId arena) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end()) return;
  found->second.each_chunk([&](std::size_t& place) { drop(place); });
  note_usage();
}

Outcome GraphMemory::trim(std::uint64_t now_ns) {
  Outcome outcome;
  std::vector<bool> goes(chunks_.size());
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    goes[i] = chunks_[i].reserved && chunks_[i].pin_count == 0 && is_done(chunks_[i], now_ns);
  }
  for (auto& [id, arena] : arenas_) {
    arena.each_chunk([&](std::size_t& place) {
      if (place != kNoChunk && goes[place]) drop(place);
    });
  }
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!goes[i]) continue;
    memory_.return_chunk();
    chunks_[i] = {};
    ++outcome.work.chunks_returned;
  }
  note_usage();
  return outcome;
}

void GraphMemory::note_usage() {
  usage_.reserved_bytes = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.reserved) usage_.reserved_bytes += kChunkBytes;
  }
  usage_.used_bytes = usage_.reserved_bytes;
  usage_.used_bytes_high = std::max(usage_.used_bytes_high, usage_.used_bytes);
  usage_.reserved_bytes_high = std::max(usage_.reserved_bytes_high, usage_.reserved_bytes);
}

}  // namespace simcuda
