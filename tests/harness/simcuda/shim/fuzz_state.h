// What the fuzzer's threads share: handles of every kind, which any of them uses, destroys twice,
// or mixes up. Flows in: a seed; flows out: handles, most of them good.
#pragma once

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <utility>

namespace fuzz {

inline constexpr std::size_t kHostBytes = std::size_t{64} << 10;

// A few handles of one kind. A thread that takes one may leave it there for the next.
class Handles {
 public:
  // What lay in its place before; 0: nothing.
  std::uint64_t put(std::uint64_t value, std::mt19937_64& random) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(values_[random() % values_.size()], value);
  }
  // All of them, for the end.
  std::array<std::uint64_t, 24> drain() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(values_, {});
  }
  std::uint64_t get(std::mt19937_64& random, bool take) {
    const std::scoped_lock lock(mutex_);
    std::uint64_t& value = values_[random() % values_.size()];
    return take ? std::exchange(value, 0) : value;
  }

 private:
  std::mutex mutex_;
  std::array<std::uint64_t, 24> values_{};
};

struct Shared {
  Handles blocks, pinned, streams, events, pools, memory_handles, ranges, event_sets;
  Handles graphs, nodes, execs;
  std::mutex contents;                   // the bytes of device memory are the program's to guard
  std::atomic<std::uint64_t> gate{1};    // each is opened by who closed it
  std::atomic<std::uint64_t> served{0};  // requests for device memory
  std::atomic<std::uint64_t> told{0};    // to watches and host functions
};

// One thread's view.
class State {
 public:
  State(Shared* shared, std::uint64_t seed) : shared_(shared), random_(seed) {}

  [[nodiscard]] Shared& shared() { return *shared_; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  [[nodiscard]] std::uint64_t below(std::uint64_t count) { return random_() % count; }
  [[nodiscard]] bool one_in(std::uint64_t count) { return below(count) == 0; }
  [[nodiscard]] std::byte* host() { return host_->data(); }
  // Small ones and large ones, and now and then one that nothing has room for.
  [[nodiscard]] std::uint64_t size() {
    if (one_in(50)) return one_in(2) ? 0 : ~std::uint64_t{0} >> below(64);
    return below(std::uint64_t{1} << (1 + below(28)));
  }
  // A number that no enumerator has, now and then.
  [[nodiscard]] int word(int count) {
    return one_in(20) ? static_cast<int>(random_()) : static_cast<int>(below(count));
  }

  // A handle that may be used up, of another kind, or none at all.
  [[nodiscard]] std::uint64_t any(Handles& kind, bool take = false) {
    if (one_in(40)) return garbage(kind.get(random_, false));
    if (one_in(40)) {
      Handles* const others[] = {&shared_->blocks,         &shared_->streams, &shared_->events,
                                 &shared_->memory_handles, &shared_->ranges,  &shared_->pools,
                                 &shared_->graphs,         &shared_->nodes,   &shared_->execs};
      return others[below(std::size(others))]->get(random_, false);
    }
    return kind.get(random_, take && !one_in(8));
  }
  template <class Handle>
  [[nodiscard]] Handle as(Handles& kind, bool take = false) {
    return reinterpret_cast<Handle>(any(kind, take));
  }

 private:
  [[nodiscard]] std::uint64_t garbage(std::uint64_t value) {
    const std::uint64_t values[] = {
        0,        1, 2, 3, 512, value + 8, value - 512, ~std::uint64_t{0}, std::uint64_t{1} << 47,
        random_()};
    return values[below(std::size(values))];
  }

  Shared* shared_;
  std::mt19937_64 random_;
  std::unique_ptr<std::array<std::byte, kHostBytes>> host_ =
      std::make_unique<std::array<std::byte, kHostBytes>>();
};

struct Step {
  const char* name;
  int weight;
  void (*perform)(State&);
};
[[nodiscard]] std::span<const Step> memory_steps();
[[nodiscard]] std::span<const Step> mapping_steps();
[[nodiscard]] std::span<const Step> order_steps();
[[nodiscard]] std::span<const Step> question_steps();
[[nodiscard]] std::span<const Step> graph_steps();

// The driver's and NVML's functions are not in the library that the linker is given.
template <class Function>
[[nodiscard]] Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}
#define FUZZ_FIND(name) (::fuzz::find<decltype(name)>(#name))

}  // namespace fuzz
