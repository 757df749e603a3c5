#include "workloads/model/compiled_gpt2.h"

#include <algorithm>
#include <utility>

#include "base/divided_up.h"

namespace allocmark {
namespace {

// Sums over tokens are made in parts of so many. Known from 2048 tokens.
constexpr std::uint64_t kTokensPerPart = 128;
// A product wants rows whose bytes are a multiple of 16; other buffers pad theirs to 128.
constexpr std::uint64_t kProductColumns = 8;
constexpr std::uint64_t kBufferColumns = 64;
constexpr std::uint64_t kAttentionBytes = 256;
// How inductor times: its own constants, and how fast an H200 was with rows of odd bytes and with
// padded ones.
constexpr std::uint64_t kColdCacheBytes = 60 << 20;
constexpr int kVariants = 2;
constexpr std::uint64_t kEstimateRuns = 5;
constexpr std::uint64_t kRunsMax = 100;
constexpr std::uint64_t kTimedMs = 25;
constexpr std::uint64_t kOddPerMs = 120'000'000'000;
constexpr std::uint64_t kEvenPerMs = 300'000'000'000;

// Where a block's parameters are, after the two tables.
enum BlockParameter : std::size_t {
  kFirstNorm = 0,
  kQkv = 2,
  kOut = 4,
  kSecondNorm = 6,
  kUp = 8,
  kDown = 10,
  kBlockParameters = 12,
};

}  // namespace

CompiledGpt2::CompiledGpt2(const TransformerSetup& setup, Tape* tape,
                           std::vector<std::size_t> parameters)
    : tape_(tape),
      parameters_(std::move(parameters)),
      batch_(setup.batch),
      sequence_(setup.sequence),
      tokens_(setup.token_count()),
      hidden_(setup.model.hidden),
      ffn_(setup.model.ffn),
      heads_(setup.model.head_count),
      vocabulary_(setup.model.vocabulary),
      positions_(setup.model.positions),
      padded_vocabulary_(rounded_up(vocabulary_, kProductColumns)),
      blocks_(setup.model.layer_count) {}

void CompiledGpt2::time_kernel(std::uint64_t changed_bytes) {
  for (int i = 0; i < kVariants && times_kernels_; ++i) {
    tape_->take_scratch(changed_bytes);
    const Tensor cold = tape_->scratch(kColdCacheBytes);
    for (std::uint64_t run = 0; run < kEstimateRuns + kRunsMax; ++run) {
      tape_->take_scratch(changed_bytes);
    }
  }
}

// Runs until 25 ms are over, after five that say how long one takes.
void CompiledGpt2::time_padding() {
  if (!times_kernels_ || padded_vocabulary_ == vocabulary_) return;
  const std::uint64_t operations = 2 * tokens_ * vocabulary_ * hidden_;
  const auto time = [&](std::uint64_t operations_per_ms, auto product) {
    product();
    const Tensor cold = tape_->scratch(kColdCacheBytes);
    const std::uint64_t runs =
        kEstimateRuns + std::min(kRunsMax, kTimedMs * operations_per_ms / operations);
    for (std::uint64_t run = 0; run < runs; ++run) product();
  };
  const std::uint64_t narrow_rows = tokens_ * hidden_;
  const std::uint64_t logits = tokens_ * vocabulary_;
  const std::uint64_t padded_logits = tokens_ * padded_vocabulary_;
  const std::uint64_t words = vocabulary_ * hidden_;
  const std::uint64_t padded_words = padded_vocabulary_ * hidden_;
  const auto both = [&](std::uint64_t input, std::uint64_t output) {
    return [this, input, output] {
      Tensor padded = make(input, 2);
      const Tensor result = make(output, 2);
      padded.reset();
    };
  };
  const auto one = [&](std::uint64_t output) {
    return [this, output] { static_cast<void>(make(output, 2)); };
  };
  {
    const Tensor of_logits = make(logits, 2);
    const Tensor weight = make(words, 2);
    const Tensor padded_weight = make(padded_words, 2);
    time(kOddPerMs, [&] {
      const Tensor result = make(narrow_rows, 2);
      tape_->use_cublas(false);
    });
    time(kEvenPerMs, both(padded_logits, narrow_rows));
  }
  {
    const Tensor of_logits = make(logits, 2);
    const Tensor input = make(narrow_rows, 2);
    time(kOddPerMs, one(words));
    time(kEvenPerMs, both(padded_logits, padded_words));
  }
  const Tensor input = make(narrow_rows, 2);
  const Tensor weight = make(words, 2);
  time(kOddPerMs, one(logits));
  time(kEvenPerMs, both(padded_words, padded_logits));
}

void CompiledGpt2::gradient(std::size_t parameter, std::uint64_t count) {
  tape_->parameters()[parameters_[parameter]].gradient = tape_->gradient(count * 4);
}

std::size_t CompiledGpt2::of_block(std::size_t block, std::size_t parameter) const {
  return 2 + block * kBlockParameters + parameter;
}

void CompiledGpt2::normalize(Norm* norm, bool has_output) {
  norm->mask = rows(hidden_, 1);
  norm->normed = rows(hidden_, 4);
  norm->scales = rows(1, 4);
  if (has_output) norm->output = rows(hidden_, 2);
}

// Casts of weights live until the backward has used them; a bias is cast into one buffer for all
// blocks.
void CompiledGpt2::attend(Block& own, bool is_first, bool is_last) {
  own.qkv_weight = make(3 * hidden_ * hidden_, 2);
  if (is_first) {
    time_kernel();
    biases_[0] = make(3 * hidden_, 2);
    time_kernel();
  }
  own.qkv = rows(3 * hidden_, 2);
  tape_->use_cublas(true);
  if (is_first) {
    pairs_ = make(batch_ * sequence_ * sequence_, 2);
    time_kernel();
    ids_.reset();
  }
  if (is_last) biases_[0].reset();
  own.seed = make(1, 8);
  own.offset = make(1, 8);
  own.attention = rows(hidden_, 2);
  own.sums = rows(heads_, 4);
  tape_->take_scratch(kAttentionBytes);
  own.out_weight = make(hidden_ * hidden_, 2);
  if (!is_first) return;
  time_kernel();
  biases_[1] = make(hidden_, 2);
  time_kernel();
  spare_[0] = rows(hidden_, 2);
}

// The results of both projections are added to the residual stream in place. Later blocks write
// theirs, and what their second norm gives, into those that are done with.
void CompiledGpt2::expand(Block& own, bool is_first, bool is_last) {
  normalize(&own.second, is_first);
  if (!is_first) own.second.output = std::exchange(spare_[0], std::move(spare_[1]));
  own.up_weight = make(hidden_ * ffn_, 2);
  if (is_first) {
    time_kernel();
    biases_[2] = make(ffn_, 2);
    time_kernel();
  }
  own.up = rows(ffn_, 2);
  if (is_last) biases_[2].reset();
  own.activation = rows(ffn_, 2);
  if (is_first) time_kernel();
  own.down_weight = make(hidden_ * ffn_, 2);
  spare_[1] = rows(hidden_, 2);
  if (is_last) biases_[1].reset();
}

void CompiledGpt2::forward(Tensor* loss) {
  time_padding();
  places_ = make(sequence_, 8);
  time_kernel();
  ids_ = rows(1, 8);
  Tensor seeds = make(2 * blocks_.size() + 1, 8);
  Norm& first = blocks_.front().first;
  first.mask = rows(hidden_, 1);
  residual_ = rows(hidden_, 4);
  first.normed = rows(hidden_, 4);
  first.scales = rows(1, 4);
  first.output = rows(hidden_, 2);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool is_last = i + 1 == blocks_.size();
    attend(blocks_[i], i == 0, is_last);
    expand(blocks_[i], i == 0, is_last);
    if (!is_last) normalize(&blocks_[i + 1].first, true);
  }
  last_.mask = rows(hidden_, 1);
  exact_ = rows(hidden_, 4);
  last_.output = rows(hidden_, 2);
  last_.scales = rows(1, 4);
  for (Tensor& spare : spare_) spare.reset();
  seeds.reset();
  lose(loss);
}

void CompiledGpt2::lose(Tensor* loss) {
  head_weight_ = make(vocabulary_ * hidden_, 2);
  time_kernel();
  {
    Tensor padded;
    if (padded_vocabulary_ > vocabulary_) padded = make(padded_vocabulary_ * hidden_, 2);
    if (padded) time_kernel();
    logits_ = rows(padded_vocabulary_, 2);
  }
  largest_ = rows(1, 4);
  exponentials_ = rows(1, 4);
  labels_ = make(batch_ * (sequence_ + 1), 8);
  time_kernel();
  Tensor value = make(1, 4);
  counted_ = make(1, 4);
  exact_.reset();
  *loss = std::move(value);
}

void CompiledGpt2::lose_backward() {
  of_loss_ = make(1, 4);
  tape_->enter_backward();
  of_logits_ = rows(vocabulary_, 2);
  time_kernel();
  drop({&largest_, &labels_, &counted_, &exponentials_, &logits_});
  of_exact_ = rows(hidden_, 4);
  const std::uint64_t stride = rounded_up(vocabulary_, kBufferColumns);
  const auto padded_rows = [&] { return make((tokens_ - 1) * stride + padded_vocabulary_, 2); };
  head_padded_ = make(padded_vocabulary_ * hidden_, 2);
  time_kernel();
  head_weight_.reset();
  of_logits_padded_ = padded_rows();
  {
    const Tensor again = padded_rows();
    time_kernel();
    of_last_ = rows(hidden_, 2);
    tape_->use_cublas(false);
  }
  of_residual_ = rows(hidden_, 4);
  blocks_.back().of_down = rows(hidden_, 2);
  drop({&last_.scales, &last_.mask});
}

void CompiledGpt2::attend_backward(Block& own, bool is_first) {
  Tensor of_attention = rows(hidden_, 2);
  own.out_weight.reset();
  for (Tensor* part : {&of_query_, &of_key_, &of_value_}) *part = rows(hidden_, 2);
  const std::uint64_t elements = tokens_ * hidden_;
  tape_->take_scratch(elements * 4 + tokens_ * heads_ * 4 + kAttentionBytes);
  if (is_first) {
    drop({&of_attention, &own.seed, &own.offset, &own.sums, &own.qkv, &pairs_});
    return;
  }
  drop({&own.sums, &own.seed, &own.offset, &own.qkv});
  own.of_qkv = rows(3 * hidden_, 2);
  if (&own == &blocks_.back()) time_kernel();
  drop({&own.qkv_weight, &own.first.scales, &own.first.mask});
  // What is done with takes the next gradients.
  Block& next = *(&own - 1);
  own.of_first = std::move(of_value_);
  next.of_second = std::move(of_query_);
  next.of_down = std::move(of_key_);
  next.of_attention_out = std::move(of_attention);
}

void CompiledGpt2::block_backward(std::size_t index) {
  Block& own = blocks_[index];
  own.of_up = rows(ffn_, 2);
  own.down_weight.reset();
  const bool is_last = index + 1 == blocks_.size();
  if (is_last) time_kernel(tokens_ * ffn_ * 2);
  own.up.reset();
  if (is_last) own.of_second = rows(hidden_, 2);
  own.up_weight.reset();
  if (is_last) own.of_attention_out = rows(hidden_, 2);
  drop({&own.second.scales, &own.second.mask});
  attend_backward(own, index == 0);
}

// A norm's weight and bias, and the bias of the projection before it.
void CompiledGpt2::sum_norms() {
  const std::uint64_t parts = divided_up(tokens_, kTokensPerPart);
  Tensor first_parts = make(parts * hidden_, 4);
  Tensor second_parts = make(parts * hidden_, 4);
  const auto sum = [&](Tensor& of_output, Tensor& normed, std::size_t norm, std::size_t bias) {
    drop({&of_output, &normed});
    gradient(norm, hidden_);
    gradient(norm + 1, hidden_);
    gradient(bias, hidden_);
  };
  const std::size_t last = blocks_.size() - 1;
  sum(of_last_, residual_, of_block(blocks_.size(), 0), of_block(last, kDown + 1));
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    Block& own = blocks_[i];
    sum(own.of_second, own.second.normed, of_block(i, kSecondNorm), of_block(i, kOut + 1));
    if (i == 0) break;
    sum(own.of_first, own.first.normed, of_block(i, kFirstNorm), of_block(i - 1, kDown + 1));
  }
  blocks_.front().of_qkv = rows(3 * hidden_, 2);
  drop({&of_query_, &of_key_});
  blocks_.front().qkv_weight.reset();
  gradient(of_block(0, kFirstNorm), hidden_);
  first_parts.reset();
  gradient(of_block(0, kFirstNorm + 1), hidden_);
}

void CompiledGpt2::sum_biases() {
  const std::uint64_t parts = divided_up(tokens_, kTokensPerPart);
  for (const bool is_up : {false, true}) {
    const std::uint64_t columns = is_up ? ffn_ : 3 * hidden_;
    const Tensor summed = make(parts * columns, 4);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      gradient(of_block(i, is_up ? kUp + 1 : kQkv + 1), columns);
    }
  }
}

// Each product gives two bytes, in one buffer for all blocks, and is cast.
void CompiledGpt2::multiply_weights() {
  const std::size_t last = of_block(blocks_.size() - 1, 0);
  const auto product = [&](std::size_t parameter, std::uint64_t count, Tensor& of_output,
                           Tensor& input) {
    drop({&of_output, &input});
    gradient(parameter, count);
    if (parameter == 0 || (parameter > last && parameter != last + kUp)) time_kernel();
  };
  {
    const Tensor narrow = make(hidden_ * hidden_, 2);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      product(of_block(i, kOut), hidden_ * hidden_, blocks_[i].of_attention_out,
              blocks_[i].attention);
    }
  }
  Tensor of_words = make(vocabulary_ * hidden_, 4);
  time_kernel();
  time_kernel(tokens_ * hidden_ * 2);
  Norm& first = blocks_.front().first;
  drop({&of_value_, &first.scales, &first.mask, &first.normed, &of_residual_, &places_});
  {
    const Tensor narrow = make(3 * hidden_ * hidden_, 2);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      product(of_block(i, kQkv), 3 * hidden_ * hidden_, blocks_[i].of_qkv, blocks_[i].first.output);
    }
  }
  {
    const Tensor narrow = make(hidden_ * ffn_, 2);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      product(of_block(i, kDown), hidden_ * ffn_, blocks_[i].of_down, blocks_[i].activation);
      product(of_block(i, kUp), hidden_ * ffn_, blocks_[i].of_up, blocks_[i].second.output);
    }
  }
  product(0, vocabulary_ * hidden_, of_logits_padded_, last_.output);
  drop({&head_padded_, &of_words, &of_exact_, &of_logits_, &of_loss_});
}

void CompiledGpt2::backward() {
  lose_backward();
  for (std::size_t i = blocks_.size(); i-- > 0;) block_backward(i);
  sum_norms();
  sum_biases();
  gradient(1, positions_ * hidden_);
  time_kernel();
  multiply_weights();
  tape_->end_backward();
  times_kernels_ = false;
}

}  // namespace allocmark
