// Workspaces of convolutions as an H200 recorded them: unet_fp32, unet_amp, unet_small_fp32 and
// unet_wide_amp.
#include "workloads/model/convolution_workspaces.h"

#include <cstdint>

#include "tests/catch.h"

using namespace allocmark;

namespace {

// unet_fp32: 16 images of 64 x 64.
constexpr std::uint64_t kPixels = 16 * 64 * 64;
// unet_small_fp32: 32 of 32 x 32. unet_wide_amp: 4 of 64 x 64.
constexpr std::uint64_t kSmallPixels = 32 * 32 * 32;
constexpr std::uint64_t kWidePixels = 4 * 64 * 64;

ConvolutionSizes same_side(std::uint64_t pixels, std::uint64_t before, std::uint64_t after) {
  return {.pixels_in = pixels, .pixels_out = pixels, .channels_in = before, .channels_out = after};
}

ConvolutionSizes narrow(std::uint64_t pixels, std::uint64_t before, std::uint64_t after) {
  ConvolutionSizes sizes = same_side(pixels, before, after);
  sizes.width = 2;
  return sizes;
}

}  // namespace

TEST_CASE("a convolution of 3 x 3 copies images, weight and result to channels last") {
  CHECK(forward_workspace(same_side(kPixels / 16, 256, 256)) == 10'747'920);
  CHECK(forward_workspace(narrow(kPixels / 2, 128, 128)) == 17'072'275);
  CHECK(input_gradient_workspace(narrow(kPixels / 2, 128, 128)) == 17'072'275);
  CHECK(forward_workspace(same_side(kSmallPixels / 4, 192, 128)) == 11'370'512);
  CHECK(forward_workspace(narrow(kWidePixels / 16, 1536, 768)) == 25'952'272);
  // Three colours are read as they are.
  CHECK(forward_workspace(same_side(kPixels, 3, 128)) == 0);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels, 3, 64)) == 0);
  ConvolutionSizes sizes = same_side(kSmallPixels, 64, 64);
  sizes.pixels_out /= 4;
  CHECK(forward_workspace(sizes) == 10'633'232);
  CHECK(input_gradient_workspace(sizes) == 10'633'363);
}

TEST_CASE("the last tiles of a forward are summed in as many parts as run at once") {
  // 512, 256 and 256 tiles: of 120 at a time 32, 16 and 16 are left, for 3, 4 and 7 parts.
  CHECK(forward_workspace(same_side(kPixels, 128, 128)) == 73'990'707);
  CHECK(forward_workspace(same_side(kPixels / 4, 128, 256)) == 30'540'147);
  CHECK(forward_workspace(same_side(kPixels / 4, 512, 256)) == 62'390'899);
  CHECK(forward_workspace(same_side(kSmallPixels, 128, 128)) == 38'338'931);
  ConvolutionSizes sizes = same_side(kPixels, 128, 128);
  sizes.pixels_out /= 4;
  CHECK(forward_workspace(sizes) == 44'630'287);
  // Of 1024, 64 are left: no two parts fit. Nor do 64 channels fill a tile.
  CHECK(forward_workspace(same_side(kPixels, 256, 256)) == 136'577'171);
  CHECK(forward_workspace(same_side(kSmallPixels, 64, 64)) == 16'924'688);
  CHECK(forward_workspace(same_side(kSmallPixels, 192, 64)) == 33'996'816);
  CHECK(forward_workspace(same_side(kSmallPixels / 4, 256, 128)) == 21'627'535);
  // In two bytes a part is deeper, and all channels fit in a tile.
  CHECK(forward_workspace(narrow(kPixels / 2, 384, 128)) == 38'633'779);
  CHECK(forward_workspace(narrow(kWidePixels, 384, 192)) == 22'298'867);
  CHECK(forward_workspace(narrow(kWidePixels, 576, 192)) == 29'253'875);
  CHECK(forward_workspace(narrow(kWidePixels, 192, 192)) == 13'246'480);
  CHECK(forward_workspace(narrow(kWidePixels, 384, 384)) == 27'820'048);
  CHECK(forward_workspace(narrow(kPixels / 8, 512, 256)) == 14'942'224);
}

TEST_CASE("gradients of images are summed in two parts where half of the processors would rest") {
  CHECK(input_gradient_workspace(same_side(kSmallPixels / 4, 128, 128)) == 17'367'343);
  CHECK(input_gradient_workspace(same_side(kSmallPixels / 4, 256, 128)) == 30'540'207);
  CHECK(input_gradient_workspace(same_side(kPixels / 16, 256, 256)) == 13'697'559);
  CHECK(input_gradient_workspace(same_side(kPixels / 4, 384, 256)) == 45'482'000);
  CHECK(input_gradient_workspace(same_side(kSmallPixels / 4, 64, 128)) == 6'586'384);
  // 192 tiles of 256 x 128: 60 are left for 132 processors.
  CHECK(input_gradient_workspace(narrow(kWidePixels, 384, 384)) == 43'549'087);
  CHECK(input_gradient_workspace(narrow(kWidePixels, 384, 192)) == 20'201'488);
}

TEST_CASE("gradients of weights have as many parts as tiles fill the processors") {
  CHECK(weight_gradient_workspace(same_side(kPixels, 128, 128)) == 75'956'903);
  CHECK(weight_gradient_workspace(same_side(kPixels, 384, 128)) == 143'065'587);
  CHECK(weight_gradient_workspace(same_side(kPixels / 4, 384, 256)) == 52'560'263);
  CHECK(weight_gradient_workspace(same_side(kPixels / 4, 512, 256)) == 59'376'367);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels, 64, 64)) == 18'989'735);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels, 192, 64)) == 35'766'771);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels, 64, 3)) == 10'987'175);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels, 128, 128)) == 42'402'471);
  // In two bytes parts have 8192 rows or more, and channels in are few.
  CHECK(weight_gradient_workspace(narrow(kPixels / 2, 192, 128)) == 26'132'871);
  CHECK(weight_gradient_workspace(narrow(kPixels / 2, 256, 256)) == 41'812'575);
  CHECK(weight_gradient_workspace(narrow(kPixels / 2, 384, 128)) == 34'439'184);
  CHECK(weight_gradient_workspace(narrow(kPixels * 2, 128, 64)) == 54'313'639);
  CHECK(weight_gradient_workspace(narrow(kPixels / 8, 256, 256)) == 9'568'272);
  CHECK(weight_gradient_workspace(narrow(kWidePixels, 192, 192)) == 17'965'375);
  CHECK(weight_gradient_workspace(narrow(kWidePixels, 384, 192)) == 20'201'488);
  CHECK(weight_gradient_workspace(narrow(kWidePixels / 16, 768, 768)) == 13'762'707);
}

TEST_CASE("gradients of weights from few rows in four bytes are made as Winograd does") {
  CHECK(weight_gradient_workspace(same_side(kSmallPixels / 4, 128, 128)) == 21'233'664);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels / 4, 192, 128)) == 27'131'904);
  CHECK(weight_gradient_workspace(same_side(kSmallPixels / 4, 256, 128)) == 33'030'144);
  CHECK(weight_gradient_workspace(same_side(kPixels / 16, 256, 256)) == 17'826'399);
}

TEST_CASE("a convolution of 1 x 1 takes space for its weight's gradient alone, image by image") {
  ConvolutionSizes sizes = same_side(kPixels, 256, 128);
  sizes.kernel = 1;
  sizes.images = 16;
  CHECK(forward_workspace(sizes) == 0);
  CHECK(input_gradient_workspace(sizes) == 400);
  CHECK(weight_gradient_workspace(sizes) == 2'097'152);
  sizes = narrow(kWidePixels / 16, 384, 768);
  sizes.kernel = 1;
  sizes.images = 4;
  CHECK(weight_gradient_workspace(sizes) == 4'718'592);
  // Copies are smaller than sums here.
  sizes.channels_in = 1152;
  CHECK(weight_gradient_workspace(sizes) == 3'932'176);
}
