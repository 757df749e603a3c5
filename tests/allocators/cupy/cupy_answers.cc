// Reads what CuPy's own pool did with random operations (cupy_live_test.py writes it), does the
// same on cupy::Heap, and names the first answer that differs. Exit code 1 then.
//
// Lines: "limit BYTES" starts a pool. "alloc STREAM BYTES ADDRESS", "free ADDRESS" and "flush" are
// operations; ADDRESS 0 is out of memory. Before each come "take BYTES ADDRESS" and "give ADDRESS",
// what it asked of the device. "state TOTAL USED FREE_COUNT" follows it.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocators/cupy/heap.h"

namespace allocmark::cupy {
namespace {

struct Take {
  std::uint64_t size_bytes = 0, address = 0;
};

// Answers as the device of the original did.
class LoggedSource final : public Source {
 public:
  std::optional<std::uint64_t> take(std::uint64_t size_bytes) override {
    if (takes.empty() || takes.front().size_bytes != size_bytes) {
      other_take = true;
      return std::nullopt;
    }
    const std::uint64_t address = takes.front().address;
    takes.pop_front();
    return address == 0 ? std::nullopt : std::optional(address);
  }
  void give(std::uint64_t address) override { given.push_back(address); }

  std::deque<Take> takes;            // of the original, still to come
  std::vector<std::uint64_t> given;  // by the heap
  bool other_take = false;
};

class Comparison {
 public:
  // What differs; empty where nothing does.
  std::string line(const std::string& word) {
    if (word == "limit") {
      heap_.reset();
      source_ = {};
      heap_ = std::make_unique<Heap>(source_, number());
    } else if (word == "take") {
      const std::uint64_t size_bytes = number();
      source_.takes.push_back({size_bytes, number()});
    } else if (word == "give") {
      given_.push_back(number());
    } else if (word == "state") {
      return state();
    } else {
      return operation(word);
    }
    return {};
  }
  [[nodiscard]] std::uint64_t operation_count() const { return operation_count_; }
  [[nodiscard]] std::uint64_t refusal_count() const { return refusal_count_; }

 private:
  static std::uint64_t number() {
    std::uint64_t value = 0;
    std::cin >> value;
    return value;
  }

  std::string operation(const std::string& word) {
    ++operation_count_;
    std::string difference;
    if (word == "alloc") {
      Request request{.stream = number()};
      request.size_bytes = number();
      const std::uint64_t wanted = number();
      request.wanted_address = wanted;
      const std::uint64_t got = heap_->allocate(request).value_or(0);
      refusal_count_ += wanted == 0 ? 1 : 0;
      if (got != wanted) {
        difference = "alloc of " + std::to_string(request.size_bytes) + ": original " +
                     std::to_string(wanted) + ", ours " + std::to_string(got);
      }
    } else if (word == "free") {
      if (!heap_->deallocate(number())) difference = "free: ours does not know the address";
    } else {
      heap_->free_all_blocks();
    }
    std::ranges::sort(given_);
    std::ranges::sort(source_.given);
    if (source_.other_take || !source_.takes.empty()) difference += " asks the device otherwise";
    if (given_ != source_.given) difference += " gives back otherwise";
    given_.clear();
    source_.given.clear();
    return difference;
  }

  std::string state() {
    const std::uint64_t total = number(), used = number(), free_count = number();
    const HeapCounters& counters = heap_->counters();
    if (total == counters.total_bytes && used == counters.used_bytes &&
        free_count == heap_->free_count()) {
      return {};
    }
    return "total, used, free count: original " + std::to_string(total) + ", " +
           std::to_string(used) + ", " + std::to_string(free_count) + "; ours " +
           std::to_string(counters.total_bytes) + ", " + std::to_string(counters.used_bytes) +
           ", " + std::to_string(heap_->free_count());
  }

  LoggedSource source_;
  std::unique_ptr<Heap> heap_;
  std::vector<std::uint64_t> given_;  // by the original
  std::uint64_t operation_count_ = 0, refusal_count_ = 0;
};

int run() {
  Comparison comparison;
  std::string word;
  while (std::cin >> word) {
    const std::string difference = comparison.line(word);
    if (difference.empty()) continue;
    std::cout << "operation " << comparison.operation_count() << ": " << difference << '\n';
    return 1;
  }
  std::cout << comparison.operation_count() << " operations, " << comparison.refusal_count()
            << " refusals, 0 differences\n";
  return comparison.operation_count() == 0 ? 1 : 0;
}

}  // namespace
}  // namespace allocmark::cupy

int main() { return allocmark::cupy::run(); }
