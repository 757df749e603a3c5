// Random operations on two caches of pinned memory, in step: HostCache and another, as a rule
// PyTorch's own. After each operation the block and every counter must be equal. Checks; times
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"

namespace allocmark {

// The other cache, on a machine of its own. HostCache's functions by name.
struct OtherHostCache {
  host_caching::CountingDriver* driver = nullptr;
  std::function<host_caching::PinnedBlock(std::uint64_t size_bytes)> allocate;
  std::function<bool(host_caching::Address, host_caching::Stream)> use;
  std::function<void(host_caching::Address)> deallocate;
  std::function<void()> empty_cache;
  std::function<void()> background_pass;
  std::function<void(std::uint64_t pool)> begin_capture;
  std::function<void()> end_capture;
  std::function<void(std::uint64_t pool)> release_pool;
  std::function<void()> reset_peak;
  std::function<void()> reset_accumulated;
  std::function<host_caching::HostStatistics()> statistics;
  std::function<std::string(const std::string& conf)> change;  // PyTorch's text where refused
};

// The functions of a cache that has them all but `change`.
template <typename Cache>
[[nodiscard]] OtherHostCache other_cache(Cache& cache, host_caching::CountingDriver& driver) {
  return {.driver = &driver,
          .allocate = [&](std::uint64_t size_bytes) { return cache.allocate(size_bytes); },
          .use = [&](host_caching::Address address,
                     host_caching::Stream stream) { return cache.use(address, stream); },
          .deallocate = [&](host_caching::Address address) { cache.deallocate(address); },
          .empty_cache = [&] { cache.empty_cache(); },
          .background_pass = [&] { cache.background_pass(); },
          .begin_capture = [&](std::uint64_t pool) { cache.begin_capture(pool); },
          .end_capture = [&] { cache.end_capture(); },
          .release_pool = [&](std::uint64_t pool) { cache.release_pool(pool); },
          .reset_peak = [&] { cache.reset_peak(); },
          .reset_accumulated = [&] { cache.reset_accumulated(); },
          .statistics = [&] { return cache.statistics(); },
          .change = {}};
}

struct HostProgram {
  std::uint64_t seed = 1;
  std::uint64_t operation_count = 0;
  std::string pytorch;  // the release, as "2.13.0"
};

// How it went, up to the first difference.
struct HostLiveResult {
  std::string conf;  // at the start
  std::uint64_t operation_count = 0;
  std::uint64_t block_count = 0;    // requests that got one
  std::uint64_t reused_count = 0;   // of these, blocks that were pinned before
  std::uint64_t refusal_count = 0;  // requests that the machine had no memory for
  std::uint64_t capture_count = 0;
  std::uint64_t change_count = 0;   // of settings
  std::uint64_t counter_count = 0;  // values compared
  std::string operation;            // the one that differs; empty where none does
  std::string theirs;
  std::string ours;
};

// A config string for a program, from its seed: random values of the keys for pinned memory that
// the release knows, often none.
[[nodiscard]] std::string host_conf(const HostProgram& program);
// Bytes that both machines can pin, from the seed.
[[nodiscard]] std::uint64_t host_room_bytes(const HostProgram& program);

// The other cache must be new, with the settings host_conf(), on a machine with that room.
[[nodiscard]] HostLiveResult compare_host_caches(const HostProgram& program,
                                                 const OtherHostCache& other);

}  // namespace allocmark
