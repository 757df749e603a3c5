// RMM's fixed_size_memory_resource and binning_memory_resource: blocks of one size, and a choice
// among such by the size of the request. Requests flow in, addresses flow out; memory comes from
// another resource. Not thread-safe.
//
// Each stream has a queue of free blocks (stream_lists.h), of which requests take the first. Where
// none has a block, as many as at the start come from the resource below, in one piece. They stay
// until the end. A request above the size fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "allocators/rmm/resource.h"
#include "allocators/rmm/stream_lists.h"

namespace allocmark::rmm {

// Free blocks of one size, the first freed first.
class FixedList {
 public:
  void push(std::uint64_t address) { addresses_.push_back(address); }
  [[nodiscard]] bool fits(std::uint64_t /*size_bytes*/) const { return !addresses_.empty(); }
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes);
  void join(FixedList&& other);
  [[nodiscard]] std::size_t count() const { return addresses_.size(); }

 private:
  std::deque<std::uint64_t> addresses_;
};

struct FixedSizeOptions {
  std::uint64_t block_bytes = 0;  // a multiple of 256
  std::uint64_t block_count = 0;  // at the start, and at each growth
  bool records_joins = false;     // since 26.10
};

class FixedSize final : public Resource {
 public:
  // `upstream` must outlive it.
  FixedSize(const Site& site, Resource& upstream, const FixedSizeOptions& options)
      : upstream_(upstream), options_(options), lists_(site, options.records_joins) {}

  [[nodiscard]] bool open() override;
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) override;
  void deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) override;

  [[nodiscard]] std::uint64_t taken_bytes(std::uint64_t) const override {
    return options_.block_bytes;
  }
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream stream) const override;
  [[nodiscard]] std::uint64_t free_bytes_largest(caching::Stream stream) const override;

 private:
  [[nodiscard]] bool grow(caching::Stream stream, FixedList* blocks);
  [[nodiscard]] std::uint64_t free_count(caching::Stream stream) const;

  Resource& upstream_;
  const FixedSizeOptions options_;
  StreamLists<FixedList> lists_;
};

// A request gets the smallest of the sizes that fits. Above all of them the resource below serves.
class Binning final : public Resource {
 public:
  struct Exponents {
    std::uint32_t least = 0, most = 0;  // bins of 2^least to 2^most bytes
  };
  // `upstream` must outlive it.
  Binning(const Site& site, Resource& upstream, Exponents exponents, bool records_joins);

  [[nodiscard]] bool open() override;
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) override;
  void deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) override;

  [[nodiscard]] std::uint64_t taken_bytes(std::uint64_t size_bytes) const override;
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream stream) const override;
  [[nodiscard]] std::uint64_t free_bytes_largest(caching::Stream stream) const override;

 private:
  [[nodiscard]] Resource& of(std::uint64_t size_bytes) const;

  Resource& upstream_;
  std::map<std::uint64_t, std::unique_ptr<FixedSize>> bins_;  // by size in bytes
};

}  // namespace allocmark::rmm
