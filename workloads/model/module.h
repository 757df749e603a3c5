// A module of a model, as PyTorch's users have them: who hears of it, and its own parameters.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace allocmark {

inline constexpr std::size_t kNoParameter = ~std::size_t{0};

// Up to three; kNoParameter, where there is no bias, is left out.
class OwnParameters {
 public:
  OwnParameters() = default;
  OwnParameters(std::initializer_list<std::size_t> given) {
    for (const std::size_t one : given) {
      if (one != kNoParameter) all_[count_++] = one;
    }
    std::sort(all_.begin(), all_.begin() + count_);
  }
  [[nodiscard]] const std::size_t* begin() const { return all_.data(); }
  [[nodiscard]] const std::size_t* end() const { return all_.data() + count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  bool operator==(const OwnParameters& other) const = default;

 private:
  std::array<std::size_t, 3> all_ = {kNoParameter, kNoParameter, kNoParameter};
  std::uint8_t count_ = 0;
};

// A part of a model that has parameters of its own: ZeRO's third stage gathers them for it alone.
struct Module {
  OwnParameters parameters = {};
  bool hears_end = true;  // of its backward: its input has a gradient
  bool is_leaf = false;   // what is in it is not looked at: its gradients come at its end

  [[nodiscard]] bool is_one() const { return !parameters.empty(); }
  bool operator==(const Module& other) const { return parameters == other.parameters; }
};

}  // namespace allocmark
