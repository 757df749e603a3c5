// See fixed_size.h.
#include "allocators/rmm/fixed_size.h"

#include <algorithm>

namespace allocmark::rmm {

namespace {

// RMM's default, also of bins.
constexpr std::uint64_t kBinBlockCount = 128;

}  // namespace

std::optional<std::uint64_t> FixedList::take(std::uint64_t /*size_bytes*/) {
  if (addresses_.empty()) return std::nullopt;
  const std::uint64_t address = addresses_.front();
  addresses_.pop_front();
  return address;
}

void FixedList::join(FixedList&& other) {
  addresses_.insert(addresses_.end(), other.addresses_.begin(), other.addresses_.end());
  other.addresses_.clear();
}

bool FixedSize::open() {
  StreamLists<FixedList>::One& first = lists_.of(0);
  first.is_listed = true;
  return grow(0, &first.free);
}

std::optional<std::uint64_t> FixedSize::allocate(std::uint64_t size_bytes, caching::Stream stream) {
  (void)lists_.of(stream);  // the order of streams counts requests that are refused, too
  if (size_bytes > options_.block_bytes) return std::nullopt;
  return lists_.take(size_bytes, stream, [&](FixedList& blocks) { return grow(stream, &blocks); });
}

void FixedSize::deallocate(std::uint64_t address, std::uint64_t /*size_bytes*/,
                           caching::Stream stream) {
  lists_.list_for_free(stream).push(address);
}

bool FixedSize::grow(caching::Stream stream, FixedList* blocks) {
  const auto first = upstream_.allocate(options_.block_bytes * options_.block_count, stream);
  if (!first) return false;
  for (std::uint64_t i = 0; i < options_.block_count; ++i)
    blocks->push(*first + i * options_.block_bytes);
  return true;
}

std::uint64_t FixedSize::free_count(caching::Stream stream) const {
  const FixedList* const blocks = lists_.list_of(stream);
  return blocks == nullptr ? 0 : blocks->count();
}

std::uint64_t FixedSize::free_bytes(caching::Stream stream) const {
  return free_count(stream) * options_.block_bytes;
}

std::uint64_t FixedSize::free_bytes_largest(caching::Stream stream) const {
  return free_count(stream) > 0 ? options_.block_bytes : 0;
}

Binning::Binning(const Site& site, Resource& upstream, Exponents exponents, bool records_joins)
    : upstream_(upstream) {
  for (std::uint32_t exponent = exponents.least; exponent <= exponents.most; ++exponent) {
    const std::uint64_t block_bytes = std::uint64_t{1} << exponent;
    bins_[block_bytes] =
        std::make_unique<FixedSize>(site, upstream,
                                    FixedSizeOptions{.block_bytes = block_bytes,
                                                     .block_count = kBinBlockCount,
                                                     .records_joins = records_joins});
  }
}

bool Binning::open() {
  return std::ranges::all_of(bins_, [](const auto& bin) { return bin.second->open(); });
}

Resource& Binning::of(std::uint64_t size_bytes) const {
  const auto found = bins_.lower_bound(size_bytes);
  return found == bins_.end() ? upstream_ : *found->second;
}

std::optional<std::uint64_t> Binning::allocate(std::uint64_t size_bytes, caching::Stream stream) {
  return of(size_bytes).allocate(size_bytes, stream);
}

void Binning::deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) {
  of(size_bytes).deallocate(address, size_bytes, stream);
}

std::uint64_t Binning::taken_bytes(std::uint64_t size_bytes) const {
  return of(size_bytes).taken_bytes(size_bytes);
}

std::uint64_t Binning::free_bytes(caching::Stream stream) const {
  std::uint64_t sum_bytes = upstream_.free_bytes(stream);
  for (const auto& [block_bytes, bin] : bins_) sum_bytes += bin->free_bytes(stream);
  return sum_bytes;
}

std::uint64_t Binning::free_bytes_largest(caching::Stream stream) const {
  std::uint64_t largest_bytes = upstream_.free_bytes_largest(stream);
  for (const auto& [block_bytes, bin] : bins_)
    largest_bytes = std::max(largest_bytes, bin->free_bytes_largest(stream));
  return largest_bytes;
}

}  // namespace allocmark::rmm
