// What the rules about streams share: work on a stream, and simcuda's order check for a plugin's
// blocks. Order is judged by events, waits and synchronisation, never by time.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/tools/conformance/plugin.h"

namespace allocmark::conformance {

inline void work_on(Scene& scene, cudaStream_t stream) {
  constexpr std::uint64_t kKernelNs = 1'000'000;
  (void)scene.simcu.launch(stream, kKernelNs);
}

class OrderCheck {
 public:
  explicit OrderCheck(Scene& scene) : scene_(scene) { (void)scene.simcu.order_begin(); }
  ~OrderCheck() { scene_.simcu.order_end(); }
  OrderCheck(const OrderCheck&) = delete;
  OrderCheck& operator=(const OrderCheck&) = delete;

  // Text of what is missing where the block's memory is not ordered behind its former user, and
  // that is claimed.
  [[nodiscard]] std::optional<std::string> take(const Block& block) const {
    SimcuUnorderedUse former{};
    const SimcuBlock taken = described(block);
    const bool is_ordered = scene_.simcu.order_take(&taken, block.stream, &former) == 0;
    if (is_ordered || !scene_.claims.stream_ordered) return std::nullopt;
    if (former.missing == SIMCU_MISSING_ALLOCATION) {
      return text_of(block) + " got memory that the driver allocated on another stream";
    }
    constexpr const char* kMissing[] = {
        "no event was recorded after its free",
        "the last event was recorded before its free",
        "events were recorded after its free, on other streams only",
        "an event was recorded after its free, but nobody waited for it",
    };
    return fmt::format("{} got memory of request {}, whose stream may still use it: {}",
                       text_of(block), former.request, kMissing[former.missing]);
  }
  void give_back(const Block& block, std::vector<void*> streams) const {
    const SimcuBlock given = described(block);
    scene_.simcu.order_give_back(&given, streams.data(),
                                 static_cast<std::uint32_t>(streams.size()));
  }

 private:
  static SimcuBlock described(const Block& block) {
    return {.pointer = block.pointer,
            .size_bytes = block.size_bytes,
            .id = block.number,
            .request = block.number};
  }
  Scene& scene_;
};

}  // namespace allocmark::conformance
