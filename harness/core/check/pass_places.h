// The oracle of passes that nobody checks while they run: where each request was placed is kept,
// and looked at when the clock has stopped. Addresses and events of one pass flow in; the first
// rule that they broke flows out, with its event. This file checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/check/shadow_heap.h"
#include "harness/core/replay/prepared_trace.h"

namespace allocmark {

class PassPlaces {
 public:
  // Requests of a trace whose places are kept, at most: 128 MiB of addresses.
  static constexpr std::uint64_t kCountMax = std::uint64_t{16} << 20;

  // `places` has the address of each request, in order, null where it failed; of a pass that
  // stopped there are fewer than the trace has. The caller keeps it.
  PassPlaces(const std::vector<void*>& places, std::uint64_t alignment_bytes)
      : places_(places), heap_(alignment_bytes) {}

  // The next events; false where nothing more can be said.
  [[nodiscard]] bool run(const TraceBatch& batch);

  // As BrokenRule::text(); nothing where blocks are aligned and apart.
  [[nodiscard]] const std::optional<std::string>& broken() const { return broken_; }

 private:
  const std::vector<void*>& places_;
  ShadowHeap heap_;
  std::vector<std::optional<ShadowBlock>> blocks_;  // live, by slot
  std::optional<std::string> broken_;
  std::size_t request_count_ = 0;
  std::uint64_t event_count_ = 0;
};

}  // namespace allocmark
