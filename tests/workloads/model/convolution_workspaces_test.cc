// Goal: a convolution takes what cuDNN takes. Method: 1,500 measured on an H200 that the rules have
// not seen (tests/golden/workloads/convolutions.csv: scripts/measure/fit_convolutions.py). Which
// kernel cuDNN takes cannot be known for all, so shares are held.
#include "workloads/model/convolution_workspaces.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

struct Measured {
  ConvolutionSizes sizes;
  std::uint64_t bytes[3] = {};  // forward, gradient of the images, of the weight
};

std::vector<Measured> read_sample() {
  std::ifstream file("tests/golden/workloads/convolutions.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  REQUIRE(line == "dtype,kernel,stride,pad,batch,side,cin,cout,forward,input,weight");
  std::vector<Measured> rows;
  while (std::getline(file, line)) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    std::string type;
    std::uint64_t pad = 0;
    Measured row;
    ConvolutionSizes& s = row.sizes;
    words >> type >> s.kernel >> s.step >> pad >> s.images >> s.side_in >> s.channels_in >>
        s.channels_out >> row.bytes[0] >> row.bytes[1] >> row.bytes[2];
    REQUIRE(words);
    s.side_out = (s.side_in + 2 * pad - s.kernel) / s.step + 1;
    if (type != "float32") s.type = ConvolutionType::Bfloat16;
    if (type == "float16") s.type = ConvolutionType::Float16;
    rows.push_back(row);
  }
  return rows;
}

// Where the rules have none: colours of images need no gradient.
bool is_asked(const ConvolutionSizes& sizes, ConvolutionDirection direction) {
  return direction != ConvolutionDirection::Input || sizes.channels_in > 4;
}

struct Share {
  int equal = 0;  // as the allocator rounds it
  int near = 0;   // within 2 % or 1 MiB
  int all = 0;
};

Share share_of(const std::vector<Measured>& sample, ConvolutionType type,
               ConvolutionDirection direction) {
  Share share;
  for (const Measured& row : sample) {
    if (row.sizes.type != type || !is_asked(row.sizes, direction)) continue;
    const std::uint64_t took = row.bytes[static_cast<int>(direction)];
    const std::uint64_t said = workspace_bytes(row.sizes, direction);
    const std::uint64_t off = std::max(took, said) - std::min(took, said);
    ++share.all;
    share.equal += (took + 511) / 512 == (said + 511) / 512 ? 1 : 0;
    share.near += off <= std::max(kMiB, took / 50) ? 1 : 0;
  }
  return share;
}

}  // namespace

TEST_CASE("convolutions that the rules have not seen take what was said") {
  using Type = ConvolutionType;
  using Direction = ConvolutionDirection;
  struct Wanted {
    Type type;
    Direction direction;
    double equal, near;
  };
  const std::vector<Measured> sample = read_sample();
  for (const Wanted& wanted : {Wanted{Type::Bfloat16, Direction::Forward, 0.92, 0.94},
                               Wanted{Type::Bfloat16, Direction::Input, 0.88, 0.92},
                               Wanted{Type::Bfloat16, Direction::Weight, 0.85, 0.92},
                               Wanted{Type::Float32, Direction::Forward, 0.76, 0.88},
                               Wanted{Type::Float32, Direction::Input, 0.72, 0.80},
                               Wanted{Type::Float32, Direction::Weight, 0.70, 0.86},
                               Wanted{Type::Float16, Direction::Forward, 0.99, 0.99},
                               Wanted{Type::Float16, Direction::Weight, 0.80, 0.90}}) {
    const Share share = share_of(sample, wanted.type, wanted.direction);
    INFO(static_cast<int>(wanted.type)
         << ' ' << static_cast<int>(wanted.direction) << ": " << share.equal << " equal, "
         << share.near << " near of " << share.all);
    CHECK(share.all > 70);
    CHECK(share.equal >= wanted.equal * share.all);
    CHECK(share.near >= wanted.near * share.all);
  }
}

TEST_CASE("most kernels copy images, result and weight to channels last") {
  ConvolutionSizes sizes{.type = ConvolutionType::Bfloat16,
                         .images = 16,
                         .side_in = 64,
                         .side_out = 64,
                         .channels_in = 256,
                         .channels_out = 256};
  const std::uint64_t copies = 2 * (2 * 16 * 64 * 64 * 256 + 256 * 256 * 9) + 16;
  CHECK(workspace_bytes(sizes, ConvolutionDirection::Forward) / 512 == copies / 512);
  sizes.channels_in = 3;  // colours are read as they are
  CHECK(workspace_bytes(sizes, ConvolutionDirection::Forward) == 0);
  CHECK(workspace_bytes(sizes, ConvolutionDirection::Input) == 0);  // nobody asks
}

TEST_CASE("any convolution has an answer") {
  for (const std::uint64_t side : {1, 3, 4096}) {
    for (const std::uint64_t channels : {1, 64, 8192}) {
      const ConvolutionSizes sizes{
          .side_in = side, .side_out = side, .channels_in = channels, .channels_out = channels};
      for (const auto direction : {ConvolutionDirection::Forward, ConvolutionDirection::Input,
                                   ConvolutionDirection::Weight}) {
        CHECK(workspace_bytes(sizes, direction) < std::uint64_t{1} << 50);
      }
    }
  }
}

}  // namespace allocmark
