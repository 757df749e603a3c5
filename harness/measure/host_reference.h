// How fast this host does an allocator's work: a fixed program of best-fit searches in a tree,
// look-ups in a hash table and merges along linked blocks, which is what caching allocators spend
// their time with. Host times of two machines differ by about as much as this does. Nothing flows
// in; the time of one request with its free flows out. This file times.
#pragma once

#include <cstdint>
#include <memory>

namespace allocmark {

class HostReference {
 public:
  HostReference();
  ~HostReference();
  HostReference(const HostReference&) = delete;
  HostReference& operator=(const HostReference&) = delete;

  // Median over a few repeats, after one that warms the caches, in ns for one request with its
  // free; takes about a millisecond. What else the machine does at this moment is in it.
  [[nodiscard]] double measure_ns();
  // The least of many repeats on the processor that is least disturbed: what the host can do when
  // it is left alone. Takes some ten milliseconds.
  [[nodiscard]] double measure_quiet_ns();

 private:
  class Program;
  [[nodiscard]] double repeat_ns();

  std::unique_ptr<Program> program_;
};

}  // namespace allocmark
