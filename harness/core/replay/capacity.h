// What a capacity text means: "unlimited", an absolute size ("8GiB"), or a multiple of the trace's
// peak of live requested bytes ("1.05x"). By default a ballast holds back the rest of the device
// (harness/core/replay/ballast.h);
// "@limit" at the end leaves the device alone and lets the allocator's own limit enforce the
// capacity.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace allocmark {

enum class CapacityEnforcement : std::uint8_t { Ballast, AllocatorLimit };

struct Capacity {
  std::optional<std::uint64_t> size_bytes;  // absolute; nothing for unlimited and for multiples
  std::optional<double> peak_multiple;      // of the trace's peak of live requested bytes
  CapacityEnforcement enforcement = CapacityEnforcement::Ballast;

  [[nodiscard]] bool unlimited() const { return !size_bytes && !peak_multiple; }
  // The bytes meant, rounded up to whole device pages of 2 MiB; call it only where not unlimited.
  [[nodiscard]] std::uint64_t resolve_bytes(std::uint64_t requested_bytes_peak) const;
};

inline constexpr std::uint64_t kDevicePageBytes = std::uint64_t{2} << 20;

// Throws UsageError where the text is none of the forms above. Empty means unlimited.
[[nodiscard]] Capacity parse_capacity(std::string_view text);

}  // namespace allocmark
