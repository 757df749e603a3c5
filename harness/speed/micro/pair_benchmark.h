// Registers the micro benchmarks with Google Benchmark: what one allocate and one deallocate cost,
// for every allocator, size and number of threads. Times; checks nothing but that requests succeed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace allocmark {

struct MicroOptions {
  std::vector<std::string> allocators;  // empty: all
  // Config strings, in the grammar of each allocator; an allocator runs those that it accepts. The
  // empty string is always among them.
  std::vector<std::string> confs;
  std::vector<std::uint64_t> sizes_bytes;
  std::vector<int> thread_counts;
};

// pair/...: allocate and deallocate in turn, so that a caching allocator hits its cache from the
// second pair on. cold/...: the same with the cache emptied (untimed) before each pair.
void register_pair_benchmarks(const MicroOptions& options);

}  // namespace allocmark
