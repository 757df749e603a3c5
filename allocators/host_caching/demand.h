// What a set of pinned buffers takes, all held at once. Sizes and settings flow in; bytes flow out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "allocators/caching/settings.h"

namespace allocmark::host_caching {

struct Buffers {
  std::uint64_t count = 0;       // 1 to kBuffersMax
  std::uint64_t size_bytes = 0;  // of each, at least 1
};

inline constexpr std::uint64_t kBuffersMax = 1'000'000;

// "5x1.20GiB" or "2.25GiB". Nothing where it is neither, or more than 2^62 bytes.
[[nodiscard]] std::optional<Buffers> parse_buffers(std::string_view text);

// Bytes that the program asks for.
[[nodiscard]] std::uint64_t asked_bytes(std::span<const Buffers> buffers);

struct PinnedNeed {
  std::uint64_t pinned_bytes = 0;          // the reserved segment, too
  std::vector<std::uint64_t> block_bytes;  // of one of each of the buffers
};
// What PyTorch pins: the cache itself serves each request, on a machine that only counts. The sum
// of the buffers is at most 2^62 bytes.
[[nodiscard]] PinnedNeed pinned_need(std::span<const Buffers> buffers,
                                     const caching::Settings& settings);

}  // namespace allocmark::host_caching
