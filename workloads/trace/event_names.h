// The words that trace files and reports use for event and tensor kinds, and the limits of the
// format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/trace/event.h"

namespace allocmark {

inline constexpr std::size_t kEventKindCount = 21;
inline constexpr std::size_t kTensorKindCount = 9;

// Limits of a valid trace. No device comes near them; a number beyond is a slip of the pen.
inline constexpr std::uint64_t kTraceSizeBytesEnd = std::uint64_t{1} << 60;  // sizes are below this
inline constexpr std::uint64_t kTraceLiveBytesEnd = std::uint64_t{1} << 63;  // so are their sums
inline constexpr std::uint32_t kTraceStreamCountMax = 4096;
inline constexpr std::size_t kTraceLabelCountMax = std::size_t{1} << 20;
inline constexpr std::size_t kTraceLabelLengthMax = 256;
// Of a file; readers take 200 bytes of memory for each.
inline constexpr std::size_t kTraceLiveCountMax = std::size_t{1} << 21;
// Private pools that are ever made, and their ids.
inline constexpr std::size_t kTracePoolCountMax = std::size_t{1} << 16;
inline constexpr std::uint64_t kTracePoolIdEnd = std::uint64_t{1} << 32;

// "alloc", "free", "record", "kernel", "busy", "sync", "empty_cache", "mark", "host",
// "pool_create", "pool_begin", "pool_end", "pool_release", "pool_on_oom", "pool_no_split",
// "capture_begin", "capture_end", "graph_replay", "host_alloc", "host_free", "host_record".
[[nodiscard]] std::string_view event_kind_name(EventKind kind);
// Also reads "trim" for "empty_cache".
[[nodiscard]] std::optional<EventKind> event_kind_from_name(std::string_view name);
[[nodiscard]] std::vector<std::string> event_kind_names();

// "unknown", "parameter", "gradient", "optimizer_state", "activation", "workspace", "kv_cache",
// "communication", "failed".
[[nodiscard]] std::string_view tensor_kind_name(TensorKind kind);
[[nodiscard]] std::optional<TensorKind> tensor_kind_from_name(std::string_view name);
[[nodiscard]] std::vector<std::string> tensor_kind_names();

}  // namespace allocmark
