// Workspaces of convolutions as an H200 recorded them: unet_fp32 and unet_amp.
#include "workloads/model/convolution_workspaces.h"

#include <cstdint>

#include "tests/catch.h"

using namespace allocmark;

namespace {

constexpr std::uint64_t kPixels = 16 * 64 * 64;

ConvolutionSizes same_side(std::uint64_t pixels, std::uint64_t before, std::uint64_t after) {
  return {.pixels_in = pixels, .pixels_out = pixels, .channels_in = before, .channels_out = after};
}

}  // namespace

TEST_CASE("a convolution of 3 x 3 copies images, weight and result to channels last") {
  ConvolutionSizes sizes = same_side(kPixels / 16, 256, 256);
  CHECK(forward_workspace(sizes) == 10'747'920);
  sizes = same_side(kPixels / 2, 128, 128);
  sizes.width = 2;
  CHECK(forward_workspace(sizes) == 17'072'275);
  CHECK(input_gradient_workspace(sizes) == 17'072'275);
  // Three colours are read as they are.
  CHECK(forward_workspace(same_side(kPixels, 3, 128)) == 0);
}

TEST_CASE("sums in parts are near what was recorded") {
  const auto near = [](std::uint64_t generated, double recorded) {
    CHECK(static_cast<double>(generated) == Approx(recorded).epsilon(1e-4));
  };
  near(forward_workspace(same_side(kPixels, 128, 128)), 73'990'707);
  near(forward_workspace(same_side(kPixels / 4, 128, 256)), 30'540'147);
  near(input_gradient_workspace(same_side(kPixels / 16, 256, 256)), 13'697'559);
  near(weight_gradient_workspace(same_side(kPixels, 384, 128)), 143'065'587);
  near(weight_gradient_workspace(same_side(kPixels / 4, 512, 256)), 59'376'367);
  ConvolutionSizes sizes = same_side(kPixels / 2, 192, 128);
  sizes.width = 2;
  near(weight_gradient_workspace(sizes), 26'132'871);
  sizes = same_side(kPixels / 8, 256, 256);
  sizes.width = 2;
  near(weight_gradient_workspace(sizes), 9'568'272);
}

TEST_CASE("a convolution of 1 x 1 takes space for its weight's gradient alone") {
  ConvolutionSizes sizes = same_side(kPixels, 256, 128);
  sizes.kernel = 1;
  CHECK(forward_workspace(sizes) == 0);
  CHECK(input_gradient_workspace(sizes) == 400);
  CHECK(weight_gradient_workspace(sizes) == 2'097'152);
}
