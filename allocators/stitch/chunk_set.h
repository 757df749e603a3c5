// A set of chunks by their indexes, a bit each: what a view takes and gives back is many of them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace allocmark::stitch {

class ChunkSet {
 public:
  void insert(std::uint32_t index) {
    const std::size_t word = index / kWordBits;
    if (word >= words_.size()) words_.resize(word + 1);
    const std::uint64_t bit = std::uint64_t{1} << (index % kWordBits);
    count_ += (words_[word] & bit) == 0 ? 1 : 0;
    words_[word] |= bit;
    if (word < first_word_) first_word_ = word;
  }
  // Nothing where it is not there.
  void erase(std::uint32_t index) {
    const std::size_t word = index / kWordBits;
    if (word >= words_.size()) return;
    const std::uint64_t bit = std::uint64_t{1} << (index % kWordBits);
    count_ -= (words_[word] & bit) != 0 ? 1 : 0;
    words_[word] &= ~bit;
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // The lowest index; there must be one.
  [[nodiscard]] std::uint32_t first() {
    while (words_[first_word_] == 0) ++first_word_;
    return lowest(first_word_, words_[first_word_]);
  }
  // Calls `take` with the lowest `count` indexes, in their order; so many must be there.
  template <typename Take>
  void each_of_first(std::size_t count, Take take) const {
    for (std::size_t word = first_word_; count > 0; ++word) {
      for (std::uint64_t bits = words_[word]; bits != 0 && count > 0; bits &= bits - 1, --count)
        take(lowest(word, bits));
    }
  }

 private:
  static constexpr std::uint32_t kWordBits = 64;

  [[nodiscard]] static std::uint32_t lowest(std::size_t word, std::uint64_t bits) {
    return static_cast<std::uint32_t>(word) * kWordBits +
           static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  std::vector<std::uint64_t> words_;
  std::size_t first_word_ = 0;  // those before it are 0
  std::size_t count_ = 0;
};

}  // namespace allocmark::stitch
