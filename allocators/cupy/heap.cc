#include "allocators/cupy/heap.h"

#include <algorithm>

#include "base/divided_up.h"

namespace allocmark::cupy {
namespace {

constexpr std::uint64_t kUnitBytes = 512;
constexpr int kTakeCountMax = 3;

}  // namespace

Heap::~Heap() {
  for (const auto& [address, chunk] : chunks_) {
    if (chunk->prev == nullptr) source_.give(address);
  }
}

std::optional<std::uint64_t> Heap::allocate(const Request& request) {
  Request fit = request;
  fit.size_bytes = rounded_up(request.size_bytes, kUnitBytes);
  Chunk* chunk = take_free(fit);
  if (chunk == nullptr) chunk = take_from_device(fit);
  if (chunk == nullptr) return std::nullopt;
  counters_.used_bytes += chunk->size_bytes;
  return chunk->address;
}

Chunk* Heap::take_free(const Request& request) {
  Arena& arena = arenas_[request.stream];
  Chunk smallest{.size_bytes = request.size_bytes, .freed_number = ~std::uint64_t{0}};
  auto found = arena.lower_bound(&smallest);
  if (found == arena.end()) return nullptr;
  const std::uint64_t size_bytes = (*found)->size_bytes;
  for (auto at = found; at != arena.end() && (*at)->size_bytes == size_bytes; ++at) {
    if ((*at)->address == request.wanted_address) found = at;
  }
  Chunk* const chunk = *found;
  take_out(chunk);
  if (chunk->size_bytes > request.size_bytes) split(chunk, request.size_bytes);
  return chunk;
}

Chunk* Heap::take_from_device(const Request& request) {
  if (!has_room(request.size_bytes)) return nullptr;
  for (int i = 0; i < kTakeCountMax; ++i) {
    if (i > 0) {
      free_all_blocks();
      ++counters_.retry_count;
    }
    const std::optional<std::uint64_t> address = source_.take(request.size_bytes);
    if (!address) continue;
    counters_.total_bytes += request.size_bytes;
    ++counters_.take_count;
    return add({.address = *address, .size_bytes = request.size_bytes, .stream = request.stream});
  }
  return nullptr;
}

bool Heap::has_room(std::uint64_t size_bytes) {
  if (limit_bytes_ == 0) return true;
  if (size_bytes > limit_bytes_) return false;
  const auto fits = [&] { return counters_.total_bytes <= limit_bytes_ - size_bytes; };
  if (!fits()) free_all_blocks();
  return fits();
}

void Heap::split(Chunk* chunk, std::uint64_t size_bytes) {
  Chunk* const rest = add({.address = chunk->address + size_bytes,
                           .size_bytes = chunk->size_bytes - size_bytes,
                           .stream = chunk->stream,
                           .prev = chunk,
                           .next = chunk->next});
  if (rest->next != nullptr) rest->next->prev = rest;
  chunk->next = rest;
  chunk->size_bytes = size_bytes;
  put_free(rest);
}

void Heap::join(Chunk* chunk) {
  const Chunk* const behind = chunk->next;
  chunk->size_bytes += behind->size_bytes;
  chunk->next = behind->next;
  if (chunk->next != nullptr) chunk->next->prev = chunk;
  chunks_.erase(behind->address);
}

bool Heap::deallocate(std::uint64_t address) {
  const auto found = chunks_.find(address);
  if (found == chunks_.end() || found->second->is_free()) return false;
  Chunk* chunk = found->second.get();
  counters_.used_bytes -= chunk->size_bytes;
  if (chunk->next != nullptr && chunk->next->is_free()) {
    take_out(chunk->next);
    join(chunk);
  }
  if (chunk->prev != nullptr && chunk->prev->is_free()) {
    chunk = chunk->prev;
    take_out(chunk);
    join(chunk);
  }
  put_free(chunk);
  return true;
}

void Heap::free_all_blocks() {
  for (auto& [stream, arena] : arenas_) {
    for (auto at = arena.begin(); at != arena.end();) {
      const Chunk* const chunk = *at;
      if (!chunk->is_whole()) {
        ++at;
        continue;
      }
      at = arena.erase(at);
      counters_.total_bytes -= chunk->size_bytes;
      ++counters_.give_count;
      source_.give(chunk->address);
      chunks_.erase(chunk->address);
    }
  }
}

void Heap::put_free(Chunk* chunk) {
  chunk->freed_number = ++freed_count_;
  arenas_[chunk->stream].insert(chunk);
}

void Heap::take_out(Chunk* chunk) {
  arenas_[chunk->stream].erase(chunk);
  chunk->freed_number = 0;
}

Chunk* Heap::add(const Chunk& chunk) {
  return (chunks_[chunk.address] = std::make_unique<Chunk>(chunk)).get();
}

std::uint64_t Heap::free_bytes(std::uint64_t stream) const {
  const auto found = arenas_.find(stream);
  if (found == arenas_.end()) return 0;
  std::uint64_t bytes = 0;
  for (const Chunk* chunk : found->second) bytes += chunk->size_bytes;
  return bytes;
}

std::uint64_t Heap::free_bytes_largest(std::uint64_t stream) const {
  const auto found = arenas_.find(stream);
  if (found == arenas_.end() || found->second.empty()) return 0;
  return (*found->second.rbegin())->size_bytes;
}

std::uint64_t Heap::free_count() const {
  std::uint64_t count = 0;
  for (const auto& [stream, arena] : arenas_) count += arena.size();
  return count;
}

std::vector<const Chunk*> Heap::segments() const {
  std::vector<const Chunk*> firsts;
  for (const auto& [address, chunk] : chunks_) {
    if (chunk->prev == nullptr) firsts.push_back(chunk.get());
  }
  std::ranges::sort(firsts, {}, &Chunk::address);
  return firsts;
}

}  // namespace allocmark::cupy
