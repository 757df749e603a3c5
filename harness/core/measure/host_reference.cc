// See host_reference.h. A small allocator of its own, since the ones under test change with the
// project and the reference must not: a number is comparable as long as this file is as it was.
#include "harness/core/measure/host_reference.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/assert.h"
#include "base/median.h"
#include "base/random.h"
#include "harness/core/measure/quiet_cpu.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kRequestCount = 1000;
constexpr std::uint32_t kLiveCount = 256;
constexpr std::uint32_t kNewCount = 5;
// After so many times a program is known; the least of them counts.
constexpr std::uint32_t kKnownLeastCount = 24;
constexpr std::uint32_t kQuietTryCount = 6;
constexpr std::uint64_t kHeapBytes = std::uint64_t{1} << 36;
constexpr std::uint64_t kGranularityBytes = 512;
// Of all places that the known program hands out: the same work on every machine. Numbers of two
// versions with another sum here are not comparable.
constexpr std::uint64_t kChecksum = 0xf6d0bf8014385e00U;

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  bool is_free = false;
  Block* before = nullptr;  // neighbours in the address space
  Block* after = nullptr;
};

struct BestFit {
  bool operator()(const Block* a, const Block* b) const {
    if (a->size_bytes != b->size_bytes) return a->size_bytes < b->size_bytes;
    return a->address < b->address;
  }
};

// Best fit over one address space, with its blocks split and merged.
class Heap {
 public:
  Heap() {
    auto* whole = new Block{.address = 0, .size_bytes = kHeapBytes, .is_free = true};
    free_.insert(whole);
  }
  // All that was handed out was given back, so one block is left.
  ~Heap() {
    for (const Block* block : free_) delete block;
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  std::uint64_t allocate(std::uint64_t size_bytes) {
    const Block key{.size_bytes = size_bytes};
    const auto found = free_.lower_bound(const_cast<Block*>(&key));
    Block* const block = *found;
    free_.erase(found);
    block->is_free = false;
    if (block->size_bytes > size_bytes) split(block, size_bytes);
    used_.emplace(block->address, block);
    return block->address;
  }

  void deallocate(std::uint64_t address) {
    const auto found = used_.find(address);
    Block* const block = found->second;
    used_.erase(found);
    if (block->before != nullptr && block->before->is_free) take(block, block->before);
    if (block->after != nullptr && block->after->is_free) take(block, block->after);
    block->is_free = true;
    free_.insert(block);
  }

 private:
  void split(Block* block, std::uint64_t size_bytes) {
    auto* rest = new Block{.address = block->address + size_bytes,
                           .size_bytes = block->size_bytes - size_bytes,
                           .is_free = true,
                           .before = block,
                           .after = block->after};
    if (rest->after != nullptr) rest->after->before = rest;
    block->after = rest;
    block->size_bytes = size_bytes;
    free_.insert(rest);
  }

  // Adds a free neighbour to the block.
  void take(Block* block, Block* neighbour) {
    free_.erase(neighbour);
    if (neighbour == block->before) {
      block->address = neighbour->address;
      block->before = neighbour->before;
      if (block->before != nullptr) block->before->after = block;
    } else {
      block->after = neighbour->after;
      if (block->after != nullptr) block->after->before = block;
    }
    block->size_bytes += neighbour->size_bytes;
    delete neighbour;
  }

  std::set<Block*, BestFit> free_;
  std::unordered_map<std::uint64_t, Block*> used_;
};

// Of one request with its free.
template <typename Work>
double request_ns(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  return passed.count() / kRequestCount;
}

}  // namespace

class HostReference::Program {
 public:
  explicit Program(std::uint64_t seed) {
    Random random(seed);
    for (Request& request : requests_) {
      // Powers of two with some noise, as tensors have.
      const std::uint64_t size_bytes = kGranularityBytes << random.below(16);
      request.size_bytes = size_bytes + random.below(4) * kGranularityBytes;
      request.place = static_cast<std::uint32_t>(random.below(kLiveCount));
    }
  }

  // Each request takes the place of a block that is freed first. Returns what can be checked.
  std::uint64_t run() {
    Heap heap;
    std::array<std::uint64_t, kLiveCount> live{};
    live.fill(kNone);
    std::uint64_t sum = 0;
    for (const Request& request : requests_) {
      std::uint64_t& place = live[request.place];
      if (place != kNone) heap.deallocate(place);
      place = heap.allocate(request.size_bytes);
      sum = sum * 31 + place;
    }
    for (const std::uint64_t address : live) {
      if (address != kNone) heap.deallocate(address);
    }
    return sum;
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  struct Request {
    std::uint64_t size_bytes = 0;
    std::uint32_t place = 0;
  };
  std::vector<Request> requests_ = std::vector<Request>(kRequestCount);
};

HostReference::HostReference() : known_(std::make_unique<Program>(1)) {}
HostReference::~HostReference() = default;

double HostReference::known_ns() {
  return request_ns([this] { ALLOCMARK_ASSERT(known_->run() == kChecksum); });
}

double HostReference::new_ns() {
  Program program(++seed_);
  return request_ns([&] { ALLOCMARK_ASSERT(program.run() != 0); });
}

double HostReference::least_known_ns() {
  double least_ns = std::numeric_limits<double>::infinity();
  for (std::uint32_t i = 0; i < kKnownLeastCount; ++i) least_ns = std::min(least_ns, known_ns());
  return least_ns;
}

double HostReference::measure_ns() {
  std::vector<double> times;
  for (std::uint32_t i = 0; i < kNewCount; ++i) times.push_back(new_ns());
  const double time_ns = median(std::move(times));
  if (practice_ == 0) practice_ = std::sqrt(least_known_ns() / time_ns);
  return time_ns * practice_;
}

double HostReference::measure_quiet_ns() {
  const QuietCpu quiet_cpu;
  double least_ns = std::numeric_limits<double>::infinity();
  for (std::uint32_t i = 0; i < kQuietTryCount; ++i) {
    quiet_cpu.move();
    practice_ = 0;
    least_ns = std::min(least_ns, measure_ns());
  }
  return least_ns;
}

}  // namespace allocmark
