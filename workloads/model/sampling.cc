#include "workloads/model/sampling.h"

#include <utility>

#include "base/divided_up.h"
#include "workloads/model/functions.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBest = 50;       // top_k
constexpr std::uint64_t kSumTile = 1920;  // CUB's, of a running sum in four bytes

}  // namespace

// MinLengthLogitsProcessor, and MinNewTokensLengthLogitsProcessor, which copies the scores first.
Tensor Sampling::forbid_end(Tensor scores) {
  const std::uint64_t bytes = rows_ * vocabulary_ * 4;
  const bool copies_first = static_cast<bool>(scores);
  Tensor copy;
  if (copies_first) copy = make(bytes);
  Tensor words = make(vocabulary_ * 8);
  Tensor is_end = make(vocabulary_);
  {
    Tensor compared = make(vocabulary_);
    Tensor any = make(vocabulary_);
    drop({&any, &compared});
  }
  if (!copies_first) copy = make(bytes);
  Tensor lowest = make(4);
  Tensor result = make(bytes);
  drop({&lowest, &copy, &words, &is_end});
  return result;
}

Tensor Sampling::keep_best(Tensor scores) {
  TopK best = top_k(*tape_, {.slices = rows_, .columns = vocabulary_, .count = kBest});
  best.indexes.reset();
  const Tensor removed = make(rows_ * vocabulary_);
  best.values.reset();
  return make(scores.size_bytes());
}

// All rows' words are sorted at once by their scores, then by their rows. Up to 4096 words are
// sorted in place; one row needs no second sort.
Tensor Sampling::keep_likely() {
  const std::uint64_t count = rows_ * vocabulary_;
  Tensor sorted = make(count * 4);
  Tensor indexes = make(count * 8);
  {
    constexpr std::uint64_t kInPlaceMax = 4096;
    const bool is_in_place = vocabulary_ <= kInPlaceMax;
    const bool sorts_rows = !is_in_place && rows_ > 1;
    Tensor first, second;
    if (sorts_rows) first = make(count * 8);
    if (sorts_rows) second = make(count * 8);
    Tensor keys = make(sorts_rows ? count * 4 : vocabulary_ * 8);  // or a row's places
    const auto sort = [&](const RadixSort& sizes) {
      const Tensor buffer = make(radix_sort_bytes(sizes));
    };
    if (!is_in_place) sort({.count = count, .key_bytes = 4, .pass_count = 4, .tile = 5376});
    keys.reset();
    // Rows have numbers of at most eight bits.
    if (sorts_rows) sort({.count = count, .tile = 5760});
    drop({&second, &first});
  }
  Tensor shares = make(count * 4);
  Tensor sums = make(count * 4);
  if (rows_ == 1) take_look_back(*tape_, divided_up(count, kSumTile), 8);
  shares.reset();
  Tensor removed_sorted = make(count);
  Tensor removed = make(count);
  Tensor result = make(count * 4);
  drop({&sorted, &indexes, &sums, &removed_sorted, &removed});
  return result;
}

Tensor Sampling::multinomial() {
  Tensor drawn = make(rows_ * 8);
  const std::uint64_t count = rows_ * vocabulary_;
  Tensor highest = make(4);
  take_reduction_scratch(*tape_, count, 4);
  Tensor is_finite = make(1);
  Tensor least = make(4);
  take_reduction_scratch(*tape_, count, 4);
  Tensor is_positive = make(1);
  Tensor is_valid = make(1);
  drop({&is_positive, &least, &is_finite, &highest});
  Tensor sums = make(rows_ * 4);
  take_reduction_scratch(*tape_, vocabulary_, 4, rows_);
  Tensor none = make(rows_);
  Tensor any = make(1);
  drop({&none, &sums});
  { const Tensor inverse = make(1); }
  {
    const Tensor divisors = make(count * 4);
    take_reduction_scratch(*tape_, vocabulary_, 16, rows_);  // the largest share and its place
  }
  drop({&any, &is_valid});
  return drawn;
}

Tensor Sampling::draw(std::uint64_t rows, std::uint64_t vocabulary) {
  rows_ = rows;
  vocabulary_ = vocabulary;
  Tensor scores = forbid_end({});
  scores = forbid_end(std::move(scores));
  scores = keep_best(std::move(scores));
  Tensor likely = keep_likely();
  scores.reset();
  scores_ = std::move(likely);
  shares_ = make(rows * vocabulary * 4);
  return multinomial();
}

}  // namespace allocmark
