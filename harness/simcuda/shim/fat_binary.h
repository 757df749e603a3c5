// A fat binary: images of one program for several architectures, as they are or packed. In: where
// it begins. Out: what the first binary in it says, else the first PTX.
#pragma once

#include <cstring>

#include "harness/simcuda/shim/code_facts.h"

namespace simcuda {

template <class T>
[[nodiscard]] T read_value(const unsigned char* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

// Unread where every image is packed in another way than LZ4's, or damaged.
[[nodiscard]] CodeFacts read_fat_binary(const unsigned char* bytes);

}  // namespace simcuda
