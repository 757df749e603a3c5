// Who used which memory last, on which streams, and whether the next user comes after that. Blocks
// that a program takes and gives back flow in, and what the driver's pools do with their memory;
// uses that nothing orders before the next one flow out. Exact: it asks HappensBefore, never the
// time. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "harness/simcuda/order/happens_before.h"

namespace simcuda::order {

// A piece of memory by its place in the device: an address, or a place in a handle that is mapped
// at an address.
struct Piece {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
};

// A block of the program, by its numbers.
struct Owner {
  std::uint64_t id = 0;
  std::uint64_t request = 0;
};

// What would have ordered the two users.
enum class Missing : std::uint8_t {
  AnyEvent,    // nothing was recorded after the use
  LaterEvent,  // the stream's last event was recorded before the use was over
  RightEvent,  // events were recorded after it, on other streams only
  Wait,        // an event was recorded after it, which neither the host nor the new stream awaited
  Allocation,  // the driver gave the memory to another stream, which the new one does not follow
};

struct UnorderedUse {
  Owner owner;  // of the former block; nobody where `missing` is Allocation
  std::uint64_t size_bytes = 0;
  Stream stream = 0;  // where it was used, or to which the driver gave the memory
  Missing missing = Missing::AnyEvent;
};

class MemoryUses {
 public:
  explicit MemoryUses(HappensBefore& order) : order_(order) {}

  // `owner` gets memory to use on `stream` from now on: the first use of it by somebody else that
  // nothing orders before that.
  [[nodiscard]] std::optional<UnorderedUse> take(std::span<const Piece> pieces, Owner owner,
                                                 Stream stream);
  // `owner` has used the memory on these streams up to now.
  void give_back(std::span<const Piece> pieces, Owner owner, std::span<const Stream> streams);

  // A pool takes memory back in the stream's order, or at once (then it believes the host), and
  // hands it out for a stream: the driver sees to the order between the two.
  void pool_took(Piece piece, Stream stream);
  void pool_took_now(Piece piece);
  void pool_gave(Piece piece, Stream stream);

  // The host has waited for everything: no use can be in the way any more.
  void forget_all();

  [[nodiscard]] std::size_t remembered_count() const { return uses_.size(); }

 private:
  struct Use {
    Owner owner;
    std::uint64_t size_bytes = 0;
    Stream stream = 0;
    Epoch epoch = 0;
    Moment taken = 0;
    Moment ended = 0;
  };
  // Places [key, end): the uses that later users have to follow. Segments never overlap.
  struct Segment {
    std::uint64_t end = 0;
    std::vector<Use> uses;
  };
  // Memory of a pool: given to `stream` at `epoch`, after everything in `released`.
  struct PoolSegment {
    std::uint64_t end = 0;
    std::shared_ptr<const VectorClock> released;
    bool is_out = false;
    Stream stream = 0;
    Epoch epoch = 0;
  };
  [[nodiscard]] std::optional<UnorderedUse> unordered_use(Piece piece, Stream stream);
  [[nodiscard]] std::optional<UnorderedUse> unordered_allocation(Piece piece, Stream stream) const;
  [[nodiscard]] bool pool_orders(const Use& use, Piece piece, Stream stream) const;
  void pool_takes(Piece piece, const VectorClock& now);
  [[nodiscard]] UnorderedUse describe(const Use& use) const;

  HappensBefore& order_;
  std::map<std::uint64_t, Segment> uses_;
  std::map<std::uint64_t, PoolSegment> pools_;
  std::unordered_map<std::uint64_t, Moment> taken_;  // by the owner's request
};

}  // namespace simcuda::order
