// How much the checked pass looks at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace allocmark {

enum class VerifyLevel : std::uint8_t {
  Off,    // no rules; peaks and OOM causes only
  Edges,  // addresses and order of every block; contents at the ends of the first blocks and of
          // some
  Whole,  // also the whole contents of every block, at its free and now and then before, and reuse
          // too early for kernels that end by themselves; takes long
};

// Which part of the check one replay does. Looking into blocks is work in the program's streams,
// and so is asking them how far they are; an allocator that watches its streams then decides
// otherwise. So figures come from a replay without it.
enum class VerifyPart : std::uint8_t {
  All,
  Figures,   // peaks, causes, rules about addresses and order: nothing that the streams see
  Contents,  // what blocks hold, and on a GPU reuse while in use; collects no figures
};

inline constexpr std::array<std::string_view, 3> kVerifyLevelNames = {"off", "edges", "whole"};

[[nodiscard]] constexpr std::string_view to_string(VerifyLevel level) {
  return kVerifyLevelNames[static_cast<std::size_t>(level)];
}

[[nodiscard]] constexpr std::optional<VerifyLevel> parse_verify_level(std::string_view text) {
  for (std::size_t i = 0; i < kVerifyLevelNames.size(); ++i) {
    if (kVerifyLevelNames[i] == text) return static_cast<VerifyLevel>(i);
  }
  return std::nullopt;
}

}  // namespace allocmark
