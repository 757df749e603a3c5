// First fit offline: blocks in some order, each at the lowest offset that is free while it lives.
// In: blocks, an order. Out: offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "allocators/packing/occupied.h"
#include "allocators/packing/packing.h"

namespace allocmark {

struct PackOrder {
  std::string_view name;  // "size"
  std::vector<std::uint32_t> blocks;
};

class OrderMaker;

// Large before small, long before short, and the like. Made when asked for: most programs need one.
class PackOrders {
 public:
  // The blocks must outlive it.
  explicit PackOrders(std::span<const BlockLife> blocks);
  PackOrders(const PackOrders&) = delete;
  PackOrders& operator=(const PackOrders&) = delete;
  ~PackOrders();
  // Nothing after the last.
  [[nodiscard]] std::optional<PackOrder> next();

 private:
  std::unique_ptr<OrderMaker> maker_;
  std::size_t made_count_ = 0;
};

// Those in which an exact search finds packings soon.
[[nodiscard]] std::vector<PackOrder> search_orders(std::span<const BlockLife> blocks);

// Packs the same blocks in many orders.
class FirstFit {
 public:
  // The blocks must outlive it.
  explicit FirstFit(std::span<const BlockLife> blocks);
  // `height_limit_bytes`: given up, with a greater height and no offsets, once a block ends above.
  [[nodiscard]] BlockPacking pack(std::span<const std::uint32_t> order,
                                  std::uint64_t height_limit_bytes = ~std::uint64_t{0});

 private:
  std::span<const BlockLife> blocks_;
  std::vector<SectionRange> sections_;  // by block
  Occupied occupied_;
};

}  // namespace allocmark
