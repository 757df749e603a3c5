// What cuDNN takes besides the tensors of a convolution: the rules fitted to 88,075 of them that
// were measured on an H200 (convolution_choices.inc).
#pragma once

#include <cstdint>

namespace allocmark {

enum class ConvolutionType : std::uint8_t { Float32, Bfloat16, Float16 };
enum class ConvolutionDirection : std::uint8_t { Forward, Input, Weight };

// Square images and kernels. Measured are kernels of 3 x 3 with step 1 and 2, of 1 x 1, and those
// that are as large as their step, over three or four colours.
struct ConvolutionSizes {
  ConvolutionType type = ConvolutionType::Float32;
  std::uint64_t kernel = 3;
  std::uint64_t step = 1;
  std::uint64_t images = 1;
  std::uint64_t side_in = 0;
  std::uint64_t side_out = 0;
  std::uint64_t channels_in = 0;
  std::uint64_t channels_out = 0;
  friend bool operator==(const ConvolutionSizes&, const ConvolutionSizes&) = default;
};

// In bytes; 0: none is asked for. Input is the gradient of the images, for colours not known: 0.
[[nodiscard]] std::uint64_t workspace_bytes(const ConvolutionSizes& sizes,
                                            ConvolutionDirection direction);

}  // namespace allocmark
