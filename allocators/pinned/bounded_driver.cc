// See bounded_driver.h.
#include "allocators/pinned/bounded_driver.h"

#include "base/assert.h"

namespace allocmark {

using host_caching::Address;
using host_caching::PinKind;

Address BoundedDriver::pin(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  if (!budget_.take(size_bytes)) return 0;
  Address address = 0;
  try {
    address = cuda_.pin(size_bytes, kind, thread_count);
  } catch (...) {
    budget_.give_back(size_bytes);
    throw;
  }
  if (address == 0) {
    budget_.give_back(size_bytes);
    return 0;
  }
  ++pin_count_;
  sizes_bytes_[address] = size_bytes;
  return address;
}

void BoundedDriver::unpin(Address address, PinKind kind) {
  const auto found = sizes_bytes_.find(address);
  ALLOCMARK_ASSERT(found != sizes_bytes_.end());
  cuda_.unpin(address, kind);
  ++unpin_count_;
  budget_.give_back(found->second);
  sizes_bytes_.erase(found);
}

}  // namespace allocmark
