#include "harness/simcuda/core/chunk_set.h"

#include <bit>

namespace simcuda {
namespace {

constexpr std::uint64_t kWordBits = 64;

// The bits of word `word` that lie in `span`.
std::uint64_t mask_of(std::uint64_t word, ChunkSpan span) {
  std::uint64_t mask = ~std::uint64_t{0};
  if (span.first > word * kWordBits) {
    mask &= ~std::uint64_t{0} << (span.first - word * kWordBits);
  }
  if (span.last < (word + 1) * kWordBits) {
    mask &= ~(~std::uint64_t{0} << (span.last - word * kWordBits));
  }
  return mask;
}

}  // namespace

ChunkSet::ChunkSet(std::uint64_t chunk_count) : words_((chunk_count + kWordBits - 1) / kWordBits) {}

bool ChunkSet::contains(std::uint64_t chunk) const {
  return (words_[chunk / kWordBits] >> (chunk % kWordBits) & 1) != 0;
}

void ChunkSet::insert(std::uint64_t chunk) {
  count_ += contains(chunk) ? 0 : 1;
  words_[chunk / kWordBits] |= std::uint64_t{1} << (chunk % kWordBits);
}

void ChunkSet::erase(ChunkSpan span) {
  if (span.empty()) return;
  for (std::uint64_t word = span.first / kWordBits; word <= (span.last - 1) / kWordBits; ++word) {
    const std::uint64_t mask = mask_of(word, span);
    count_ -= static_cast<std::uint64_t>(std::popcount(words_[word] & mask));
    words_[word] &= ~mask;
  }
}

void ChunkSet::erase(std::uint64_t chunk) { erase(ChunkSpan{chunk, chunk + 1}); }

std::uint64_t ChunkSet::count_in(ChunkSpan span) const {
  std::uint64_t count = 0;
  if (span.empty()) return count;
  for (std::uint64_t word = span.first / kWordBits; word <= (span.last - 1) / kWordBits; ++word) {
    count += static_cast<std::uint64_t>(std::popcount(words_[word] & mask_of(word, span)));
  }
  return count;
}

std::optional<std::uint64_t> ChunkSet::last_in(ChunkSpan span) const {
  if (span.empty() || count_ == 0) return std::nullopt;
  for (std::uint64_t word = (span.last - 1) / kWordBits + 1; word-- > span.first / kWordBits;) {
    const std::uint64_t bits = words_[word] & mask_of(word, span);
    if (bits != 0) {
      return word * kWordBits + kWordBits - 1 - static_cast<std::uint64_t>(std::countl_zero(bits));
    }
  }
  return std::nullopt;
}

}  // namespace simcuda
