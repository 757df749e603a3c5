// A denoising UNet (Ho et al., arXiv 2006.11239) with the parts of diffusers' UNet2DModel: residual
// blocks of two convolutions with GroupNorm, attention at some resolutions, and a way down whose
// results join the way up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/model/images.h"
#include "workloads/model/tape.h"

namespace allocmark {

struct UnetSetup {
  std::vector<std::uint64_t> channels = {128, 256, 256};  // of each resolution, half of the last
  std::vector<std::uint64_t> attends = {0, 1, 0};         // of each: 1 with attention
  std::uint64_t block_count = 2;                          // residual blocks of each
  std::uint64_t batch = 16;
  std::uint64_t side = 64;  // pixels
  std::uint64_t colours = 3;
  std::uint64_t narrow_bytes = 4;
  bool autocast = false;
};

class Unet {
 public:
  Unet(UnetSetup setup, Tape* tape) : setup_(std::move(setup)), tape_(*tape) {}

  void make_parameters();
  // The noise that the images hold at these times.
  [[nodiscard]] Var forward(const Tensor& images);

 private:
  // Indexes of weights; each one's bias is the next.
  struct Residual {
    std::uint64_t before = 0, after = 0;  // channels
    std::size_t norm1 = 0, conv1 = 0, time = 0, norm2 = 0, conv2 = 0, shortcut = 0;
  };
  struct Attention {
    std::size_t norm = 0, query = 0, key = 0, value = 0, out = 0;
  };
  struct Level {
    std::vector<Residual> residuals;
    std::vector<Attention> attentions;
  };

  [[nodiscard]] std::size_t add(std::uint64_t count, std::uint64_t bias_count);
  [[nodiscard]] Residual add_residual(std::uint64_t before, std::uint64_t after);
  [[nodiscard]] Attention add_attention(std::uint64_t width);
  [[nodiscard]] Level add_level(const std::vector<std::uint64_t>& befores, std::size_t index);
  void add_way_down();
  void add_way_up();
  [[nodiscard]] Var time_rows();
  [[nodiscard]] Var residual(const Residual& own, Var values, ImageShape shape);
  [[nodiscard]] Var attention(const Attention& own, Var values, const ImageShape& shape);
  [[nodiscard]] Var way_down(Var values, ImageShape* shape, std::vector<Var>* kept);
  [[nodiscard]] Var way_up(Var values, ImageShape* shape, std::vector<Var>* kept);

  UnetSetup setup_;
  Tape& tape_;
  std::size_t first_ = 0, time1_ = 0, time2_ = 0, norm_ = 0, last_ = 0;
  std::vector<std::uint64_t> widths_;  // while the ways are made: channels of what is kept
  std::vector<Level> down_, up_;
  std::vector<std::size_t> shrink_, grow_;
  Residual middle1_, middle2_;
  Attention middle_;
  Var time_;  // of one forward
};

}  // namespace allocmark
