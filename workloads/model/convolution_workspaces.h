// What cuDNN takes besides the tensors of a convolution, as recorded of 3 x 3 and 1 x 1 kernels on
// an H200.
#pragma once

#include <cstdint>

namespace allocmark {

struct ConvolutionSizes {
  std::uint64_t width = 4;  // bytes of an element
  std::uint64_t kernel = 3;
  std::uint64_t images = 1;
  std::uint64_t pixels_in = 0;  // of all images
  std::uint64_t pixels_out = 0;
  std::uint64_t channels_in = 0;
  std::uint64_t channels_out = 0;
};

// 0: none is asked for.
[[nodiscard]] std::uint64_t forward_workspace(const ConvolutionSizes& sizes);
[[nodiscard]] std::uint64_t input_gradient_workspace(const ConvolutionSizes& sizes);
[[nodiscard]] std::uint64_t weight_gradient_workspace(const ConvolutionSizes& sizes);

}  // namespace allocmark
