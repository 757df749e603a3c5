// A fingerprint of where every allocation landed, in order and relative to the first one: two runs
// with the same fingerprint made the same decisions. Places in the host's memory are the kernel's
// and differ from run to run, so of these it has only which requests failed. Cheap enough for timed
// passes (a few ns per allocation, outside the clock).
#pragma once

#include <cstdint>

#include "allocators/backend/backend.h"

namespace allocmark {

class PlacementHash {
 public:
  PlacementHash() = default;
  explicit PlacementHash(MemorySide side) : kept_bits_(side == MemorySide::Host ? 0 : ~0ull) {}

  void add(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address == 0) {
      fold(kNullWord);
      return;
    }
    if (first_address_ == 0) first_address_ = address;
    fold((address - first_address_) & kept_bits_);
  }
  void add_failure() { fold(kFailureWord); }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  // Offsets are multiples of the alignment or small; these odd words are none.
  static constexpr std::uint64_t kNullWord = 0x6E756C6C6E756C6Du;
  static constexpr std::uint64_t kFailureWord = 0x6661696C6661696Du;

  void fold(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9E3779B97F4A7C15u;
    value_ ^= value_ >> 32;
  }

  std::uint64_t value_ = 0xCBF29CE484222325u;
  std::uint64_t kept_bits_ = ~std::uint64_t{0};  // of an offset
  std::uint64_t first_address_ = 0;  // other than null: what offsets are relative to; 0 before it
};

}  // namespace allocmark
