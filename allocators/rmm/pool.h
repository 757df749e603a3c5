// RMM's pool_memory_resource: which block a request gets, and when the pool grows. Requests flow
// in, addresses flow out; memory comes from another resource. Not thread-safe.
//
// Requests are rounded up to 256 B and served from the lists of stream_lists.h. Where no list has a
// block, the pool grows: by its own size, or by half of what a maximum leaves it; half as much
// where the resource below refuses, down to the request.
//
// Since 26.10 (rmm 2470) a request that a maximum refuses first gives memory of the device back
// that is free as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "allocators/rmm/coalescing_list.h"
#include "allocators/rmm/resource.h"
#include "allocators/rmm/stream_lists.h"

namespace allocmark::rmm {

struct PoolOptions {
  std::uint64_t initial_bytes = 0;                        // a multiple of 256
  std::optional<std::uint64_t> bytes_max = std::nullopt;  // a multiple of 256; nothing: no maximum
  bool reclaims = false;                                  // since 26.10
  bool records_joins = false;                             // since 26.10
};

class Pool final : public Resource {
 public:
  // `upstream` must outlive it.
  Pool(const Site& site, Resource& upstream, const PoolOptions& options)
      : site_(site), upstream_(upstream), options_(options), lists_(site, options.records_joins) {}

  // Takes the initial size, for the default stream.
  [[nodiscard]] bool open() override;
  // Blocks the host only where the resource below does, and where memory goes back to make room.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) override;
  void deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) override;

  [[nodiscard]] std::uint64_t taken_bytes(std::uint64_t size_bytes) const override;
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream stream) const override;
  [[nodiscard]] std::uint64_t free_bytes_largest(caching::Stream stream) const override;

 private:
  [[nodiscard]] bool grow(std::uint64_t size_bytes, caching::Stream stream, CoalescingList* blocks);
  [[nodiscard]] std::uint64_t growth_for(std::uint64_t size_bytes) const;
  struct Growth {
    std::uint64_t try_bytes = 0;
    std::uint64_t least_bytes = 0;
  };
  [[nodiscard]] bool take_from_upstream(Growth growth, caching::Stream stream,
                                        CoalescingList* blocks);
  void reclaim(std::uint64_t size_bytes, caching::Stream stream);
  [[nodiscard]] CoalescingList* list_with_whole(std::uint64_t address, std::uint64_t size_bytes);

  const Site site_;
  Resource& upstream_;
  const PoolOptions options_;
  StreamLists<CoalescingList> lists_;
  std::map<std::uint64_t, std::uint64_t> pieces_;  // of the resource below: bytes, by address
  std::uint64_t pool_bytes_ = 0;                   // their sum
};

}  // namespace allocmark::rmm
