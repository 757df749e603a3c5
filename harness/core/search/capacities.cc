// First a bisection, then what it left open above its answer is settled from the top.
#include "harness/core/search/capacities.h"

#include <algorithm>
#include <vector>

#include "harness/core/replay/capacity.h"

namespace allocmark {
namespace {

std::uint64_t pages_up(std::uint64_t size_bytes) {
  return (size_bytes + kDevicePageBytes - 1) / kDevicePageBytes * kDevicePageBytes;
}

class LeastCapacityFinder {
 public:
  LeastCapacityFinder(const LeastCapacityInput& input,
                      const std::function<Probe(std::uint64_t)>& probe)
      : input_(input), probe_(probe) {}

  LeastCapacity run() {
    const Probe whole = ask(input_.usable_bytes);
    if (!whole.serves || input_.needed_bytes > input_.usable_bytes) return {};
    LeastCapacity least;
    least.least_bytes = bisect(pages_up(whole.range.low_bytes));
    settle(&least);
    return least;
  }

 private:
  Probe ask(std::uint64_t capacity_bytes) {
    const Probe found = probe_(capacity_bytes);
    if (found.serves) served_.push_back(found.range);
    return found;
  }

  // Between a capacity that fails and one that serves.
  std::uint64_t bisect(std::uint64_t serves_bytes) {
    std::uint64_t open_bytes = std::min(pages_up(input_.needed_bytes), serves_bytes);
    while (open_bytes < serves_bytes) {
      const std::uint64_t page_count = (serves_bytes - open_bytes) / kDevicePageBytes;
      const std::uint64_t middle_bytes = open_bytes + page_count / 2 * kDevicePageBytes;
      const Probe found = ask(middle_bytes);
      if (found.serves) {
        serves_bytes = std::min(middle_bytes, pages_up(found.range.low_bytes));
      } else {
        open_bytes = std::max(middle_bytes + kDevicePageBytes, pages_up(found.range.high_bytes));
        // Beyond what serves: not monotone, which settle() finds.
        open_bytes = std::min(open_bytes, serves_bytes);
      }
    }
    return serves_bytes;
  }

  // Goes down from the top over what is known to serve; null where that reaches the answer.
  std::optional<std::uint64_t> highest_open(std::uint64_t least_bytes) const {
    std::uint64_t known_bytes = input_.usable_bytes + kDevicePageBytes;
    for (bool moved = true; moved && known_bytes > least_bytes;) {
      moved = false;
      for (const SettledRange& range : served_) {
        if (range.high_bytes >= known_bytes && pages_up(range.low_bytes) < known_bytes) {
          known_bytes = pages_up(range.low_bytes);
          moved = true;
        }
      }
    }
    if (known_bytes <= least_bytes) return std::nullopt;
    return known_bytes - kDevicePageBytes;
  }

  void settle(LeastCapacity* least) {
    for (std::uint32_t count = 0;; ++count) {
      const std::optional<std::uint64_t> open = highest_open(*least->least_bytes);
      if (!open) return;
      if (input_.settle_count_max != 0 && count == input_.settle_count_max) {
        least->unsettled_bytes = *open + kDevicePageBytes - *least->least_bytes;
        return;
      }
      const Probe found = ask(*open);
      if (found.serves) continue;
      least->serves_below_bytes = least->least_bytes;
      least->least_bytes = std::max(*open + kDevicePageBytes, pages_up(found.range.high_bytes));
      least->least_bytes = std::min(*least->least_bytes, *open + kDevicePageBytes);
    }
  }

  const LeastCapacityInput& input_;
  const std::function<Probe(std::uint64_t)>& probe_;
  std::vector<SettledRange> served_;
};

}  // namespace

LeastCapacity find_least_capacity(const LeastCapacityInput& input,
                                  const std::function<Probe(std::uint64_t)>& probe) {
  return LeastCapacityFinder(input, probe).run();
}

}  // namespace allocmark
