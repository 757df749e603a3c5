// A fat binary: images of one program for several architectures, as they are or packed. In: where
// it begins. Out: what the first binary in it says, else the first PTX.
#pragma once

#include <cstdint>
#include <cstring>

#include "harness/simcuda/shim/code_facts.h"

namespace simcuda {

template <class T>
[[nodiscard]] T read_value(const unsigned char* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

inline constexpr std::uint32_t kFatMagic = 0xBA55ED50;
// Begins what __cudaRegisterFatBinary is given, which points to the fat binary.
inline constexpr std::uint32_t kFatWrapperMagic = 0x466243B1;

// Unread where every image is packed in another way than LZ4's and Zstandard's, or damaged; or
// packed by Zstandard, and its library (libzstd.so.1) is not there.
[[nodiscard]] CodeFacts read_fat_binary(const unsigned char* bytes);

}  // namespace simcuda
