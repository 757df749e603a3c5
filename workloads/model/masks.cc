// Masks that attention cannot do without: batches with padding, caches longer than what they hold,
// several tokens after others that are cached. Booleans of all pairs per sequence, made before the
// first layer; each layer turns them into numbers to be added to the scores, and needs the keys of
// every query head.
#include <utility>

#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

// torch.arange: numbers, and a copy of them.
Var make_range(Tape& tape, std::uint64_t count) {
  const Var raw = tape.make(count, 8);
  return tape.make(count, 8);
}

// What masks of all pairs are made over, one dimension each; gone in this order.
struct PairIndexes {
  PairIndexes(Tape& tape, std::uint64_t batch, std::uint64_t query_count, std::uint64_t key_count)
      : batches(tape.make(batch, 8)),
        heads(tape.make(1, 8)),
        queries(make_range(tape, query_count)),
        keys(make_range(tape, key_count)) {}
  void drop() { allocmark::drop({&batches, &heads, &queries, &keys}); }
  Var batches, heads, queries, keys;
};

}  // namespace

// Are texts packed into sequences? Each token's text, told by positions that begin anew.
Var Transformer::detect_packing() {
  const std::uint64_t rows = setup_.token_count();
  Var first = tape_.make(setup_.batch, 8);
  Var joined = tape_.make(rows + setup_.batch, 8);
  Var difference = tape_.make(rows, 8);
  joined.drop();
  Var differs = tape_.make(rows, 1);
  Var sums = tape_.make(rows, 8);
  {
    const Var converted = tape_.make(rows, 8);
    if (setup_.batch == 1) take_running_sum_scratch(tape_, rows);
  }
  differs.drop();
  Var last = tape_.make(setup_.batch, 1);
  Var all = tape_.make(1, 1);
  drop({&last, &all});
  drop({&first, &difference});
  return sums;
}

// The mask of eager attention: booleans of all pairs, then zeros and large negative numbers.
Var Transformer::make_causal_mask(bool detects_packing) {
  if (detects_packing) {
    Var sums = detect_packing();
    // The last rank's two pieces of a sequence are neighbours; those of others look like packed
    // texts.
    const ParallelSetup& parallel = setup_.parallel;
    if (packed_ || parallel.context_rank + 1 < parallel.context) {
      Var mask = make_packed_mask(std::move(sums));
      return setup_.fused_attention ? mask : mask_numbers(std::move(mask));
    }
    sums.drop();
  }
  return setup_.fused_attention ? Var() : make_mask(setup_.sequence, setup_.key_count());
}

// Booleans of all pairs: keys before the query, and of the same text. `packed`: each token's text.
Var Transformer::make_packed_mask(Var packed) {
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t pairs = setup_.sequence * setup_.sequence;
  PairIndexes indexes(tape_, setup_.batch, setup_.sequence, setup_.sequence);
  Var one = tape_.make(1, 1);
  Var before = tape_.make(pairs, 1);
  before = tape_.make(pairs, 1);
  one.drop();
  const auto texts = [&] {
    const Var places = tape_.make(rows, 8);
    Var columns;
    if (setup_.batch > 1) columns = tape_.make(rows, 8);
    return tape_.make(rows, 8);
  };
  Var query_texts = texts();
  Var key_texts = texts();
  Var same = tape_.make(setup_.batch * pairs, 1);
  drop({&query_texts, &key_texts});
  Var mask = tape_.make(setup_.batch * pairs, 1);
  drop({&same, &before});
  indexes.drop();
  packed.drop();
  return mask;
}

Var Transformer::make_mask(std::uint64_t query_count, std::uint64_t key_count) {
  PairIndexes indexes(tape_, setup_.batch, query_count, key_count);
  Var allowed = tape_.make(query_count * key_count, 1);
  indexes.drop();
  allowed.count *= setup_.batch;
  return mask_numbers(std::move(allowed));
}

// Booleans of all pairs: no keys further back than the window, and none after the query.
Var Transformer::near_pairs() {
  const std::uint64_t pairs = setup_.sequence * setup_.key_count();
  Var mask = tape_.make(1, 1);
  Var near;
  {
    const Var first = tape_.make(setup_.sequence, 8);
    near = tape_.make(pairs, 1);
  }
  mask = tape_.make(pairs, 1);
  near.drop();
  const Var before = tape_.make(pairs, 1);
  mask = tape_.make(pairs, 1);
  return mask;
}

// Of blocks with a window, where the caller gives no mask.
Var Transformer::make_window_mask() {
  PairIndexes indexes(tape_, setup_.batch, setup_.sequence, setup_.key_count());
  Var mask = near_pairs();
  if (!setup_.fused_attention) {
    mask.count *= setup_.batch;
    mask = mask_numbers(std::move(mask));
  }
  indexes.drop();
  return mask;
}

// A mask that allows all that exists is found out, and left to attention's own causal mode.
void Transformer::check_given_mask() {
  const std::uint64_t count = setup_.batch * setup_.key_count();
  const Var allowed = tape_.make(count, 1);
  check_all(count);
}

// fast_all(): is every one of `count` booleans true?
void Transformer::check_all(std::uint64_t count) {
  Var zero = tape_.make(1, 8);
  { const Var converted = tape_.make(count, 8); }
  Var all = tape_.make(1, 1);
  drop({&zero, &all});
}

// Booleans of all pairs: which keys a query may see by their place, and which are no padding.
Var Transformer::make_padding_mask(std::uint64_t query_count, std::uint64_t key_count,
                                   KeysSeen seen) {
  const std::uint64_t pairs = seen == KeysSeen::All ? query_count : query_count * key_count;
  PairIndexes indexes(tape_, setup_.batch, query_count, key_count);
  Var one = tape_.make(1, 1);
  Var before = seen == KeysSeen::Near ? near_pairs() : tape_.make(pairs, 1);
  before = tape_.make(pairs, 1);
  one.drop();
  // Copies of what cannot be seen as all pairs' rows and columns: a single one can.
  const std::uint64_t given_count = setup_.batch * key_count;
  Var rows = given_count > 1 ? tape_.make(given_count, 8) : Var();
  Var columns;
  if (setup_.batch > 1 && key_count > 1) columns = tape_.make(given_count, 8);
  Var given = tape_.make(given_count, 1);
  drop({&rows, &columns});
  Var mask = tape_.make(setup_.batch * query_count * key_count, 1);
  drop({&given, &before});
  padded_mask_.reset();
  indexes.drop();
  return mask;
}

// Eager attention adds numbers: zeros, and large negative ones where the mask hides a key. They are
// as wide as what was embedded, which BERT norms: under autocast in four bytes.
Var Transformer::mask_numbers(Var mask) {
  const bool is_normed = setup_.model.family == ModelFamily::Bert && tape_.autocast();
  const std::uint64_t width = is_normed ? 4 : setup_.wide_bytes;
  Var zero = tape_.make(1, width);
  Var lowest = tape_.make(1, width);
  Var numbers = tape_.make(mask.count, width);
  drop({&lowest, &zero});
  return numbers;
}

// BERT's: found out and left out where nothing is hidden.
void Transformer::make_bidirectional_mask() {
  const Var allowed = tape_.make(setup_.token_count(), 1);
  { const Var all = tape_.make(1, 1); }
  mask_ = {};
  if (!padded_) return;
  mask_ = make_padding_mask(setup_.sequence, setup_.sequence, KeysSeen::All);
  if (!setup_.fused_attention) mask_ = mask_numbers(std::move(mask_));
}

// What is made of the caller's mask, which may have fewer columns than there are keys.
Var Transformer::make_given_mask(KeysSeen seen) {
  const std::uint64_t key_count = setup_.key_count();
  const std::uint64_t length = mask_length_ > 0 ? mask_length_ : key_count;
  const bool is_fused = setup_.fused_attention;
  Var allowed = tape_.make(setup_.batch * length, 1);
  if (key_count > length) padded_mask_ = tape_.make(setup_.batch * key_count, 1).tensor;
  const bool is_prompt = is_fused && key_count > length && setup_.sequence > 1;
  if (is_prompt) check_all(setup_.batch * length);
  if (is_prompt && !padded_) {
    // Nothing is hidden but the cache's end, which attention's causal mode hides.
    Var rest = tape_.make(setup_.batch * (key_count - length), 1);
    Var zero = tape_.make(1, 8);
    { const Var converted = tape_.make(rest.count, 8); }
    Var all = tape_.make(1, 1);
    drop({&zero, &rest, &all});
    padded_mask_.reset();
    return {};
  }
  // Where a window hides keys, nobody asks; nor does eager attention, which needs the mask anyway.
  const bool is_checked =
      is_fused && padded_ && !is_prompt && (seen != KeysSeen::Near || !hides_beyond_window());
  if (is_checked && (mask_length_ == 0 || key_count == setup_.sequence)) {
    check_all(setup_.batch * length);
  }
  if (is_checked && setup_.sequence > 1) check_all(setup_.batch * length);
  Var mask = make_padding_mask(setup_.sequence, key_count, seen);
  return is_fused ? mask : mask_numbers(std::move(mask));
}

void Transformer::make_causal_masks() {
  // A cache that is not read to its end needs a mask; while decoding nobody looks whether it is.
  const bool is_longer =
      mask_length_ > 0 && (setup_.key_count() > mask_length_ || setup_.sequence == 1);
  // Several tokens after others that are cached: attention has no mode for their triangle.
  const bool goes_on = setup_.sequence > 1 && setup_.key_count() > setup_.sequence;
  const ModelShape& model = setup_.model;
  // Both kinds are made where blocks differ; Qwen's whole one always.
  const bool has_whole = model.window == 0 || model.window_every > 0 || model.has_qwen_parts();
  if (given_mask_ && (!setup_.fused_attention || padded_ || is_longer || goes_on)) {
    if (has_whole) mask_ = make_given_mask(KeysSeen::Before);
    if (model.window > 0) window_mask_ = make_given_mask(KeysSeen::Near);
    return;
  }
  const bool detects_packing = cache_ == nullptr && !given_mask_;
  if (has_whole) {
    if (given_mask_) check_given_mask();
    mask_ = make_causal_mask(detects_packing);
  }
  if (model.window == 0) return;
  if (!hides_beyond_window()) {
    if (given_mask_) check_given_mask();
    window_mask_ = make_causal_mask(detects_packing);
    return;
  }
  if (given_mask_) {
    window_mask_ = make_given_mask(KeysSeen::Near);
    return;
  }
  if (detects_packing) static_cast<void>(detect_packing());
  window_mask_ = make_window_mask();
}

Var Transformer::masked_fused_attention(Var query, Var key, Var value,
                                        const FusedAttentionShape& shape) {
  key = repeat_heads(tape_, std::move(key), shape.repeats, has_one_key_head());
  value = repeat_heads(tape_, std::move(value), shape.repeats, has_one_key_head());
  // The caller holds the repeated heads while autocast's operator reads its own casts.
  Var repeated_key = shape.repeats > 1 ? key : Var();
  Var repeated_value = shape.repeats > 1 ? value : Var();
  narrow(tape_, {&value, &key, &query});
  Var zero = tape_.make(1, query.width);
  Var lowest = tape_.make(1, query.width);
  Var bias = tape_.make(setup_.token_count() * setup_.key_count(), query.width);
  drop({&lowest, &zero});
  bias = bias_of_whole_steps(tape_, std::move(bias), setup_.key_count());
  FusedAttentionShape apart = shape;
  apart.repeats = 1;
  apart.bias = bias.tensor;
  Var out = fused_attention(tape_, query, key, value, apart);
  apart.bias.reset();
  bias.drop();
  out = by_tokens(query, std::move(out));
  drop({&key, &value, &repeated_key, &repeated_value});
  return out;
}

}  // namespace allocmark
