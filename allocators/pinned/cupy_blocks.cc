// See cupy_blocks.h.
#include "allocators/pinned/cupy_blocks.h"

#include <utility>

#include "base/assert.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kStepBytes = 512;
constexpr std::uint64_t kLargestBytes = std::uint64_t{1} << 62;

}  // namespace

using host_caching::Address;
using host_caching::PinKind;

CupyBlocks::~CupyBlocks() {
  for (const Watched& each : watched_) driver_.destroy_event(each.event);
  for (const auto& [address, block] : blocks_) driver_.unpin(address, PinKind::HostAlloc);
}

Address CupyBlocks::allocate(std::uint64_t size_bytes) {
  take_passed();
  if (size_bytes == 0 || size_bytes > kLargestBytes) return 0;
  const std::uint64_t taken_bytes = (size_bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
  std::vector<Address>& free = free_[taken_bytes];
  Address address = 0;
  if (!free.empty()) {
    address = free.back();
    free.pop_back();
  } else {
    address = pin(taken_bytes);
    if (address == 0) return 0;
  }
  blocks_.at(address).holder_count = 1;
  held_bytes_ += taken_bytes;
  return address;
}

Address CupyBlocks::pin(std::uint64_t size_bytes) {
  Address address = driver_.pin(size_bytes, PinKind::HostAlloc, 1);
  if (address == 0) {
    free_all();
    address = driver_.pin(size_bytes, PinKind::HostAlloc, 1);
  }
  if (address == 0) return 0;
  ++pin_count_;
  blocks_[address] = {.size_bytes = size_bytes};
  return address;
}

void CupyBlocks::use(Address address, host_caching::Stream stream) {
  watched_.push_back({driver_.record_event(stream), address});
  ++blocks_.at(address).holder_count;
}

void CupyBlocks::free(Address address) {
  if (address != 0) let_go(address);
}

void CupyBlocks::free_all() {
  for (auto& [size_bytes, addresses] : free_) {
    for (const Address address : std::exchange(addresses, {})) {
      driver_.unpin(address, PinKind::HostAlloc);
      blocks_.erase(address);
    }
  }
}

void CupyBlocks::take_passed() {
  while (!watched_.empty() && driver_.event_done(watched_.front().event)) {
    const Watched done = watched_.front();
    watched_.pop_front();
    driver_.destroy_event(done.event);
    let_go(done.address);
  }
}

void CupyBlocks::let_go(Address address) {
  Block& block = blocks_.at(address);
  ALLOCMARK_ASSERT(block.holder_count > 0);
  if (--block.holder_count > 0) return;
  held_bytes_ -= block.size_bytes;
  free_[block.size_bytes].push_back(address);
}

}  // namespace allocmark
