#include "workloads/model/sampling.h"

#include <utility>

#include "workloads/model/top_k.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBest = 50;  // top_k

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

// Words are sorted by a segmented sort; the scan behind it has a buffer of its own, known for
// 128,000 scores.
Tensor Sampling::keep_likely() {
  const std::uint64_t count = rows_ * vocabulary_;
  Tensor sorted = make(count * 4);
  Tensor indexes = make(count * 8);
  {
    Tensor first = make(count * 8);
    Tensor second = make(count * 8);
    Tensor keys = make(count * 4);
    { const Tensor buffer = make(count * 12 + 33'279); }
    keys.reset();
    { const Tensor buffer = make(26'111); }
    drop({&second, &first});
  }
  Tensor shares = make(count * 4);
  Tensor sums = make(count * 4);
  shares.reset();
  Tensor removed_sorted = make(count);
  Tensor removed = make(count);
  Tensor result = make(count * 4);
  drop({&sorted, &indexes, &sums, &removed_sorted, &removed});
  return result;
}

Tensor Sampling::multinomial() {
  Tensor drawn = make(rows_ * 8);
  Tensor highest = make(4);
  Tensor is_finite = make(1);
  Tensor least = make(4);
  Tensor is_positive = make(1);
  Tensor is_valid = make(1);
  drop({&is_positive, &least, &is_finite, &highest});
  Tensor sums = make(rows_ * 4);
  Tensor none = make(rows_);
  Tensor any = make(1);
  drop({&none, &sums});
  { const Tensor inverse = make(1); }
  { const Tensor divisors = make(rows_ * vocabulary_ * 4); }
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
