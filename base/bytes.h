// Byte sizes as people write and read them. 1 KiB = 1024 B and 1 kB = 1000 B, never one for the
// other, and a size has a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace allocmark {

inline constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;

// "8GiB", "512 MiB", "24GB", "4096B": bytes; nothing where the text is no size, has no unit, has
// one with two meanings (24g, 24Gb), or overflows. B, KiB, MiB, GiB, TiB (powers of 1024) and kB,
// KB, MB, GB, TB (powers of 1000) are units, with just these capitals.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

// As parse_bytes, and a number alone is bytes: for flags and keys whose name says bytes.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes_or_count(std::string_view text);

// Why parse_bytes refuses the text, for a message: "'24g' may be 24GiB (2^30 bytes each) or 24GB
// (10^9)", "24 has no unit: 24GiB or 24B"; empty where the text is no number with letters at all.
[[nodiscard]] std::string explain_bytes(std::string_view text);

// "1.50 GiB", "512 B": three significant places, for people; never parse it back.
[[nodiscard]] std::string format_bytes(std::uint64_t size_bytes);

}  // namespace allocmark
