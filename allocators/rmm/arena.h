// RMM's arena_memory_resource: one piece of the device, shared out among the streams. Requests flow
// in, addresses flow out; the piece comes from another resource. Not thread-safe.
//
// The piece is cut into superblocks of at least 1 MiB. Each stream has an arena of superblocks, of
// which requests up to 1 MiB take the first block that fits, by address. Larger ones take of the
// superblocks that no arena has. Where that fails, the host waits for the device, all arenas give
// their superblocks back, and the request is tried once more.
//
// What is freed joins its neighbours within its superblock. A superblock that no arena has and that
// is empty joins its empty neighbours.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "allocators/rmm/resource.h"

namespace allocmark::rmm {

// A part of the piece, with blocks in it.
struct Superblock {
  std::uint64_t size_bytes = 0;
  std::map<std::uint64_t, std::uint64_t> free{};  // bytes, by address

  [[nodiscard]] bool is_empty() const {
    return free.size() == 1 && free.begin()->second == size_bytes;
  }
};
using Superblocks = std::map<std::uint64_t, Superblock>;  // by address

class Arena final : public Resource {
 public:
  // Superblocks are no smaller, so that the piece is not, and larger requests are no arena's.
  static constexpr std::uint64_t kSuperblockBytes = std::uint64_t{1} << 20;

  // `upstream` must outlive it. `size_bytes`, of the piece, is a multiple of 256.
  Arena(const Site& site, Resource& upstream, std::uint64_t size_bytes)
      : site_(site), upstream_(upstream), size_bytes_(size_bytes) {}

  [[nodiscard]] bool open() override;
  // Blocks the host where the first try fails.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) override;
  // Blocks the host until the stream's work is done, unless the block is small and of the stream's
  // own arena.
  void deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) override;

  [[nodiscard]] std::uint64_t taken_bytes(std::uint64_t size_bytes) const override;
  [[nodiscard]] std::uint64_t free_bytes(caching::Stream stream) const override;
  [[nodiscard]] std::uint64_t free_bytes_largest(caching::Stream stream) const override;

 private:
  [[nodiscard]] std::optional<std::uint64_t> try_allocate(std::uint64_t size_bytes,
                                                          Superblocks* own);
  [[nodiscard]] std::optional<std::uint64_t> take_shared(std::uint64_t size_bytes,
                                                         Superblocks* owner);
  [[nodiscard]] bool give_shared(std::uint64_t address, std::uint64_t size_bytes);
  void join_shared(Superblocks::node_type superblock);
  void collect();

  const Site site_;
  Resource& upstream_;
  const std::uint64_t size_bytes_;
  Superblocks shared_;                            // that no arena has
  std::map<caching::Stream, Superblocks> owned_;  // the streams' arenas
};

}  // namespace allocmark::rmm
