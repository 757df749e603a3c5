// Byte sizes as people write and read them. Binary units only: 1 KiB = 1024 B.
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

// "8GiB", "512 MiB", "1.5g", "4096", "4096B": bytes; nothing where the text is no size or
// overflows. K, KB and KiB all mean 1024 (as in PyTorch's and CUDA's own texts).
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

// "1.50 GiB", "512 B": three significant places, for people; never parse it back.
[[nodiscard]] std::string format_bytes(std::uint64_t size_bytes);

}  // namespace allocmark
