// What the readings of a config string as PyTorch reads it have in common: its errors, and the
// reader of 2.9 behind parse_pytorch (config.h).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "allocators/caching/config.h"

namespace allocmark::caching {

// PyTorch's error, with its text.
class Rejected : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool condition, const std::string& text) {
  if (!condition) throw Rejected(text);
}

// ConfigReader::Cuda.
[[nodiscard]] PytorchConfig parse_pytorch_cuda(std::string_view conf, const Rules& rules);
[[nodiscard]] std::string change_like_pytorch_cuda(Settings& settings, std::string_view conf);

}  // namespace allocmark::caching
