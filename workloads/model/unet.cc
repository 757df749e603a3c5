#include "workloads/model/unet.h"

#include <utility>

#include "workloads/model/functions.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kGroups = 32;
constexpr std::uint64_t kHeadWidth = 64;
constexpr std::uint64_t kTimeFactor = 4;

LinearWeights with_bias(std::size_t weight) { return {.weight = weight, .bias = weight + 1}; }

}  // namespace

std::size_t Unet::add(std::uint64_t count, std::uint64_t bias_count) {
  const auto parameter = [&](std::uint64_t elements) {
    return tape_.add_parameter({.data = tape_.allocate(elements * 4, TensorKind::Parameter),
                                .count = elements,
                                .width = 4});
  };
  const std::size_t weight = parameter(count);
  static_cast<void>(parameter(bias_count));
  return weight;
}

Unet::Residual Unet::add_residual(std::uint64_t before, std::uint64_t after) {
  Residual own{.before = before, .after = after};
  own.norm1 = add(before, before);
  own.conv1 = add(before * after * 9, after);
  own.time = add(kTimeFactor * setup_.channels.front() * after, after);
  own.norm2 = add(after, after);
  own.conv2 = add(after * after * 9, after);
  if (before != after) own.shortcut = add(before * after, after);
  return own;
}

Unet::Attention Unet::add_attention(std::uint64_t width) {
  Attention own;
  own.norm = add(width, width);
  for (std::size_t* product : {&own.query, &own.key, &own.value, &own.out}) {
    *product = add(width * width, width);
  }
  return own;
}

Unet::Level Unet::add_level(const std::vector<std::uint64_t>& befores, std::size_t index) {
  Level level;
  for (const std::uint64_t before : befores) {
    level.residuals.push_back(add_residual(before, setup_.channels[index]));
  }
  for (std::size_t i = 0; i < befores.size() && setup_.attends[index] == 1; ++i) {
    level.attentions.push_back(add_attention(setup_.channels[index]));
  }
  return level;
}

void Unet::add_way_down() {
  const std::vector<std::uint64_t>& channels = setup_.channels;
  widths_ = {channels.front()};
  for (std::size_t i = 0; i < channels.size(); ++i) {
    std::vector<std::uint64_t> befores(setup_.block_count, channels[i]);
    befores.front() = widths_.back();
    down_.push_back(add_level(befores, i));
    for (std::uint64_t step = 0; step < setup_.block_count; ++step) widths_.push_back(channels[i]);
    if (i + 1 < channels.size()) widths_.push_back(channels[i]);
  }
  for (std::size_t i = 0; i + 1 < channels.size(); ++i) {
    shrink_.push_back(add(channels[i] * channels[i] * 9, channels[i]));
  }
}

void Unet::add_way_up() {
  const std::vector<std::uint64_t>& channels = setup_.channels;
  std::uint64_t last = channels.back();
  for (std::size_t i = channels.size(); i-- > 0;) {
    std::vector<std::uint64_t> befores;
    for (std::uint64_t step = 0; step <= setup_.block_count; ++step) {
      befores.push_back(last + widths_.back());
      widths_.pop_back();
      last = channels[i];
    }
    up_.push_back(add_level(befores, i));
  }
  for (std::size_t i = channels.size(); i-- > 1;) {
    grow_.push_back(add(channels[i] * channels[i] * 9, channels[i]));
  }
}

void Unet::make_parameters() {
  const std::uint64_t first = setup_.channels.front();
  const std::uint64_t last = setup_.channels.back();
  first_ = add(setup_.colours * first * 9, first);
  time1_ = add(first * kTimeFactor * first, kTimeFactor * first);
  time2_ = add(kTimeFactor * first * kTimeFactor * first, kTimeFactor * first);
  add_way_down();
  add_way_up();
  middle1_ = add_residual(last, last);
  middle_ = add_attention(last);
  middle2_ = add_residual(last, last);
  norm_ = add(first, first);
  last_ = add(first * setup_.colours * 9, setup_.colours);
}

// Sines and cosines of the times through two layers.
Var Unet::time_rows() {
  auto [frequencies, angles, waves] = waves_of(tape_, setup_.batch, setup_.channels.front());
  drop({&frequencies, &angles});
  // Each layer's input lives until it returns, the first one's until all do.
  Var rows = linear(tape_, waves, setup_.batch, with_bias(time1_));
  rows = activation_of_input(tape_, rows);
  rows = linear(tape_, rows, setup_.batch, with_bias(time2_));
  return rows;
}

Var Unet::residual(const Residual& own, Var values, ImageShape shape) {
  shape.channels = own.before;
  Var inner = group_norm(tape_, values, shape, kGroups, own.norm1);
  inner = activation_of_input(tape_, inner);
  inner = convolve(tape_, inner, shape, {.weight = own.conv1, .channels = own.after});
  shape.channels = own.after;
  Var rows = linear(tape_, activation_of_input(tape_, time_), setup_.batch, with_bias(own.time));
  inner = ::allocmark::add(tape_, inner, rows);
  inner = group_norm(tape_, inner, shape, kGroups, own.norm2);
  inner = activation_of_input(tape_, inner);
  inner = convolve(tape_, inner, shape, {.weight = own.conv2, .channels = own.after});
  if (own.before != own.after) {
    shape.channels = own.before;
    values = convolve(tape_, values, shape,
                      {.weight = own.shortcut, .channels = own.after, .kernel = 1});
  }
  Var out = ::allocmark::add(tape_, values, inner);
  drop({&values, &inner, &rows});
  return out;
}

Var Unet::attention(const Attention& own, Var values, const ImageShape& shape) {
  const std::uint64_t rows = shape.pixels();
  Var inner = pixels_first(tape_, group_norm(tape_, values, shape, kGroups, own.norm));
  const auto heads = [&](std::size_t weight) {
    return split_heads(tape_, linear_of_copy(tape_, inner, rows, with_bias(weight)), false);
  };
  Var query = heads(own.query);
  Var key = heads(own.key);
  Var value = heads(own.value);
  inner = fused_attention(tape_, query, key, value,
                          {.query_count = shape.count(),
                           .row_count = rows * (shape.channels / kHeadWidth),
                           .query_rows = shape.side * shape.side});
  inner = linear(tape_, std::move(inner), rows, with_bias(own.out));
  inner = pixels_first(tape_, std::move(inner));
  Var out = ::allocmark::add(tape_, values, inner);
  drop({&values, &inner, &query, &key, &value});
  return out;
}

Var Unet::way_down(Var values, ImageShape* shape, std::vector<Var>* kept) {
  for (std::size_t i = 0; i < down_.size(); ++i) {
    for (std::size_t step = 0; step < down_[i].residuals.size(); ++step) {
      values = residual(down_[i].residuals[step], values, *shape);
      shape->channels = setup_.channels[i];
      if (setup_.attends[i] == 1) {
        values = attention(down_[i].attentions[step], values, *shape);
      }
      kept->push_back(values);
    }
    if (i == shrink_.size()) break;
    values = convolve(tape_, values, *shape,
                      {.weight = shrink_[i], .channels = shape->channels, .step = 2});
    shape->side /= 2;
    kept->push_back(values);
  }
  return values;
}

Var Unet::way_up(Var values, ImageShape* shape, std::vector<Var>* kept) {
  for (std::size_t i = 0; i < up_.size(); ++i) {
    const std::size_t index = up_.size() - 1 - i;
    for (std::size_t step = 0; step < up_[i].residuals.size(); ++step) {
      Var joined = join_channels(tape_, values, kept->back());
      kept->pop_back();
      Var output = residual(up_[i].residuals[step], joined, *shape);
      joined.drop();
      values = std::move(output);
      shape->channels = setup_.channels[index];
      if (setup_.attends[index] == 1) {
        values = attention(up_[i].attentions[step], values, *shape);
      }
    }
    if (i == grow_.size()) break;
    values = grow_twice(tape_, values);
    shape->side *= 2;
    values = convolve(tape_, values, *shape, {.weight = grow_[i], .channels = shape->channels});
  }
  return values;
}

Var Unet::forward(const Tensor& images) {
  ImageShape shape{.batch = setup_.batch, .channels = setup_.colours, .side = setup_.side};
  time_ = time_rows();
  Var values{.tensor = images, .count = shape.count(), .width = 4};
  shape.channels = setup_.channels.front();
  std::vector<Var> kept;
  {
    const ImageShape seen{.batch = shape.batch, .channels = setup_.colours, .side = shape.side};
    values = convolve(tape_, values, seen, {.weight = first_, .channels = shape.channels});
  }
  kept.push_back(values);
  values = way_down(std::move(values), &shape, &kept);
  Var middle = residual(middle1_, values, shape);
  middle = attention(middle_, middle, shape);
  middle = residual(middle2_, middle, shape);
  values = std::move(middle);
  values = way_up(std::move(values), &shape, &kept);
  // A variable of the forward lives until it returns.
  Var last = activation_of_input(tape_, group_norm(tape_, values, shape, kGroups, norm_));
  Var out = convolve(tape_, last, shape, {.weight = last_, .channels = setup_.colours});
  drop({&last, &values, &time_});
  return out;
}

}  // namespace allocmark
